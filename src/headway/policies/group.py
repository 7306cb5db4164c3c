"""The group index: how long a chain still is by what its group has shown, in closed form.

For geometric lengths with hazard h ~ Beta(a, b) shared by a group, the mean residual after A actions and D ends of its
members is (a + b + A - 1) / (a + D - 1): ends count, and so do actions of those that have not ended. With k = 1.5
pseudo-ends that is (A + k m0) / (D + k), m0 being the mean of the batch so far, itself drawn towards 10. A member's
index is n + 2 times that; without a group it is n + (n + k m0) / k, which orders as "most actions first" does. While
the hazard guard says that hazards rise, first come is first served.
"""

from collections.abc import Collection, Container, Hashable

from headway.core.policy import Priority
from headway.core.world import Trajectory, World
from headway.policies.guard import HazardGuard

K = 1.5
FIRST_MEAN = 10.0
_REKEYS = 32  # per batch, when the batch's mean has moved


class LongestGroupFirst(Priority):
    """By the group index, largest first; first come, first served while the guard is up."""

    def __init__(self, guard: HazardGuard) -> None:
        self._guard = guard
        self._flips = 0

    def bucket(self, trajectory: Trajectory) -> Hashable:
        """Its group; everybody's while the guard is up."""
        return "level" if self._guard.rising else (trajectory.group.id, _alone(trajectory))

    def member(self, trajectory: Trajectory) -> float:
        """Its progress, most first."""
        if self._guard.rising:
            return 0.0
        return -trajectory.completed * (1 + 1 / K if _alone(trajectory) else 1.0)

    def offset(self, trajectory: Trajectory, world: World) -> float:
        """What its group's members still have to do, twice, most first."""
        if self._guard.rising:
            return 0.0
        prior = batch_mean(world)
        if _alone(trajectory):
            return -prior
        group = trajectory.group
        return -2 * (group.actions + K * prior) / (group.finished + K)

    def moved(
        self, trajectory: Trajectory, world: World, waiting: Container[Hashable]
    ) -> Collection[tuple[Hashable, float]] | None:
        """Its group; everybody when the verdict changed, or the batch's mean after another N/32 ends."""
        if self._flips != self._guard.flips:
            self._flips = self._guard.flips
            return None
        ended = len(world.done)
        lesson = max(1, (len(world.trajectories) + ended) // _REKEYS)
        if trajectory.id in world.done and ended % lesson == 0:
            return None
        bucket = self.bucket(trajectory)
        return [(bucket, self.offset(trajectory, world))] if bucket in waiting else ()


def batch_mean(world: World) -> float:
    """Actions per chain in the batch so far, those that have not ended counted as such."""
    return (world.actions + K * FIRST_MEAN) / (len(world.done) + K)


def _alone(trajectory: Trajectory) -> bool:
    return trajectory.group.id is None or trajectory.group.submitted < 2
