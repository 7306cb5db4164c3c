"""Turns that wait for an engine, and whose context stays in its cache.

Each engine has two lines: *returning* turns, whose trajectory is present on some engine, and *parked* ones, which
would come in anew. Memory alone holds back the parked, so whoever is in can always go on, and finish, and leave.
Where a place could be had by either, priority decides and the loser counts it as overtaking.

Two rules keep memory from deadlock. Idle contexts are dropped, the least recently used first as the engine itself will
evict them, when running turns outgrow the cache; and where nothing at all is in flight, the first turn that waits
starts, whatever is counted.
"""

from dataclasses import dataclass
from heapq import heappop, heappush
from zlib import crc32

from headway.core.commands import Drop, Reject, StartTurn
from headway.core.queues import Ticket
from headway.core.units import EngineId
from headway.core.waiting import Item, Queue, Waiting, sooner
from headway.core.world import UNLIMITED, Doing, EngineState, Stream, Trajectory

INFINITE = float("inf")


@dataclass(slots=True, eq=False)
class _Line:
    """Turns that wait for one engine's memory, and what the last look in vain has shown.

    ``least``: nobody in the window needs less; 0 where that is not known. ``last``: the score at the window's end,
    infinite where it held everybody.
    """

    queue: Queue
    least: int = 0
    last: float = 0.0
    departures: int = 0
    moves: int = 0

    def joined(self, ticket: Ticket[Item], need: int) -> None:
        """Somebody new waits here, perhaps within the window."""
        if need < self.least and ticket.score <= self.last:
            self.least = need

    def candidate(self, room: int, window: int) -> Ticket[Item] | None:
        """The best within the window whose need fits; where somebody is due, that one or nobody."""
        if room < 0 or (room < self.least and self._as_before(window)):
            return None
        first = self.queue.first()
        if first is None or _need(first) <= room:
            return first
        return None if self.queue.due() is first else self._look(room, window)

    def _as_before(self, window: int) -> bool:
        """Does ``least`` still hold? Exact unless buckets moved; where all were seen, whoever leaves can't lower it."""
        queue = self.queue
        return self.last == INFINITE or (queue.departures == self.departures and queue.moves - self.moves < window)

    def _look(self, room: int, window: int) -> Ticket[Item] | None:
        least, last, seen = UNLIMITED, 0.0, 0
        for ticket in self.queue.best(window):
            need = _need(ticket)
            if need <= room:
                return ticket
            least, last, seen = min(least, need), ticket.score, seen + 1
        self.least, self.last = least, last if seen == window else INFINITE
        self.departures, self.moves = self.queue.departures, self.queue.moves
        return None


@dataclass(slots=True, eq=False)
class _Lane:
    """One engine, and who waits for it."""

    engine: EngineState
    returning: _Line
    parked: _Line

    def full(self) -> bool:
        most = self.engine.max_running
        return most is not None and self.engine.running >= most


