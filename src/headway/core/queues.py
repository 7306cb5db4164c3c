"""A waiting queue in two levels: buckets by score, members within a bucket by theirs.

A bucket is what changes its urgency as a whole (a group whose forecast moved); its members keep their order
while they wait. One change to a bucket costs one heap push, however many wait in it. Every entry also stands in
the order of arrival, so that overtaking can be bounded: nobody is passed by more than ``overtakes`` later
arrivals that leave before it. Nothing here knows what the entries are.
"""

from collections import deque
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class Ticket(Generic[T]):
    """One waiting entry. ``due`` is the number of departures after which it must be served."""

    item: T
    member: float
    arrival: int
    bucket: "_Bucket[T]"
    due: int
    waiting: bool = True

    @property
    def score(self) -> float:
        """Its place as of now, smaller is sooner."""
        return self.bucket.offset + self.member


@dataclass(slots=True, eq=False)
class _Bucket(Generic[T]):
    name: Hashable
    offset: float
    version: int = 0
    heap: list[tuple[float, int, Ticket[T]]] = field(default_factory=list)

    def top(self) -> Ticket[T] | None:
        heap = self.heap
        while heap and not heap[0][2].waiting:
            heappop(heap)
        return heap[0][2] if heap else None


class WaitingQueue(Generic[T]):
    """Entries by (bucket offset + member score, arrival), smallest first, with bounded overtaking."""

    __slots__ = ("_arrivals", "_buckets", "_departures", "_heap", "_order", "_overtakes", "_size")

    def __init__(self, overtakes: int, arrivals: Iterator[int]) -> None:
        """``arrivals`` numbers the entries; queues that share it can compare the age of theirs."""
        self._overtakes = overtakes
        self._buckets: dict[Hashable, _Bucket[T]] = {}
        self._heap: list[tuple[float, int, int, _Bucket[T]]] = []
        self._order: deque[Ticket[T]] = deque()
        self._arrivals = arrivals
        self._departures = 0
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def __contains__(self, bucket: Hashable) -> bool:
        return bucket in self._buckets

    def push(self, item: T, bucket: Hashable, offset: float, member: float) -> Ticket[T]:
        """Add an entry; ``offset`` is the bucket's score as of now."""
        home = self._buckets.get(bucket)
        if home is None:
            home = self._buckets[bucket] = _Bucket(bucket, offset)
        moved = home.offset != offset
        home.offset = offset
        due = self._departures + self._size + self._overtakes
        ticket = Ticket(item, member, next(self._arrivals), home, due)
        self._size += 1
        heappush(home.heap, (member, ticket.arrival, ticket))
        self._order.append(ticket)
        if moved or home.top() is ticket:
            self._list(home)
        return ticket

    def rekey(self, bucket: Hashable, offset: float) -> None:
        """Move a whole bucket; nothing happens if none of it waits."""
        home = self._buckets.get(bucket)
        if home is not None and home.offset != offset:
            home.offset = offset
            self._list(home)

    def remove(self, ticket: Ticket[T]) -> None:
        """Take an entry out, served or given up."""
        ticket.waiting = False
        self._size -= 1
        self._departures += 1
        if ticket.bucket.top() is None:
            ticket.bucket.version += 1
            self._buckets.pop(ticket.bucket.name, None)
        else:
            self._list(ticket.bucket)
        order = self._order
        while order and not order[0].waiting:
            order.popleft()

    def due(self) -> Ticket[T] | None:
        """The oldest entry, if it has been overtaken as often as is allowed: nobody may pass it now."""
        if self._order and self._departures >= self._order[0].due:
            return self._order[0]
        return None

    def first(self) -> Ticket[T] | None:
        """The entry to serve next: the one that is due, else the best. It stays in the queue."""
        return self.due() or next(self.best(1), None)

    def best(self, window: int) -> Iterator[Ticket[T]]:
        """Up to ``window`` entries, best first. The caller may remove what it was just given."""
        aside: list[Ticket[T]] = []
        try:
            for _ in range(min(window, self._size)):
                ticket = self._take()
                aside.append(ticket)
                yield ticket
        finally:
            for ticket in aside:
                if ticket.waiting:
                    self._give_back(ticket)

    def _take(self) -> Ticket[T]:
        heap = self._heap
        while True:
            _, _, version, bucket = heap[0]
            if version == bucket.version and (ticket := bucket.top()) is not None:
                break
            heappop(heap)
        heappop(bucket.heap)
        self._list(bucket)
        return ticket

    def _give_back(self, ticket: Ticket[T]) -> None:
        bucket = ticket.bucket
        heappush(bucket.heap, (ticket.member, ticket.arrival, ticket))
        self._buckets[bucket.name] = bucket
        self._list(bucket)

    def _list(self, bucket: _Bucket[T]) -> None:
        bucket.version += 1
        top = bucket.top()
        if top is None:
            return
        if len(self._heap) > 64 + 4 * len(self._buckets):
            self._heap = [entry for entry in self._heap if entry[2] == entry[3].version]
            heapify(self._heap)
        heappush(self._heap, (bucket.offset + top.member, top.arrival, bucket.version, bucket))
