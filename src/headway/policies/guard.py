"""Does the hazard rise? Where lengths level off (uniform, capped, bimodal), progress speaks against a long rest.

The test: an action beyond the mean progress of its group's other members is one exposure, an end there one event. Below
``SPLIT`` times that mean they count as early, above as late. Hazards rise if the late share of events exceeds the early
one by ``ON`` standard errors (two proportions, pooled), each side having at least ``LEAST`` events; they rise no more
below ``OFF``. Below the mean nothing is tested: even a lognormal's hazard rises there. Samples without a group are
compared with all others.
"""

from math import sqrt

from headway.core.facts import ActionFinished, Fact, TrajectoryFinished
from headway.core.policy import Observer
from headway.core.world import Trajectory, World

SPLIT = 1.5
ON, OFF = 3.0, 1.5
LEAST = 12


class HazardGuard(Observer):
    """``rising``: the verdict. ``flips``: how often it changed."""

    def __init__(self) -> None:
        self.rising = False
        self.flips = 0
        self._exposed = [0, 0]
        self._ended = [0, 0]

    def observe(self, fact: Fact, world: World) -> None:
        """Count exposures and events; judge at events."""
        if isinstance(fact, ActionFinished):
            self._count(world.trajectories[fact.trajectory], self._exposed)
        elif isinstance(fact, TrajectoryFinished):
            self._count(world.trajectories[fact.trajectory], self._ended)
            self._judge()

    def _count(self, trajectory: Trajectory, tally: list[int]) -> None:
        group = trajectory.group
        others = (group.actions - trajectory.completed) / max(1, group.admitted - 1)
        if trajectory.completed > others > 0:
            tally[trajectory.completed > SPLIT * others] += 1

    def _judge(self) -> None:
        if min(self._ended) < LEAST:
            return
        early, late = (
            ended / max(1, exposed + ended) for ended, exposed in zip(self._ended, self._exposed, strict=True)
        )
        pooled = sum(self._ended) / (sum(self._exposed) + sum(self._ended))
        spread = pooled * (1 - pooled) * sum(1 / (a + b) for a, b in zip(self._exposed, self._ended, strict=True))
        score = (late - early) / sqrt(spread) if spread else 0.0
        rising = score > (OFF if self.rising else ON)
        self.flips += rising != self.rising
        self.rising = rising
