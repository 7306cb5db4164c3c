"""Sums over one simulated batch, taken fact by fact, and the check that work in equals work out.

Cheaper than the whole read model, of which a simulation needs little: it is asked for thousands of batches.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from headway.core.commands import Admit, CancelTurn, Command, GrantAction, Reject, StartTurn
from headway.core.facts import (
    ActionFailed,
    ActionFinished,
    ActionRequested,
    Fact,
    TrajectoryAbandoned,
    TrajectoryFinished,
    TurnFinished,
    TurnRequested,
)
from headway.core.units import Nanos, TrajectoryId
from headway.drivers.simulate import Totals
from headway.errors import BugError
from headway.traces import Script


@dataclass(slots=True)
class Tally:
    """What a batch did so far.

    ``reusable``: prompt tokens that an earlier turn of the same trajectory had in a cache, ``reused``: those found
    there; first turns are left out of both. ``expected``: those that the coordinator counted on. Waits are in
    nanoseconds: for a slot, for an engine, from asking to starting. ``ended``: when each trajectory finished.
    """

    turns: int = 0
    actions: int = 0
    outputs: int = 0
    prompts: int = 0
    cached: int = 0
    reusable: int = 0
    reused: int = 0
    expected: int = 0
    facts: int = 0
    failed: int = 0
    cancelled: int = 0
    action_service: int = 0
    first_admission: int | None = None
    longest_slot_wait: int = 0
    longest_turn_wait: int = 0
    slot_waits: int = 0
    turn_waits: int = 0
    ended: list[int] = field(default_factory=list[int])
    finished: list[TrajectoryId] = field(default_factory=list[TrajectoryId])
    _asked: dict[TrajectoryId, int] = field(default_factory=dict[TrajectoryId, int])
    _context: dict[TrajectoryId, int] = field(default_factory=dict[TrajectoryId, int])
    _believed: dict[TrajectoryId, int] = field(default_factory=dict[TrajectoryId, int])

    def apply(self, fact: Fact, commands: Sequence[Command]) -> None:
        """Count one fact and the commands that it caused."""
        self.facts += 1
        match fact:
            case TurnRequested() | ActionRequested():
                self._asked[fact.trajectory] = fact.at
            case TurnFinished():
                self._turn(fact)
            case ActionFinished():
                self.actions += 1
                self.action_service += fact.service
            case ActionFailed():
                self.actions += fact.kind != "lost"
                self._asked[fact.trajectory] = fact.at
            case TrajectoryFinished():
                self.ended.append(fact.at)
                self.finished.append(fact.trajectory)
                self._context.pop(fact.trajectory, None)
            case TrajectoryAbandoned():
                self.failed += not fact.again
                self.cancelled += 1
            case _:
                pass
        for command in commands:
            self._command(command, fact.at)

    def _turn(self, fact: TurnFinished) -> None:
        cached = fact.cached_tokens or 0
        self.turns += 1
        self.outputs += fact.output_tokens
        self.prompts += fact.prompt_tokens
        self.cached += cached
        if fact.turn:
            reusable = min(self._context.get(fact.trajectory, 0), fact.prompt_tokens)
            self.reusable += reusable
            self.reused += min(cached, reusable)
            self.expected += min(self._believed.get(fact.trajectory, 0), reusable)
        self._context[fact.trajectory] = fact.prompt_tokens + fact.output_tokens

    def _command(self, command: Command, at: int) -> None:
        match command:
            case StartTurn():
                self._believed[command.trajectory] = command.expected_cached
                waited = at - self._asked[command.trajectory]
                self.turn_waits += waited
                self.longest_turn_wait = max(self.longest_turn_wait, waited)
            case GrantAction():
                waited = at - self._asked[command.trajectory]
                self.slot_waits += waited
                self.longest_slot_wait = max(self.longest_slot_wait, waited)
            case Admit():
                if self.first_admission is None:
                    self.first_admission = at
            case Reject(item="sample"):
                self.failed += 1
                self.cancelled += 1
            case CancelTurn():
                self.cancelled += 1
                self._asked[command.trajectory] = at
            case _:
                pass

    @property
    def makespan(self) -> Nanos:
        """First admission to last finish; 0 while nothing has finished."""
        return Nanos(self.ended[-1] - (self.first_admission or 0)) if self.ended else Nanos(0)

    @property
    def hit_rate(self) -> float:
        """Share of reusable prompt tokens that engines found in their cache; 1 where none was reusable."""
        return self.reused / self.reusable if self.reusable else 1.0

    @property
    def expected_hit_rate(self) -> float:
        """The same as the coordinator believed it."""
        return self.expected / self.reusable if self.reusable else 1.0

    def check(self, scripts: Iterable[Script], engines: Iterable[Totals]) -> None:
        """Work in is work out: all of it, once. Raises: ``BugError``.

        Where trajectories were abandoned or turns cancelled, more may have been done than is asked for, never less.
        """
        by_name = {script.trajectory: script for script in scripts}
        done = [by_name[name] for name in self.finished]
        steps = [step for script in done for step in script.steps]
        totals = list(engines)
        pairs = {
            "samples": (len(by_name), len(done) + self.failed),
            "turns": (len(steps), self.turns),
            "actions": (sum(step.action is not None for step in steps), self.actions),
            "output tokens": (sum(step.output_tokens for step in steps), self.outputs),
            "decoded tokens": (self.outputs, sum(t.decoded for t in totals)),
            "prompt tokens": (self.prompts - self.cached, sum(t.computed - t.recomputed for t in totals)),
        }
        for what, (due, found) in pairs.items():
            if found < due or (found > due and not self.cancelled):
                raise BugError(f"the simulation lost count of {what}: {due} asked for, {found} done")
