"""Actions that wait for a slot.

An environment has three lines: *ready* actions want nothing but a slot; *making* ones also make their trajectory's
instance, whose place is kept, as fast as the create rate allows; *fresh* ones have no place for an instance yet. So
nobody is held up by what only others need. Where any of several lines could be served, priority decides, and the
others count that they were passed. Actions of coupled trajectories hold a slot already and stand in lines of their own.
"""

from dataclasses import dataclass

from headway.core.commands import GrantAction
from headway.core.queues import Ticket
from headway.core.units import EnvironmentId
from headway.core.waiting import Item, Queue, Waiting, sooner
from headway.core.world import Action, EnvironmentState


@dataclass(slots=True, eq=False)
class _Lines:
    ready: Queue
    making: Queue
    fresh: Queue


@dataclass(slots=True, eq=False)
class _Door:
    """``own``: those who hold a slot for life; ``common``: those who share the others."""

    environment: EnvironmentState
    own: _Lines
    common: _Lines


class Slots:
    """Decides which actions run."""

    def __init__(self, waiting: Waiting) -> None:
        self._waiting = waiting
        self._world = waiting.world
        self._doors: dict[EnvironmentId, _Door] = {}
        self._helped: list[_Door] = []
        for environment in self._world.environments.values():
            self._open(environment)

    def _open(self, environment: EnvironmentState) -> None:
        self._doors[environment.id] = _Door(environment, self._lines(), self._lines())

    def _lines(self) -> _Lines:
        return _Lines(self._waiting.queue(), self._waiting.queue(), self._waiting.queue())

    def wait(self, action: Action) -> None:
        """An action wants a slot; it gets one at once if one is free: nobody who waits could have that one."""
        environment, line = action.environment, self._line(action)
        if _makes_instance(action) or self._world.paused:
            self._waiting.wait(line, action, action.trajectory)
            self.retry(environment)
        elif environment.busy < environment.slots or environment.id in action.trajectory.held:
            self._grant(action, create=False)
        else:
            self._waiting.wait(line, action, action.trajectory)

    def _line(self, action: Action) -> Queue:
        environment, trajectory = action.environment, action.trajectory
        door = self._doors[environment.id]
        lines = door.own if environment.id in trajectory.held else door.common
        if not _makes_instance(action):
            return lines.ready
        placed = environment.instances is None or environment.id in trajectory.claims
        return lines.making if placed else lines.fresh

    # -- granting -------------------------------------------------------------------------------------------

    def retry(self, environment: EnvironmentState) -> None:
        """Grant free slots, best first."""
        if self._world.paused:
            return
        self._serve(self._doors[environment.id])
        while self._helped:
            self._serve(self._helped.pop())

    def retry_all(self) -> None:
        """Something that actions anywhere may wait for is free."""
        for door in self._doors.values():
            self.retry(door.environment)

    def _serve(self, door: _Door) -> None:
        environment = door.environment
        while self._world.coupled and (ticket := self._next(door.own, environment)) is not None:
            self._serve_waiting(ticket)
        while environment.busy < environment.slots and (ticket := self._next(door.common, environment)) is not None:
            self._serve_waiting(ticket)

    def _next(self, lines: _Lines, environment: EnvironmentState) -> Ticket[Item] | None:
        ready = lines.ready.first()
        if not (lines.making.size or lines.fresh.size) or not self._may_create(environment):
            return ready
        making, fresh = lines.making.first(), lines.fresh.first()
        if fresh is not None and not self._world.claimable(_action(fresh.item).trajectory):
            fresh = None
        return sooner((ready, lines.ready), (making, lines.making), (fresh, lines.fresh))

    def _may_create(self, environment: EnvironmentState) -> bool:
        if self._world.now < environment.next_create:
            self._waiting.wake_at(environment.next_create)
            return False
        return True

    def _serve_waiting(self, ticket: Ticket[Item]) -> None:
        action = _action(ticket.item)
        self._waiting.forget(action)
        self._grant(action, create=_makes_instance(action))

    def _grant(self, action: Action, *, create: bool) -> None:
        trajectory = action.trajectory
        if create:
            self._world.claim(trajectory)
        self._world.grant(action, create=create)
        action.attempt = trajectory.attempt
        self._waiting.commands.append(
            GrantAction(trajectory.id, action.stream, action.index, action.attempt, action.environment.id, create)
        )
        if create:
            for other in trajectory.actions.values():
                self._line_up_again(other)

    def _line_up_again(self, action: Action) -> None:
        """What an action waits for may have changed."""
        now, right = self._waiting.where(action), self._line(action)
        if now is not None and now is not right:
            self._waiting.forget(action)
            self._waiting.wait(right, action, action.trajectory)
            self._helped.append(self._doors[action.environment.id])

    # -- surroundings ---------------------------------------------------------------------------------------

    def woken(self) -> None:
        """A time has come: creations that were rate-limited go on."""
        self.retry_all()

    def changed(self, environment: EnvironmentState) -> None:
        """An environment appeared or changed size, or whether trajectories keep an instance there."""
        if environment.id not in self._doors:
            self._open(environment)
        door = self._doors[environment.id]
        for lines in (door.own, door.common):
            for item in (*lines.ready, *lines.making, *lines.fresh):
                self._line_up_again(_action(item))
        self.retry_all()


def _makes_instance(action: Action) -> bool:
    environment = action.environment
    return environment.stateful and environment.id not in action.trajectory.instances


def _action(item: Item) -> Action:
    assert isinstance(item, Action)  # noqa: S101 - only actions stand in these queues
    return item
