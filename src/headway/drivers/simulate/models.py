"""What the simulator needs of a modelled engine, and the simplest one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from typing import Protocol

from headway.core.commands import CancelTurn, StartTurn
from headway.core.facts import EngineSampled, TurnFailed, TurnFinished
from headway.core.units import Nanos, Tokens, TrajectoryId


class EngineModel(Protocol):
    """One engine, modelled. It is told what starts and says when something ends."""

    def start(self, at: Nanos, start: StartTurn, prompt: Tokens, output: Tokens) -> None:
        """A turn begins."""
        ...

    def cancel(self, at: Nanos, cancel: CancelTurn) -> None:
        """A turn is given up."""
        ...

    def ended(self, at: Nanos, trajectory: TrajectoryId) -> None:
        """A trajectory whose turns ran here is over."""
        ...

    def lose(self, at: Nanos) -> None:
        """The engine dies, with its cache and whatever it ran."""
        ...

    def sample(self, at: Nanos) -> EngineSampled | None:
        """What it says of itself."""
        ...

    def next_at(self) -> Nanos | None:
        """When something happens if nothing else starts, None if nothing runs. Cheap: it is asked often."""
        ...

    def finish(self, at: Nanos) -> Sequence[TurnFinished | TurnFailed]:
        """The turns that end by ``at``, which is not behind :meth:`next_at`; there may be none."""
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

    def ended(self, at: Nanos, trajectory: TrajectoryId) -> None:
        """Nothing is kept of a trajectory."""

    def lose(self, at: Nanos) -> None:  # noqa: ARG002 - the protocol's signature
        """Whatever ran is gone."""
        self.running.clear()

    def sample(self, at: Nanos) -> EngineSampled | None:  # noqa: ARG002 - the protocol's signature
        """It says nothing."""
        return None

    def next_at(self) -> Nanos | None:
        """The earliest end."""
        while self.running and _identity(self.running[0][3]) in self.gone:
            heappop(self.running)
        return Nanos(self.running[0][0]) if self.running else None

    def finish(self, at: Nanos) -> list[TurnFinished | TurnFailed]:
        """The turns whose time has come."""
        facts: list[TurnFinished | TurnFailed] = []
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
