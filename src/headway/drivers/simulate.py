"""Virtual clock, modelled engines, scripted trajectories: a heap and nothing else.

The same machine and policies as live. Facts of one instant are applied in generations: all that are known, in
canonical order, then what they caused at that same instant, and so on; the live driver does likewise.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from typing import Protocol, assert_never

from headway.core.commands import Admit, CancelTurn, Command, Drop, GrantAction, Reject, StartTurn, WakeAt
from headway.core.facts import (
    ActionFinished,
    ActionRequested,
    Fact,
    TrajectoryAbandoned,
    TrajectoryFinished,
    TurnFinished,
    TurnRequested,
    Woke,
    canonical,
)
from headway.core.machine import Machine
from headway.core.units import MAIN, EngineId, Nanos, Tokens, TrajectoryId
from headway.errors import BugError
from headway.traces import Script

Recorder = Callable[[Fact, Sequence[Command]], None]


class EngineModel(Protocol):
    """One engine, modelled. It is told what starts and says when something ends."""

    def start(self, at: Nanos, start: StartTurn, prompt: Tokens, output: Tokens) -> None:
        """A turn begins."""
        ...

    def cancel(self, at: Nanos, cancel: CancelTurn) -> None:
        """A turn is given up."""
        ...

    def next_at(self) -> Nanos | None:
        """When the next turn ends if nothing else happens, None if none runs."""
        ...

    def finish(self, at: Nanos) -> list[TurnFinished]:
        """The turns that end at ``at``."""
        ...


@dataclass(slots=True)
class FixedCost:
    """An engine whose turns last what a function says when they start, whatever else runs there."""

    cost: Callable[[StartTurn, Tokens, Tokens], Nanos]
    running: list[tuple[int, int, Nanos, StartTurn, Tokens, Tokens]] = field(default_factory=list)
    gone: set[tuple[str, str, int, int]] = field(default_factory=set)
    serial: Callable[[], int] = field(default_factory=lambda: count().__next__)

    def start(self, at: Nanos, start: StartTurn, prompt: Tokens, output: Tokens) -> None:
        """A turn begins and is sure to end after its cost."""
        entry = (at + self.cost(start, prompt, output), self.serial(), at, start, prompt, output)
        heappush(self.running, entry)

    def cancel(self, at: Nanos, cancel: CancelTurn) -> None:  # noqa: ARG002 - the protocol's signature
        """A turn is given up."""
        self.gone.add((cancel.trajectory, cancel.stream, cancel.turn, cancel.attempt))

    def next_at(self) -> Nanos | None:
        """The earliest end."""
        while self.running and _identity(self.running[0][3]) in self.gone:
            heappop(self.running)
        return Nanos(self.running[0][0]) if self.running else None

    def finish(self, at: Nanos) -> list[TurnFinished]:
        """The turns whose time has come."""
        facts = []
        while self.next_at() is not None and self.running[0][0] <= at:
            end, _, began, start, prompt, output = heappop(self.running)
            facts.append(
                TurnFinished(
                    Nanos(end),
                    start.trajectory,
                    start.stream,
                    start.turn,
                    start.attempt,
                    prompt,
                    output,
                    Nanos(end - began),
                    Tokens(start.expected_cached),
                )
            )
        return facts


def _identity(start: StartTurn) -> tuple[str, str, int, int]:
    return start.trajectory, start.stream, start.turn, start.attempt


@dataclass(slots=True)
class _Player:
    """Where one trajectory stands in its script."""

    script: Script
    prompts: list[Tokens]
    step: int = 0
    action: int = 0

    def want_turn(self, at: Nanos) -> Fact:
        output = self.script.steps[self.step].output_tokens
        return TurnRequested(at, self.script.trajectory, MAIN, self.step, self.prompts[self.step], output)

    def turn_finished(self, at: Nanos) -> Fact:
        action = self.script.steps[self.step].action
        if action is None:
            return self._advance(at)
        return ActionRequested(at, self.script.trajectory, MAIN, self.action, action.environment)

    def action_finished(self, at: Nanos) -> Fact:
        self.action += 1
        return self._advance(at)

    def _advance(self, at: Nanos) -> Fact:
        self.step += 1
        if self.step == len(self.script.steps):
            return TrajectoryFinished(at, self.script.trajectory)
        return self.want_turn(at)


class Simulation:
    """One batch in virtual time."""

    def __init__(
        self,
        machine: Machine,
        scripts: Iterable[Script],
        engines: Mapping[EngineId, EngineModel],
        record: Recorder | None = None,
    ) -> None:
        self.machine = machine
        self._scripts = {script.trajectory: script for script in scripts}
        self._engines = engines
        self._record = record
        self._players: dict[TrajectoryId, _Player] = {}
        self._facts: list[tuple[int, int, Fact]] = []
        self._serial = count()

    def run(self, facts: Iterable[Fact]) -> Nanos:
        """Play ``facts`` and everything they lead to; return the time of the last fact.

        Raises: ``BugError`` if trajectories are left that nothing will ever move.
        """
        for fact in facts:
            self._later(fact)
        at = Nanos(0)
        while (now := self._next()) is not None:
            at = now
            generation = self._due(at)
            while generation:
                generation = self._apply(generation)
        if self.machine.world.trajectories and self.machine.world.engines:
            stuck = ", ".join(sorted(self.machine.world.trajectories)[:5])
            raise BugError(f"nothing is in flight, yet these wait: {stuck}")
        return at

    def _later(self, fact: Fact) -> None:
        heappush(self._facts, (fact.at, next(self._serial), fact))

    def _next(self) -> Nanos | None:
        times = [end for engine in self._engines.values() if (end := engine.next_at()) is not None]
        if self._facts:
            times.append(Nanos(self._facts[0][0]))
        return min(times, default=None)

    def _due(self, at: Nanos) -> list[Fact]:
        due: list[Fact] = []
        while self._facts and self._facts[0][0] <= at:
            due.append(heappop(self._facts)[2])
        for engine in self._engines.values():
            end = engine.next_at()
            if end is not None and end <= at:
                due.extend(engine.finish(at))
        return due

    def _apply(self, generation: list[Fact]) -> list[Fact]:
        """Handle the facts of one generation; return what they cause at the same instant."""
        caused: list[Fact] = []
        for fact in sorted(generation, key=canonical):
            commands = self.machine.handle(fact)
            if self._record is not None:
                self._record(fact, commands)
            if isinstance(fact, TurnFinished):
                caused.append(self._players[fact.trajectory].turn_finished(fact.at))
            elif isinstance(fact, ActionFinished):
                caused.append(self._players[fact.trajectory].action_finished(fact.at))
            for command in commands:
                self._perform(command, fact.at, caused)
        return caused

    def _perform(self, command: Command, at: Nanos, caused: list[Fact]) -> None:
        match command:
            case StartTurn():
                player = self._players[command.trajectory]
                step = player.script.steps[command.turn]
                self._engines[command.engine].start(at, command, player.prompts[command.turn], step.output_tokens)
            case GrantAction():
                player = self._players[command.trajectory]
                action = player.script.steps[player.step].action
                if action is None:
                    raise BugError(f"{command!r} was granted, and the script has no action there")
                end = Nanos(at + action.service)
                self._later(
                    ActionFinished(
                        end, command.trajectory, command.stream, command.action, command.attempt, action.service
                    )
                )
            case Admit():
                script = self._scripts[command.trajectory]
                player = self._players[command.trajectory] = _Player(script, script.prompts())
                caused.append(player.want_turn(at))
            case Reject():
                if command.item != "sample":
                    caused.append(TrajectoryAbandoned(at, command.trajectory, command.reason))
            case WakeAt():
                self._later(Woke(command.at))
            case CancelTurn():
                self._engines[command.engine].cancel(at, command)
            case Drop():
                pass
            case _:
                assert_never(command)
