"""Virtual clock, modelled engines and environments, scripted trajectories: heaps and nothing else.

The same machine and policies as live. Facts of one instant are applied in generations: all that are known, in
canonical order, then what they caused at that same instant, and so on; the live driver does likewise.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import heappop, heappush
from itertools import count
from typing import assert_never

from headway.core.commands import Admit, CancelTurn, Command, Drop, GrantAction, Reject, StartTurn, WakeAt
from headway.core.facts import (
    ActionFailed,
    ActionFinished,
    ActionRequested,
    EngineLost,
    EngineSampled,
    Fact,
    SampleSubmitted,
    SlotsChanged,
    TrajectoryAbandoned,
    TrajectoryFinished,
    TurnFinished,
    TurnRequested,
    Woke,
    canonical,
)
from headway.core.machine import Machine
from headway.core.units import EngineId, EnvironmentId, Nanos, TrajectoryId
from headway.drivers.simulate.environment import EnvironmentModel
from headway.drivers.simulate.models import EngineModel
from headway.drivers.simulate.player import Player
from headway.errors import BugError
from headway.traces import Script

_QUIET = frozenset({TurnRequested, ActionRequested, ActionFinished, ActionFailed, EngineSampled, SampleSubmitted})
"""Facts that lead to nothing but commands: most of them."""

Recorder = Callable[[Fact, Sequence[Command]], None]


class Simulation:
    """One batch in virtual time.

    Args:
        machine: decides; new, or restored.
        scripts: what each sample does.
        engines: the engines, which the facts given to :meth:`run` must let join.
        record: told every fact with its commands.
        environments: what making instances and coming back to slots costs; nothing where one is missing.
        bounded: agents tell how long their answers will be at most (and, scripted, will be exactly).
        sample_every: how often engines report on themselves; None: never.
    """

    def __init__(
        self,
        machine: Machine,
        scripts: Iterable[Script],
        engines: Mapping[EngineId, EngineModel],
        record: Recorder | None = None,
        *,
        environments: Mapping[EnvironmentId, EnvironmentModel] | None = None,
        bounded: bool = True,
        sample_every: Nanos | None = None,
    ) -> None:
        self.machine = machine
        self._scripts = {script.trajectory: script for script in scripts}
        self._engines = dict(engines)
        self._environments = dict(environments or {})
        self._record, self._bounded = record, bounded
        self._players: dict[TrajectoryId, Player] = {}
        self._facts: list[tuple[int, int, Fact]] = []
        self._dues: list[tuple[int, int, EngineId]] = []
        self._touched: set[EngineId] = set()
        self._serial = count()
        self._every = sample_every
        self._sample_at = sample_every or Nanos(0)

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
            self._watch(at)
        if self.machine.world.trajectories and self.machine.world.engines:
            stuck = ", ".join(sorted(self.machine.world.trajectories)[:5])
            raise BugError(f"nothing is in flight, yet these wait: {stuck}")
        return at

    # -- time -------------------------------------------------------------------------------------------------

    def _later(self, fact: Fact) -> None:
        heappush(self._facts, (fact.at, next(self._serial), fact))

    def _watch(self, at: Nanos) -> None:
        """Look up when the engines that something happened to want attention next."""
        for name in self._touched:
            due = self._engines[name].next_at()
            if due is not None:
                heappush(self._dues, (max(due, at), next(self._serial), name))
        self._touched.clear()

    def _next(self) -> Nanos | None:
        while self._dues and not self._holds(self._dues[0]):
            heappop(self._dues)
        times = [heap[0][0] for heap in (self._dues, self._facts) if heap]
        if not times:
            return None
        if self._every and self._sample_at <= min(times):
            return Nanos(self._sample_at)
        return Nanos(min(times))

    def _holds(self, entry: tuple[int, int, EngineId]) -> bool:
        due = self._engines[entry[2]].next_at()
        return due is not None and due <= entry[0]

    def _due(self, at: Nanos) -> list[Fact]:
        due: list[Fact] = []
        while self._facts and self._facts[0][0] <= at:
            fact = heappop(self._facts)[2]
            if not isinstance(fact, ActionFinished | ActionFailed):
                due.append(fact)
            elif self._runs(fact):
                due.append(fact)
                due.extend(self._acted(fact))
        while self._dues and self._dues[0][0] <= at:
            entry = heappop(self._dues)
            if self._holds(entry):
                due.extend(self._engines[entry[2]].finish(at))
                self._touched.add(entry[2])
        if self._every and at >= self._sample_at:
            self._sample_at = Nanos(self._sample_at + self._every)
            due.extend(self._samples(at))
        return due

    def _runs(self, fact: ActionFinished | ActionFailed) -> bool:
        """Is the action still wanted? Its trajectory may have been abandoned since it was granted."""
        player = self._players.get(fact.trajectory)
        return player is not None and player.attempt == fact.attempt

    def _acted(self, fact: ActionFinished | ActionFailed) -> list[Fact]:
        """What the agent asks for next: it ended its action itself, and needs nobody to tell it so."""
        player = self._players[fact.trajectory]
        if player.acting is not None and player.acting.environment in self._environments:
            self._environments[player.acting.environment].end(fact.trajectory)
        lost = isinstance(fact, ActionFailed) and fact.kind == "lost"
        return [] if lost else [player.action_finished(fact.at)]

    def _samples(self, at: Nanos) -> list[Fact]:
        samples = []
        for name in self.machine.world.engines:
            sample = self._engines[name].sample(at)
            if sample is not None:
                samples.append(sample)
                self._touched.add(name)
        return list(samples)

    # -- facts and commands -------------------------------------------------------------------------------------

    def _apply(self, generation: list[Fact]) -> list[Fact]:
        """Handle the facts of one generation; return what they cause at the same instant."""
        caused: list[Fact] = []
        if len(generation) > 1:
            generation.sort(key=canonical)
        for fact in generation:
            commands = self.machine.handle(fact)
            if self._record is not None:
                self._record(fact, commands)
            if type(fact) not in _QUIET:
                self._follow(fact, caused)
            for command in commands:
                self._perform(command, fact.at, caused)
        return caused

    def _follow(self, fact: Fact, caused: list[Fact]) -> None:
        """What a fact leads to that needs no command."""
        match fact:
            case TurnFinished():
                caused.append(self._players[fact.trajectory].turn_finished(fact.at))
            case TrajectoryFinished() | TrajectoryAbandoned():
                self._over(fact)
            case EngineLost():
                self._engines[fact.engine].lose(fact.at)
                self._touched.add(fact.engine)
            case SlotsChanged():
                if fact.environment in self._environments:
                    self._environments[fact.environment].resize(fact.slots)
            case _:
                pass

    def _over(self, fact: TrajectoryFinished | TrajectoryAbandoned) -> None:
        for environment in self._environments.values():
            environment.release(fact.trajectory)
        player = self._players.pop(fact.trajectory, None)
        if player is not None and player.engine is not None:
            self._engines[player.engine].ended(fact.at, fact.trajectory)
            self._touched.add(player.engine)

    def _perform(self, command: Command, at: Nanos, caused: list[Fact]) -> None:
        match command:
            case StartTurn():
                player = self._players[command.trajectory]
                player.engine = command.engine
                self._engines[command.engine].start(at, command, player.prompt, player.current.output_tokens)
                self._touched.add(command.engine)
            case GrantAction():
                self._later(self._act(command, at))
            case Admit():
                player = self._players[command.trajectory] = Player(self._scripts[command.trajectory], self._bounded)
                caused.append(player.want_turn(at))
            case Reject():
                if command.item != "sample":
                    caused.append(TrajectoryAbandoned(at, command.trajectory, command.reason))
            case WakeAt():
                self._later(Woke(command.at))
            case CancelTurn():
                self._engines[command.engine].cancel(at, command)
                self._touched.add(command.engine)
            case Drop():
                pass
            case _:
                assert_never(command)

    def _act(self, grant: GrantAction, at: Nanos) -> ActionFinished | ActionFailed:
        """How a granted action will end, and when."""
        player = self._players[grant.trajectory]
        action = player.acting
        if action is None:
            raise BugError(f"{grant!r} was granted, and the script has no action there")
        player.attempt = grant.attempt
        place = self._environments.get(grant.environment)
        service = action.service if place is None else place.begin(grant, action.service)
        who = grant.trajectory, grant.stream, grant.action, grant.attempt
        if player.tries < len(action.failures):
            kind = action.failures[player.tries]
            player.tries += 1
            return ActionFailed(Nanos(at + service), *who, kind, f"its place failed ({kind}), as scripted")
        return ActionFinished(Nanos(at + service), *who, service)
