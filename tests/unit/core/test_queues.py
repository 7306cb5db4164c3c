"""The waiting queue against a naive one."""

from dataclasses import dataclass, field
from itertools import count

from hypothesis import given, settings
from hypothesis import strategies as st

from headway.core.queues import Ticket, WaitingQueue

BUCKETS = ["g", "h", None]


@dataclass
class Entry:
    bucket: object
    member: float
    arrival: int
    due: int
    ticket: Ticket


@dataclass
class NaiveQueue:
    """The same rules, by sorting a list."""

    overtakes: int
    entries: list[Entry] = field(default_factory=list)
    offsets: dict = field(default_factory=dict)
    departures: int = 0

    def order(self):
        return sorted(self.entries, key=lambda e: (self.offsets[e.bucket] + e.member, e.arrival))

    def due(self):
        oldest = min(self.entries, key=lambda e: e.arrival, default=None)
        return oldest if oldest is not None and self.departures >= oldest.due else None

    def first(self):
        return self.due() or next(iter(self.order()), None)


pushes = st.tuples(st.just("push"), st.sampled_from(BUCKETS), st.integers(-3, 3), st.integers(0, 4))
moves = st.tuples(st.just("rekey"), st.sampled_from(BUCKETS), st.integers(-3, 3), st.just(0))
leaves = st.tuples(st.sampled_from(["serve", "withdraw", "passed"]), st.just(None), st.just(0), st.integers(0, 99))


@given(st.lists(st.one_of(pushes, moves, leaves), max_size=120), st.integers(0, 4))
@settings(max_examples=300, deadline=None)
def test_it_serves_in_the_order_of_the_naive_queue(steps, overtakes):
    index = {}
    queue, naive = WaitingQueue(overtakes, count(), index), NaiveQueue(overtakes)
    for serial, (what, bucket, offset, number) in enumerate(steps):
        if what == "push":
            ticket = queue.push(serial, bucket, float(offset), float(number))
            naive.offsets[bucket] = float(offset)
            due = naive.departures + len(naive.entries) + overtakes
            naive.entries.append(Entry(bucket, float(number), ticket.arrival, due, ticket))
        elif what == "rekey":
            queue.rekey(bucket, float(offset))
            naive.offsets[bucket] = float(offset)
        elif what == "passed":
            queue.passed()
            naive.departures += 1
        elif naive.entries:
            entry = naive.first() if what == "serve" else naive.entries[number % len(naive.entries)]
            queue.remove(entry.ticket)
            naive.entries.remove(entry)
            naive.departures += 1
        expected = naive.first()
        assert queue.first() is (None if expected is None else expected.ticket)
        assert queue.due() is (None if naive.due() is None else naive.due().ticket)
        assert len(queue) == len(naive.entries)
        assert list(queue.best(5)) == [entry.ticket for entry in naive.order()[:5]]
        assert index == {entry.bucket: [queue] for entry in naive.entries}
        assert list(queue) == [entry.ticket.item for entry in sorted(naive.entries, key=lambda e: e.arrival)]


@given(st.lists(st.integers(0, 50), max_size=200), st.integers(0, 10))
@settings(deadline=None)
def test_nobody_is_passed_by_more_later_arrivals_than_allowed(scores, overtakes):
    queue, waiting, passed = WaitingQueue(overtakes, count(), {}), [], {}
    for score in scores:
        ticket = queue.push(score, None, 0.0, float(score))
        waiting.append(ticket)
        passed[ticket] = 0
        if score % 3 == 0:
            _serve(queue, waiting, passed)
    while waiting:
        _serve(queue, waiting, passed)
    assert max(passed.values(), default=0) <= overtakes


def _serve(queue, waiting, passed):
    served = queue.first()
    queue.remove(served)
    waiting.remove(served)
    for ticket in waiting:
        passed[ticket] += ticket.arrival < served.arrival


def test_those_who_left_from_the_middle_do_not_pile_up():
    queue = WaitingQueue(10**9, count(), {})
    queue.push("first", None, 0.0, 0.0)
    for _ in range(5000):
        queue.remove(queue.push("worse", None, 0.0, 1.0))
    assert len(queue._buckets[None].heap) < 100
    assert queue.first().item == "first"


def test_an_index_tells_which_queues_a_bucket_waits_in():
    index = {}
    one, other = WaitingQueue(1, count(), index), WaitingQueue(1, count(), index)
    first, second = one.push("a", "g", 0.0, 0.0), other.push("b", "g", 0.0, 0.0)
    assert index == {"g": [one, other]}
    one.remove(first)
    assert index == {"g": [other]}
    other.remove(second)
    assert index == {}


def test_moves_of_a_bucket_do_not_pile_up():
    queue = WaitingQueue(10**9, count(), {})
    queue.push("a", "g", 0.0, 0.0)
    for offset in range(5000):
        queue.rekey("g", -float(offset))
    assert len(queue._heap) < 100
