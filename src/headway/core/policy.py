"""The questions that the machine asks, as Protocols. Policies answer with values and change nothing."""

from collections.abc import Callable, Collection, Container, Hashable
from dataclasses import dataclass, field
from typing import Protocol

from headway.core.facts import Fact, FailureKind
from headway.core.units import SECOND, Nanos
from headway.core.world import EngineState, Stream, Trajectory, World


class Priority(Protocol):
    """Who goes first where something is scarce. The score of an entry is ``offset(bucket) + member``.

    Smaller is sooner; equal scores go in order of arrival. ``member`` is read when an entry starts to wait,
    ``offset`` may move while it waits: the machine asks what moved when a trajectory was admitted, acted or ended.
    """

    def bucket(self, trajectory: Trajectory) -> Hashable:
        """The name of what moves together."""
        ...

    def member(self, trajectory: Trajectory) -> float:
        """The place within the bucket."""
        ...

    def offset(self, trajectory: Trajectory, world: World) -> float:
        """The score of the whole bucket that this trajectory belongs to."""
        ...

    def moved(
        self, trajectory: Trajectory, world: World, waiting: Container[Hashable]
    ) -> Collection[tuple[Hashable, float]] | None:
        """Buckets whose offset this trajectory's progress moved, with the new one; None: perhaps all of them.

        ``waiting`` holds the buckets that somebody waits in; of the others nobody needs to hear.
        All of them is allowed a bounded number of times per batch, a bucket or two at other times.
        """
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

    def victim(self, engine: EngineState) -> Stream:
        """Whose context is given up first where it is crowded and somebody idles: the one that the engine evicts."""
        return engine.kept[0].stream


class Observer(Protocol):
    """A policy with a state of its own, which is folded from facts and from nothing else."""

    def observe(self, fact: Fact, world: World) -> None:
        """Learn of a fact that was accepted, before it is applied."""
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

    ``order`` sorts samples that wait for admission, ``priority`` actions and turns that wait, ``acting`` the actions if
    they have an order of their own. ``overtakes`` bounds how many later arrivals may pass an entry of a queue;
    ``bypass`` how many parked turns one retry looks at. ``begin``: makes the same policies with a state of their own,
    out of a world that may have a past; every machine calls it once, and again after each ``CoordinatorStarted``.
    ``observers``: those of the policies that have such a state.
    """

    name: str
    admission: Admission
    order: Priority
    priority: Priority
    routing: Routing
    residency: Residency
    acting: Priority | None = None
    coupled: bool = False
    overtakes: int = 512
    bypass: int = 32
    retries: Retries = field(default_factory=Retries)
    begin: Callable[["Policies", World], "Policies"] | None = None
    observers: tuple[Observer, ...] = ()

    def begun(self, world: World) -> "Policies":
        """These policies, ready for one machine."""
        return self if self.begin is None else self.begin(self, world)