class Turns:
    """Decides which turns run where."""

    def __init__(self, waiting: Waiting) -> None:
        self._waiting = waiting
        self._world = waiting.world
        self._policies = waiting.policies
        self._lanes: dict[EngineId, _Lane] = {}
        self._homeless = waiting.queue()
        self._backing_off: list[tuple[int, int, Stream]] = []

    # -- coming in ------------------------------------------------------------------------------------------

    def place(self, stream: Stream) -> None:
        """Find a home for a turn and start it there, or let it wait."""
        world = self._world
        if not world.engines:
            self._waiting.wait(self._homeless, stream, stream.trajectory)
            return
        engine = self._choose(stream)
        if engine is None:
            stream.doing = Doing.NOTHING
            reason = self.too_long(stream.prompt)
            self._waiting.commands.append(Reject(stream.trajectory.id, "turn", reason, stream.id, stream.turn))
            return
        before = stream.engine
        if before is not engine:
            world.settle(stream, engine)
            self.resort(stream.trajectory)
        stream.need = stream.prompt + world.expected_output(stream)
        self._start_or_queue(stream, self._lanes[engine.id])
        if before is not None and before is not engine:
            self.retry(before)

    def _start_or_queue(self, stream: Stream, lane: _Lane) -> None:
        """Where a place is free nobody who waits could have it: else the last retry would have started him."""
        back = stream.trajectory.present > 0
        queue = (lane.returning if back else lane.parked).queue
        room = _room_to_return if back else self._room_to_enter
        if self._world.paused or lane.full() or queue.due() is not None or stream.need > room(lane.engine):
            self._queue(stream, lane)
            return
        if queue.size:
            queue.passed()
        if self._start(stream, lane):
            self.retry(lane.engine)

    def _choose(self, stream: Stream) -> EngineState | None:
        engine = self._policies.routing.choose(stream, self._world)
        if stream.prompt < engine.longest:
            return engine
        roomy = [e for e in self._world.engines.values() if stream.prompt < e.longest]
        return min(roomy, key=lambda e: (e.homed, e.place), default=None)

    def too_long(self, prompt: int) -> str:
        """Why a prompt can't run anywhere."""
        most = max(e.longest for e in self._world.engines.values())
        return f"its prompt of about {prompt} tokens fits no engine (the largest takes {most})"

    def _queue(self, stream: Stream, lane: _Lane) -> None:
        line = lane.returning if stream.trajectory.present else lane.parked
        line.joined(self._waiting.wait(line.queue, stream, stream.trajectory), stream.need)

    def resort(self, trajectory: Trajectory) -> None:
        """A trajectory became present, or is so no longer: those of its turns that wait change lines."""
        for stream in trajectory.streams.values():
            if stream.doing is Doing.WAITING and stream.engine is not None:
                lane = self._lanes[stream.engine.id]
                now = self._waiting.where(stream)
                right = lane.returning if trajectory.present else lane.parked
                if now is not None and now is not right.queue:
                    self._waiting.forget(stream)
                    self._queue(stream, lane)

    # -- starting -------------------------------------------------------------------------------------------

    def retry(self, engine: EngineState) -> None:
        """Start what may start on this engine, best first; those that don't fit are passed, within bounds."""
        lane = self._lanes.get(engine.id)
        if lane is None or self._world.paused:
            return
        while not lane.full():
            ticket = self._next(lane)
            if ticket is None:
                return
            self._start_waiting(ticket, lane)

    def _next(self, lane: _Lane) -> Ticket[Item] | None:
        returning, parked, window = lane.returning, lane.parked, self._policies.bypass
        back = new = None
        if returning.queue.size:
            back = returning.candidate(_room_to_return(lane.engine), window)
        if parked.queue.size:
            new = parked.candidate(self._room_to_enter(lane.engine), window)
        if back is None or new is None:
            return back or new
        return sooner((back, returning.queue), (new, parked.queue))

    def _room_to_enter(self, engine: EngineState) -> int:
        return self._policies.residency.room(engine) if engine.held else UNLIMITED

    def _start_waiting(self, ticket: Ticket[Item], lane: _Lane) -> None:
        stream = ticket.item
        assert isinstance(stream, Stream)  # noqa: S101 - only streams stand in these queues
        self._waiting.forget(stream)
        self._start(stream, lane)

    def _start(self, stream: Stream, lane: _Lane) -> bool:
        """Start a turn; tell whether others had to make room for it, perhaps more than it took."""
        trajectory = stream.trajectory
        cached = min(stream.context, stream.prompt) if stream.resident else 0
        new = not trajectory.present
        self._world.start_turn(stream)
        stream.attempt = trajectory.attempt
        if new and len(trajectory.streams) > 1:
            self.resort(trajectory)
        dropped = self._make_room(lane)
        rank = round(self._waiting.score(trajectory) * 16)
        self._waiting.commands.append(
            StartTurn(trajectory.id, stream.id, stream.turn, stream.attempt, lane.engine.id, rank, cached)
        )
        return dropped

    def unstick(self) -> None:
        """Nothing is in flight: whoever waits for memory alone starts, one per engine."""
        for lane in self._lanes.values():
            ticket = lane.returning.queue.first() or lane.parked.queue.first()
            if ticket is not None:
                self._start_waiting(ticket, lane)
                self.retry(lane.engine)

    # -- idling ---------------------------------------------------------------------------------------------

    def went_idle(self, engine: EngineState) -> None:
        """A turn is over: its stream may be dropped from now on, and its place is free."""
        self._make_room(self._lanes[engine.id])
        self.retry(engine)

    def _make_room(self, lane: _Lane) -> bool:
        """Drop what the engine must have evicted; tell whether that was anything."""
        engine, dropped = lane.engine, False
        while engine.kept and self._policies.residency.crowded(engine):
            stream = self._policies.residency.victim(engine)
            self._world.drop(stream)
            self.resort(stream.trajectory)
            self._waiting.commands.append(Drop(stream.trajectory.id, stream.id, engine.id))
            dropped = True
        return dropped

    # -- failures and engines -------------------------------------------------------------------------------

    def back_off(self, stream: Stream, retry_after: int | None) -> None:
        """A turn failed and is tried again later, where and when there is room."""
        spread = crc32(f"{stream.trajectory.id}/{stream.id}/{stream.trajectory.attempt}".encode()) / 2**32
        wait = max(retry_after or 0, self._policies.retries.wait(stream.tries, spread))
        stream.doing = Doing.BACKING_OFF
        until = self._world.now + wait
        heappush(self._backing_off, (until, next(self._waiting.arrivals), stream))
        self._waiting.wake_at(until)

    def woken(self) -> None:
        """A time has come: the retries that were waiting for it go on."""
        while self._backing_off and self._backing_off[0][0] <= self._world.now:
            stream = heappop(self._backing_off)[2]
            known = stream.trajectory.streams.get(stream.id) is stream
            if known and stream.doing is Doing.BACKING_OFF:
                stream.doing = Doing.WAITING
                self.place(stream)

    def engine_joined(self, engine: EngineState) -> None:
        """An engine appeared: whoever had none goes there."""
        queues = self._waiting.queue(), self._waiting.queue()
        self._lanes[engine.id] = _Lane(engine, _Line(queues[0]), _Line(queues[1]))
        while (ticket := self._homeless.first()) is not None:
            stream = ticket.item
            assert isinstance(stream, Stream)  # noqa: S101 - only streams stand there
            self._waiting.forget(stream)
            self.place(stream)

    def engine_lost(self, engine: EngineState) -> None:
        """An engine is gone, its queues with it; the machine moved those who stood there."""
        lane = self._lanes.pop(engine.id)
        self._waiting.retire(lane.returning.queue)
        self._waiting.retire(lane.parked.queue)


def _room_to_return(engine: EngineState) -> int:
    return UNLIMITED if engine.kv_tokens is None or not engine.running else engine.kv_tokens - engine.active


def _need(ticket: Ticket[Item]) -> int:
    stream = ticket.item
    assert isinstance(stream, Stream)  # noqa: S101 - only streams stand in these queues
    return stream.need
