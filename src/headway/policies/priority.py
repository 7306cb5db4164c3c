"""Who goes first where slots, or an engine's places, are scarce. One signal for actions and for turns."""

# ruff: noqa: ARG002 - the protocol's signatures

from collections.abc import Collection, Container, Hashable
from dataclasses import dataclass
from zlib import crc32

from headway.core.policy import Priority
from headway.core.units import SECOND
from headway.core.world import Trajectory, World


@dataclass(frozen=True, slots=True)
class _OneBucket(Priority):
    """Entries keep the place that they had when they started to wait."""

    def bucket(self, trajectory: Trajectory) -> Hashable:
        """Everybody in one bucket."""
        return None

    def offset(self, trajectory: Trajectory, world: World) -> float:
        """The one bucket stays where it is."""
        return 0.0

    def moved(
        self, trajectory: Trajectory, world: World, waiting: Container[Hashable]
    ) -> Collection[tuple[Hashable, float]]:
        """Nothing moves."""
        return ()


@dataclass(frozen=True, slots=True)
class Fifo(_OneBucket):
    """First come, first served."""

    def member(self, trajectory: Trajectory) -> float:
        """Equal for all: arrival decides."""
        return 0.0


@dataclass(frozen=True, slots=True)
class Random(_OneBucket):
    """A seeded lottery, drawn anew at every wait."""

    seed: int = 0

    def member(self, trajectory: Trajectory) -> float:
        """A hash of seed, trajectory and progress."""
        return float(crc32(f"{self.seed}/{trajectory.id}/{trajectory.next_action}".encode()))


@dataclass(frozen=True, slots=True)
class MostActionsFirst(_OneBucket):
    """Chain-Advancing Action Scheduling, plain: whoever has completed most actions goes first.

    With independent lengths whose hazard falls (heavy tails), attained progress predicts remaining work (Weber 1982);
    with rising hazard it is the wrong way round.
    """

    def member(self, trajectory: Trajectory) -> float:
        """Completed actions, most first."""
        return -float(trajectory.completed)


@dataclass(frozen=True, slots=True)
class MostServiceFirst(_OneBucket):
    """CAAS by service time attained (turns and actions), instead of by the number of actions."""

    def member(self, trajectory: Trajectory) -> float:
        """Attained service in seconds, most first."""
        return -trajectory.attained / SECOND


@dataclass(frozen=True, slots=True)
class LongestHintFirst(_OneBucket):
    """Most remaining actions first, by the length that the caller gave with the sample; none given counts as 0."""

    def member(self, trajectory: Trajectory) -> float:
        """Remaining actions by the hint, most first."""
        return trajectory.completed - (trajectory.hint or 0.0)


@dataclass(frozen=True, slots=True)
class FirstArrivalFirst(_OneBucket):
    """Whoever came first to the batch, at every turn."""

    def member(self, trajectory: Trajectory) -> float:
        """Its place in the caller's order."""
        return float(trajectory.index)


@dataclass(frozen=True, slots=True)
class SmallestContextFirst(_OneBucket):
    """Whoever needs least memory."""

    def member(self, trajectory: Trajectory) -> float:
        """Tokens of all its contexts."""
        return float(sum(max(stream.context, stream.prompt) for stream in trajectory.streams.values()))
