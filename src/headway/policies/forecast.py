"""How much each trajectory still has to do, in seconds of service, learnt from facts as they come.

The forecast is the state of the policies that look ahead: one of it serves the order of admission, of actions and of
turns. Actions still to come follow from :mod:`~headway.policies.lengths`, what one costs (with the turn before it) from
the service times of the group, drawn towards the batch's mean while they are few.
"""

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from math import log

from headway.core.facts import (
    ActionFinished,
    ActionRequested,
    Fact,
    SampleSubmitted,
    TrajectoryAbandoned,
    TrajectoryFinished,
)
from headway.core.policy import Observer
from headway.core.units import SECOND, TrajectoryId
from headway.core.world import Group, Trajectory, World
from headway.policies.lengths import CELLS, THETAS, Lengths, Logs, beyond, exactly, expected, expected_excess

LESSONS = 32
"""How often per batch the mixture is learnt anew, which moves every score."""

_HINT_ERROR = 0.4  # deviation of ln L around a caller's guess, the spread within a group aside
_PACE_ACTIONS = 16.0  # actions of a group that the batch's mean service time weighs as much as
_NOTHING = (False, 0)
_FURTHEST = 300  # actions ahead
_SHARE = 0.001
_STEP = 8  # progress up to here is told apart exactly, beyond it to 1 in 8


class Forecast(Observer):
    """Remaining service time by trajectory. Trajectories without a group or a hint are one subject together."""

    def __init__(self, world: World) -> None:
        """Start from what a world knows of chains that ended; none of it may be live."""
        self.lessons = 0
        self.horizon = 0.0
        self._lengths = Lengths()
        self._seen: dict[Hashable, Logs] = {}
        self._beliefs: dict[Hashable, _Belief] = {}
        self._stages: dict[Hashable, dict[int, int]] = {}
        self._known: dict[TrajectoryId, tuple[bool, int]] = {}
        self._singles: dict[tuple[bool, int], int] = {}
        self._ended = self._learnt = 0
        for trajectory in world.trajectories.values():
            self._heed(subject(trajectory), trajectory.hint)
        for group in (*world.groups.values(), world.singles):
            self._recall(group)
        if self._ended:
            self._learn()

    # -- facts ------------------------------------------------------------------------------------------------

    def observe(self, fact: Fact, world: World) -> None:
        """Learn of samples, of actions when they are asked for and when they are done, and of ends."""
        match fact:
            case ActionRequested():
                trajectory = world.trajectories[fact.trajectory]
                self._know(trajectory, (False, trajectory.completed))
            case ActionFinished():
                trajectory = world.trajectories[fact.trajectory]
                self._step(subject(trajectory), stage(trajectory.completed), stage(trajectory.completed + 1))
            case TrajectoryFinished() | TrajectoryAbandoned():
                self._end(world.trajectories[fact.trajectory], world, fact)
            case SampleSubmitted():
                self._heed(fact.trajectory if fact.group is None else ("group", fact.group), fact.hint)
            case _:
                pass

    def _end(self, trajectory: Trajectory, world: World, fact: TrajectoryFinished | TrajectoryAbandoned) -> None:
        self._step(subject(trajectory), stage(trajectory.completed), None)
        if isinstance(fact, TrajectoryFinished):
            self._know(trajectory, (True, trajectory.completed))
            self._ended += 1
            if (self._ended - self._learnt) * LESSONS >= len(world.trajectories) + len(world.done):
                self._learn()
                self._look_ahead(world)
        elif fact.again:
            self._know(trajectory, _NOTHING)
        self._known.pop(trajectory.id, None)

    def _step(self, whose: Hashable, before: int, now: int | None) -> None:
        """Keep count of the stages at which members of a subject are, those without progress aside."""
        stages = self._stages.setdefault(whose, {})
        if before:
            stages[before] -= 1
            if not stages[before]:
                del stages[before]
        if now:
            stages[now] = stages.get(now, 0) + 1

    def _recall(self, group: Group) -> None:
        self._ended += group.finished
        for length, many in group.lengths.items():
            if group.id is None:
                self._singles[True, length] = self._singles.get((True, length), 0) + many
            else:
                self._add(("group", group.id), exactly(length), many)

    def _heed(self, subject: Hashable, hint: float | None) -> None:
        """A caller's guess counts once per group: its members are all given the same."""
        if subject is not None and hint is not None and subject not in self._seen:
            error = _HINT_ERROR
            self._add(subject, [-(((theta - log(max(hint, 1.0))) / error) ** 2) / 2 for theta in THETAS])

    def _know(self, trajectory: Trajectory, now: tuple[bool, int]) -> None:
        """What is known of a trajectory's length: that it is beyond n, or that it was n."""
        before = self._known.get(trajectory.id, _NOTHING)
        if before == now:
            return
        self._known[trajectory.id] = now
        whose = subject(trajectory)
        if whose is None:
            for key, many in ((before, -1), (now, 1)):
                self._singles[key] = self._singles.get(key, 0) + many
        else:
            self._add(whose, _change(before, now))

    def _add(self, whose: Hashable, logs: Logs, times: float = 1.0) -> None:
        seen = self._seen.get(whose)
        if seen is None:
            seen = [0.0] * CELLS
        self._seen[whose] = [a + times * b for a, b in zip(seen, logs, strict=True)]
        self._beliefs.pop(whose, None)

    # -- answers ----------------------------------------------------------------------------------------------

    def _learn(self) -> None:
        self.lessons += 1
        self._learnt = self._ended
        self._lengths.learn(self._evidence())
        self._beliefs.clear()

    def _evidence(self) -> Iterator[tuple[Logs, float]]:
        for seen in self._seen.values():
            yield seen, 1.0
        for key, many in self._singles.items():
            if many > 0:
                yield _evidence(key), many

    def stages(self, whose: Hashable) -> Iterable[int]:
        """Where members of a subject may be."""
        return (0, *self._stages.get(whose, ()))

    def urgency(self, whose: Hashable, n: int, cost: float) -> float:
        """Seconds by which a member that has completed ``n`` should outlast the horizon, at ``cost`` per action.

        A little of its whole rest is added, so that among those who surely won't the longest still goes first.
        """
        belief = self._belief(whose, n)
        if not self.horizon:
            return belief.rest(n) * cost
        most = min(_FURTHEST, round(self.horizon / cost))
        return (belief.excess(n, most) + _SHARE * belief.rest(n)) * cost

    def _look_ahead(self, world: World) -> None:
        """The horizon: when all slots would have done all that is left, if they were always busy."""
        slots = sum(environment.slots for environment in world.environments.values())
        if not slots or not world.actions:
            return
        rest = sum(self.actions(subject(t), stage(t.completed)) for t in world.trajectories.values())
        action = (world.attained - world.served) / world.actions / SECOND
        self.horizon = rest * action / slots

    def actions(self, whose: Hashable, n: int) -> float:
        """Actions that a member which has completed ``n`` still has to take, the one it asks for included."""
        return self._belief(whose, n).rest(n)

    def _belief(self, whose: Hashable, n: int) -> "_Belief":
        key = n if whose is None else whose
        belief = self._beliefs.get(key)
        if belief is None:
            seen = beyond(n) if whose is None else self._seen.get(whose, beyond(0))
            belief = self._beliefs[key] = _Belief(self._lengths.weights(seen))
        return belief


