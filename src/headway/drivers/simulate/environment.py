"""What an action really takes: its own time, and what making an instance or coming back to a slot adds.

The machine counts slots and names none. This model tells them apart, because a slot that last served another trajectory
may have to be set up again. It hands out, in this order: the trajectory's own last slot, one never used, one whose
trajectory is over, the one unused for longest.
"""

from collections import OrderedDict

from headway.core.commands import GrantAction
from headway.core.units import Nanos, TrajectoryId, nanos
from headway.workloads.setting import EnvironmentShape


class EnvironmentModel:
    """One environment."""

    def __init__(self, shape: EnvironmentShape) -> None:
        self._create, self._resume = nanos(shape.create_seconds), nanos(shape.resume_seconds)
        self._slots, self._made = shape.slots, 0
        self._free: OrderedDict[int, TrajectoryId] = OrderedDict()
        self._own: dict[TrajectoryId, list[int]] = {}
        self._ownerless: list[int] = []
        self._busy: dict[TrajectoryId, int] = {}
        self.resumes = 0

    def resize(self, slots: int) -> None:
        """The environment has more or fewer slots from now on."""
        self._slots = slots

    def begin(self, grant: GrantAction, service: Nanos) -> Nanos:
        """An action begins that takes ``service`` itself; how long it will really hold its slot."""
        extra = self._create if grant.create else 0
        if self._resume:
            slot, cold = self._take(grant.trajectory)
            self._busy[grant.trajectory] = slot
            if cold:
                self.resumes += 1
                extra += self._resume
        return Nanos(service + extra)

    def end(self, trajectory: TrajectoryId) -> None:
        """The action of a trajectory is over; its slot remembers whom it served."""
        slot = self._busy.pop(trajectory, None)
        if slot is not None:
            self._free[slot] = trajectory
            self._own.setdefault(trajectory, []).append(slot)

    def release(self, trajectory: TrajectoryId) -> None:
        """A trajectory is over, what it does here included: its slots belong to nobody."""
        self.end(trajectory)
        for slot in self._own.pop(trajectory, ()):
            del self._free[slot]
            self._ownerless.append(slot)

    def _take(self, trajectory: TrajectoryId) -> tuple[int, bool]:
        own = self._own.get(trajectory)
        if own:
            slot = own.pop()
            del self._free[slot]
            return slot, False
        if self._made < self._slots or not (self._ownerless or self._free):
            self._made += 1
            return self._made, False
        if self._ownerless:
            return self._ownerless.pop(), True
        slot, owner = self._free.popitem(last=False)
        self._own[owner].remove(slot)
        return slot, True
