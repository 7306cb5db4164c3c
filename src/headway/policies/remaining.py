"""Longest remaining time first, judged by what it means for the end of the batch.

The makespan of chains that share slots is bound by the longest of them, and list scheduling by what is left of each
chain is optimal or close to it for known lengths (Hu 1961, "level"; Graham 1969). Lengths are not known here; their
posterior stands in for them. Whoever will surely be done before all slots have done all other work has time; what
counts is the expected time by which a chain outlasts that horizon, E[(R - H)+]. For heavy tails it grows with progress,
where lengths level off it falls, so no guard is needed against lengths on which "most progress first" is the wrong way
round.
"""

from collections.abc import Collection, Container, Hashable

from headway.core.policy import Priority
from headway.core.world import Trajectory, World
from headway.policies.forecast import Forecast, pace, stage, subject

_PROBE = -1e12
"""Sooner than any forecast."""


class LongestRemainingFirst(Priority):
    """By forecast. Members of a group at the same stage move together."""

    def __init__(self, forecast: Forecast) -> None:
        self._forecast = forecast
        self._lessons = forecast.lessons

    def bucket(self, trajectory: Trajectory) -> Hashable:
        """Its group, or whatever it shares a forecast with, and how far it has come."""
        return subject(trajectory), stage(trajectory.completed)

    def member(self, trajectory: Trajectory) -> float:  # noqa: ARG002 - the protocol's signature
        """Equal for all: arrival decides."""
        return 0.0

    def offset(self, trajectory: Trajectory, world: World) -> float:
        """Seconds by which it may outlast the horizon, most first."""
        cost = pace(trajectory.group, world)
        return -self._forecast.urgency(subject(trajectory), stage(trajectory.completed), cost)

    def moved(
        self, trajectory: Trajectory, world: World, waiting: Container[Hashable]
    ) -> Collection[tuple[Hashable, float]] | None:
        """All stages of its group at which somebody waits; everybody after a lesson."""
        forecast = self._forecast
        if self._lessons != forecast.lessons:
            self._lessons = forecast.lessons
            return None
        whose = subject(trajectory)
        if whose is None:
            return ()
        cost = pace(trajectory.group, world)
        buckets = [((whose, at), at) for at in forecast.stages(whose)]
        return [(bucket, -forecast.urgency(whose, at, cost)) for bucket, at in buckets if bucket in waiting]


class ProbeThenLongest(Priority):
    """The order of admission: one of each group first, whose length is then known best; then the longest forecast."""

    def __init__(self, forecast: Forecast) -> None:
        self._forecast = forecast
        self._lessons = forecast.lessons

    def bucket(self, trajectory: Trajectory) -> Hashable:
        """What it shares a forecast with."""
        return subject(trajectory)

    def member(self, trajectory: Trajectory) -> float:  # noqa: ARG002 - the protocol's signature
        """Equal for all: arrival decides."""
        return 0.0

    def offset(self, trajectory: Trajectory, world: World) -> float:
        """Before all others while nobody of its group has been admitted."""
        group = trajectory.group
        if group.id is not None and not group.admitted:
            return _PROBE
        return -self._forecast.actions(subject(trajectory), 0) * pace(group, world)

    def moved(
        self, trajectory: Trajectory, world: World, waiting: Container[Hashable]
    ) -> Collection[tuple[Hashable, float]] | None:
        """Its group; everybody after a lesson."""
        if self._lessons != self._forecast.lessons:
            self._lessons = self._forecast.lessons
            return None
        bucket = subject(trajectory)
        return [(bucket, self.offset(trajectory, world))] if bucket in waiting else ()
