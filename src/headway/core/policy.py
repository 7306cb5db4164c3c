"""The questions that the machine asks, as Protocols. Policies answer with values and change nothing."""

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Protocol

from headway.core.facts import FailureKind
from headway.core.units import SECOND, Nanos
from headway.core.world import EngineState, Stream, Trajectory, World


class Priority(Protocol):
    """Who goes first where something is scarce. The score of an entry is ``offset(bucket) + member``.

    Smaller is sooner; equal scores go in order of arrival. ``member`` is read when an entry starts to wait,
    ``offset`` may move while it waits: the machine asks again when the bucket's group made progress.
    """

    def bucket(self, trajectory: Trajectory) -> Hashable:
        """The name of what moves together, a group's id or None for everybody else."""
        ...

    def member(self, trajectory: Trajectory) -> float:
        """The place within the bucket."""
        ...

    def offset(self, trajectory: Trajectory, world: World) -> float:
        """The score of the whole bucket that this trajectory belongs to."""
        ...


class Admission(Protocol):
    """May one more trajectory be live?"""

    def admits(self, trajectory: Trajectory, world: World) -> bool:
        """True if the sample may start now."""
        ...


class Routing(Protocol):
    """Which engine should take a stream's next turn?"""

    def choose(self, stream: Stream, world: World) -> EngineState:
        """Return one of ``world.engines`` (never empty here) that can hold the prompt."""
        ...


class Residency(Protocol):
    """How much may live in one engine's cache at once?"""

    def room(self, engine: EngineState) -> int:
        """Most tokens that a turn of a stream may need which is not resident there; negative: none may come in."""
        ...

    def crowded(self, engine: EngineState) -> bool:
        """Is more counted there than should be, so that an idle stream must be dropped?"""
        ...


@dataclass(frozen=True, slots=True)
class Retries:
    """How often each kind of failure is tried, the first try included, and how long to wait between.

    Waits double from ``first`` to ``longest`` and are spread by a hash of the identity, so that turns that failed
    together don't come back together.
    """

    attempts: dict[FailureKind, int] = field(
        default_factory=lambda: {"lost": 6, "overloaded": 20, "timeout": 2, "error": 2}
    )
    first: Nanos = Nanos(SECOND // 4)
    longest: Nanos = Nanos(30 * SECOND)

    def wait(self, tries: int, spread: float) -> int:
        """Nanoseconds to wait after the ``tries``-th try failed; ``spread`` in [0, 1) adds up to half of it."""
        base = min(self.longest, self.first << min(tries - 1, 20))
        return base + int(base * spread / 2)

    def again(self, kind: FailureKind, tries: int) -> bool:
        """May what failed ``tries`` times, the last time like this, be tried again?"""
        return tries < self.attempts.get(kind, 1)


@dataclass(frozen=True, slots=True)
class Policies:
    """Everything that decides, as one value.

    ``order`` sorts samples that wait for admission, ``priority`` actions and turns that wait. ``overtakes`` bounds
    how many later arrivals may pass an entry of a queue; ``bypass`` how many parked turns one retry looks at.
    """

    name: str
    admission: Admission
    order: Priority
    priority: Priority
    routing: Routing
    residency: Residency
    coupled: bool = False
    overtakes: int = 512
    bypass: int = 32
    retries: Retries = field(default_factory=Retries)
