"""Who waits in which queue, and what was decided: shared by everything in the core that makes somebody wait."""

from collections.abc import Iterable
from itertools import count

from headway.core.commands import Command, WakeAt
from headway.core.policy import Policies, Priority
from headway.core.queues import Index, Ticket, WaitingQueue
from headway.core.units import Nanos
from headway.core.world import Action, Stream, Trajectory, World

Item = Stream | Action | Trajectory
Queue = WaitingQueue[Item]


class Waiting:
    """Tickets of all queues, the commands of the fact at hand, and the timers that were asked for."""

    def __init__(self, world: World, policies: Policies) -> None:
        self.world = world
        self.policies = policies
        self._priority = policies.priority
        self._acting = policies.acting or policies.priority
        self.commands: list[Command] = []
        self.arrivals = count()
        self._queues: list[Queue] = []
        self._index: Index[Item] = {}
        self._tickets: dict[Item, tuple[Queue, Ticket[Item]]] = {}
        self._wakes: set[int] = set()

    def queue(self) -> Queue:
        """A new queue; its buckets move with their groups until it is retired."""
        queue: Queue = WaitingQueue(self.policies.overtakes, self.arrivals, self._index)
        self._queues.append(queue)
        return queue

    def retire(self, queue: Queue) -> None:
        """A queue that nobody will use again."""
        self._queues.remove(queue)

    def wait(self, queue: Queue, item: Item, trajectory: Trajectory) -> Ticket[Item]:
        """``item`` of ``trajectory`` waits for an engine or a slot."""
        priority = self._acting if isinstance(item, Action) else self._priority
        return self.wait_by(priority, queue, item, trajectory)

    def wait_by(self, priority: Priority, queue: Queue, item: Item, trajectory: Trajectory) -> Ticket[Item]:
        """``item`` waits in an order of its own."""
        bucket, offset = priority.bucket(trajectory), priority.offset(trajectory, self.world)
        ticket = queue.push(item, bucket, offset, priority.member(trajectory))
        self._tickets[item] = (queue, ticket)
        return ticket

    def where(self, item: Item) -> Queue | None:
        """The queue that something stands in, if it does."""
        entry = self._tickets.get(item)
        return None if entry is None else entry[0]

    def forget(self, item: Item) -> None:
        """Take something out of the queue that it stands in, if it does."""
        entry = self._tickets.pop(item, None)
        if entry is not None:
            entry[0].remove(entry[1])

    def score(self, trajectory: Trajectory) -> float:
        """How urgent a trajectory is as of now, smaller is sooner."""
        priority = self._priority
        return priority.offset(trajectory, self.world) + priority.member(trajectory)

    def progressed(self, trajectory: Trajectory) -> None:
        """A trajectory went on or ended: buckets may move in the queues of turns and actions."""
        self.moved(self._priority, trajectory, self._queues, self._index)

    def moved(self, priority: Priority, trajectory: Trajectory, queues: Iterable[Queue], index: Index[Item]) -> None:
        """Move the buckets of some queues, which ``index`` tells of, that are kept in an order."""
        changes = priority.moved(trajectory, self.world, index)
        if changes is None:
            for queue in queues:
                queue.rekey_all(lambda item: priority.offset(_trajectory(item), self.world))
            return
        for bucket, offset in changes:
            for queue in index.get(bucket, ()):
                queue.rekey(bucket, offset)

    def wake_at(self, at: int) -> None:
        """Ask for a timer, once."""
        if at not in self._wakes:
            self._wakes.add(at)
            self.commands.append(WakeAt(Nanos(at)))

    def woken(self) -> None:
        """Timers up to now are over."""
        self._wakes = {at for at in self._wakes if at > self.world.now}


def _trajectory(item: Item) -> Trajectory:
    return item if isinstance(item, Trajectory) else item.trajectory


def sooner(*candidates: tuple[Ticket[Item] | None, Queue]) -> Ticket[Item] | None:
    """Of those who could be served now, the one to serve; the others' queues count that they were passed."""
    able = [(ticket, queue) for ticket, queue in candidates if ticket is not None]
    if len(able) <= 1:
        return able[0][0] if able else None
    served, home = min(able, key=lambda pair: _rank(*pair))
    for _, queue in able:
        if queue is not home:
            queue.passed()
    return served


def _rank(ticket: Ticket[Item], queue: Queue) -> tuple[int, float, int]:
    return (0, 0.0, ticket.arrival) if queue.due() is ticket else (1, ticket.score, ticket.arrival)