@dataclass(slots=True)
class _Belief:
    """How likely each cell is for a subject, and what was asked of that already."""

    weights: list[float]
    rests: dict[int, float] = field(default_factory=dict[int, float])
    excesses: dict[tuple[int, int], float] = field(default_factory=dict[tuple[int, int], float])

    def rest(self, n: int) -> float:
        """Actions still to take after ``n``."""
        found = self.rests.get(n)
        if found is None:
            found = self.rests[n] = expected(self.weights, n)
        return found

    def excess(self, n: int, most: int) -> float:
        """Actions still to take beyond the next ``most`` after ``n``."""
        found = self.excesses.get((n, most))
        if found is None:
            found = self.excesses[n, most] = expected_excess(self.weights, n, most)
        return found


def subject(trajectory: Trajectory) -> Hashable:
    """What a trajectory shares its forecast with: its group, nobody where it has a hint, all others where neither."""
    group = trajectory.group.id
    if group is not None:
        return ("group", group)
    return None if trajectory.hint is None else trajectory.id


def pace(group: Group, world: World) -> float:
    """Seconds of service that an action of a group takes with its turn; 1 while nothing at all is known."""
    if not world.actions:
        return 1.0
    mean = world.attained / world.actions
    own = 0 if group.id is None else 1
    return (own * group.attained + _PACE_ACTIONS * mean) / (own * group.actions + _PACE_ACTIONS) / SECOND


def stage(completed: int) -> int:
    """Progress in classes: exact at first, then coarser, so that few of them tell everybody apart."""
    if completed <= _STEP:
        return completed
    grain = 1 << max(0, completed.bit_length() - 4)
    return completed // grain * grain


@cache
def _change(before: tuple[bool, int], now: tuple[bool, int]) -> Logs:
    return [b - a for a, b in zip(_evidence(before), _evidence(now), strict=True)]


def _evidence(key: tuple[bool, int]) -> Logs:
    over, n = key
    return exactly(n) if over else beyond(n)
