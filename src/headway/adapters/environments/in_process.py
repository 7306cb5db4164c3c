"""Environments that live in this process: plain callables, simulators, clients of remote tools."""

import inspect
from collections.abc import Awaitable, Callable

import anyio

from headway.core.commands import GrantAction
from headway.core.units import EnvironmentId, TrajectoryId

Make = Callable[[TrajectoryId], object]
"""Makes the place of a trajectory, or an awaitable of it."""

Destroy = Callable[[object], Awaitable[None] | None]
"""Lets go of a place."""


def _nothing(_: object) -> None:
    return None


class InProcess:
    """An environment in this process: one object per trajectory, made by its first action.

    Args:
        name: what actions ask for.
        make: makes the place of a trajectory; without it a place is None and the slot is all there is to hold.
        destroy: lets go of a place when its trajectory is over.

    What ``make`` and ``destroy`` raise comes out of ``enter`` and ``release`` unchanged.
    """

    def __init__(self, name: str, make: Make = _nothing, *, destroy: Destroy = _nothing) -> None:
        self._id = EnvironmentId(name)
        self._make, self._destroy = make, destroy
        self._places: dict[TrajectoryId, object] = {}
        self._creator: dict[TrajectoryId, GrantAction] = {}
        self._locks: dict[TrajectoryId, anyio.Lock] = {}

    @property
    def id(self) -> EnvironmentId:
        """The name that actions ask for."""
        return self._id

    async def enter(self, grant: GrantAction) -> object:
        """Return the trajectory's place; ``create`` makes a fresh one, but once per grant."""
        trajectory = grant.trajectory
        async with self._locks.setdefault(trajectory, anyio.Lock()):
            if grant.create and self._creator.get(trajectory) != grant:
                await self._remove(trajectory)
            if trajectory not in self._places:
                place = self._make(trajectory)
                self._places[trajectory] = await place if inspect.isawaitable(place) else place
                self._creator[trajectory] = grant
            return self._places[trajectory]

    async def leave(self, grant: GrantAction) -> None:
        """Nothing runs on its own here, so nothing has to be stopped."""

    async def release(self, trajectory: TrajectoryId) -> None:
        """Destroy the trajectory's place. Idempotent."""
        async with self._locks.setdefault(trajectory, anyio.Lock()):
            await self._remove(trajectory)
        self._locks.pop(trajectory, None)

    async def close(self) -> None:
        """Destroy every place."""
        for trajectory in list(self._places):
            await self.release(trajectory)

    async def _remove(self, trajectory: TrajectoryId) -> None:
        self._creator.pop(trajectory, None)
        if trajectory in self._places:
            gone = self._destroy(self._places.pop(trajectory))
            if gone is not None:
                await gone
