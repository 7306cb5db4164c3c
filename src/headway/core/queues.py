"""A waiting queue in two levels: buckets by score, members within a bucket by theirs.

A bucket is what changes its urgency as a whole (a group whose forecast moved); its members keep their order
while they wait. One change to a bucket costs at most one heap push, however many wait in it. Every entry also stands
in the order of arrival, so that overtaking can be bounded: nobody is passed by more than ``overtakes`` later
arrivals that leave before it. Nothing here knows what the entries are.

A bucket stands in the upper heap with a key that is never worse than its true one: what makes it better is pushed at
once, what makes it worse (its best member left) is put right when it comes to the top.
"""

from collections import deque
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush, heapreplace
from typing import Generic, TypeVar

T = TypeVar("T")

_SLACK = 64
"""Dead entries that a heap may carry, beside as many as it has live ones, before it is swept."""


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
    """``listing`` is its valid entry in the upper heap; ``heap`` may hold dead tickets, ``size`` counts live ones."""

    name: Hashable
    offset: float
    size: int = 0
    listing: "tuple[float, int, int, _Bucket[T]] | None" = None
    heap: list[tuple[float, int, Ticket[T]]] = field(default_factory=list)

    def top(self) -> Ticket[T]:
        """The best member of a bucket that is not empty."""
        heap = self.heap
        while not heap[0][2].waiting:
            heappop(heap)
        return heap[0][2]

    def sweep(self) -> None:
        """Do away with the dead."""
        self.heap = [entry for entry in self.heap if entry[2].waiting]
        heapify(self.heap)


class WaitingQueue(Generic[T]):
    """Entries by (bucket offset + member score, arrival), smallest first, with bounded overtaking.

    ``size`` entries wait; ``departures`` counts those that left or passed all others, ``moves`` changes of an offset.
    """

    __slots__ = (
        *("_arrivals", "_buckets", "_heap", "_index", "_listings", "_order", "_overtakes"),
        *("departures", "moves", "size"),
    )

    def __init__(self, overtakes: int, arrivals: Iterator[int], index: "Index[T]") -> None:
        """``arrivals`` numbers the entries; queues that share it can compare the age of theirs. ``index`` is kept."""
        self._index = index
        self.departures = 0
        self.moves = 0
        self._overtakes = overtakes
        self._buckets: dict[Hashable, _Bucket[T]] = {}
        self._heap: list[tuple[float, int, int, _Bucket[T]]] = []
        self._listings = 0
        self._order: deque[Ticket[T]] = deque()
        self._arrivals = arrivals
        self.size = 0

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[T]:
        """What waits, oldest first."""
        return (ticket.item for ticket in self._order if ticket.waiting)

    def push(self, item: T, bucket: Hashable, offset: float, member: float) -> Ticket[T]:
        """Add an entry; ``offset`` is the bucket's score as of now."""
        self.rekey(bucket, offset)
        home = self._buckets.get(bucket)
        if home is None:
            home = self._buckets[bucket] = _Bucket(bucket, offset)
            self._index.setdefault(bucket, []).append(self)
        arrival = next(self._arrivals)
        ticket = Ticket(item, member, arrival, home, self.departures + self.size + self._overtakes)
        self.size += 1
        home.size += 1
        heappush(home.heap, (member, arrival, ticket))
        self._order.append(ticket)
        if home.listing is None or offset + member < home.listing[0]:
            self._list(home, offset + member, arrival)
        return ticket

    def rekey(self, bucket: Hashable, offset: float) -> None:
        """Move a whole bucket; nothing happens if none of it waits."""
        home = self._buckets.get(bucket)
        if home is not None and home.offset != offset:
            home.offset = offset
            self.moves += 1
            top = home.top()
            if home.listing is None or offset + top.member < home.listing[0]:
                self._list(home, offset + top.member, top.arrival)

    def rekey_all(self, offset: Callable[[T], float]) -> None:
        """Move every bucket, by what any member says."""
        for name, bucket in self._buckets.items():
            self.rekey(name, offset(bucket.top().item))

    def remove(self, ticket: Ticket[T]) -> None:
        """Take an entry out, served or given up."""
        ticket.waiting = False
        self.size -= 1
        self.departures += 1
        bucket = ticket.bucket
        bucket.size -= 1
        if not bucket.size:
            bucket.listing = None
            self._forget(bucket.name)
        elif len(bucket.heap) > _SLACK + 2 * bucket.size:
            bucket.sweep()
        order = self._order
        while order and not order[0].waiting:
            order.popleft()

    def _forget(self, bucket: Hashable) -> None:
        del self._buckets[bucket]
        queues = self._index[bucket]
        queues.remove(self)
        if not queues:
            del self._index[bucket]

    def passed(self) -> None:
        """Somebody from another queue was served though the first one here could have been."""
        self.departures += 1

    def due(self) -> Ticket[T] | None:
        """The oldest entry, if it has been overtaken as often as is allowed: nobody may pass it now."""
        if self._order and self.departures >= self._order[0].due:
            return self._order[0]
        return None

    def first(self) -> Ticket[T] | None:
        """The entry to serve next: the one that is due, else the best. It stays in the queue."""
        if not self.size:
            return None
        oldest = self._order[0]
        return oldest if self.departures >= oldest.due else self._best()

    def best(self, window: int) -> Iterator[Ticket[T]]:
        """Up to ``window`` entries, best first. The queue must not change while this is read.

        Both heaps are walked from the top, best first; whatever is reached brings those that stand below it.
        """
        if not self.size:
            return
        upper = self._heap
        ahead: list[tuple[float, int, int, int, _Bucket[T] | None]] = [(*upper[0][:3], 0, None)]
        while ahead and window:
            *_, place, inside = heappop(ahead)
            if inside is None:
                for below in range(2 * place + 1, min(2 * place + 3, len(upper))):
                    heappush(ahead, (*upper[below][:3], below, None))
                bucket = upper[place][3]
                if bucket.listing is upper[place]:
                    top = bucket.top()
                    heappush(ahead, (bucket.offset + top.member, top.arrival, 0, 0, bucket))
                continue
            members = inside.heap
            for below in range(2 * place + 1, min(2 * place + 3, len(members))):
                heappush(ahead, (inside.offset + members[below][0], members[below][1], 0, below, inside))
            ticket = members[place][2]
            if ticket.waiting:
                window -= 1
                yield ticket

    def _best(self) -> Ticket[T]:
        heap = self._heap
        while True:
            entry = heap[0]
            bucket = entry[3]
            if bucket.listing is not entry:
                heappop(heap)
                continue
            top = bucket.heap[0][2]
            if not top.waiting:
                top = bucket.top()
            score = bucket.offset + top.member
            if score == entry[0] and top.arrival == entry[1]:
                return top
            self._listings += 1
            bucket.listing = (score, top.arrival, self._listings, bucket)
            heapreplace(heap, bucket.listing)

    def _list(self, bucket: _Bucket[T], score: float, arrival: int) -> None:
        """Give a bucket a better key in the upper heap; the entry with the old one is dead from now on."""
        if len(self._heap) > _SLACK + 4 * len(self._buckets):
            self._heap = [entry for entry in self._heap if entry[3].listing is entry]
            heapify(self._heap)
        self._listings += 1
        bucket.listing = (score, arrival, self._listings, bucket)
        heappush(self._heap, bucket.listing)


Index = dict[Hashable, list[WaitingQueue[T]]]
"""Which of some queues members of a bucket wait in."""
