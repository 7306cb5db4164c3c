"""The queues, and what leaves them.

What waits stands in one queue per cause: samples for admission, turns for their engine, actions for a slot (those
that still need an instance apart, so that a slow creation holds up nobody else), and turns for any engine at all
while none is alive. After a fact only the queues that it can have helped are looked at again.

Two rules keep memory from deadlock. A stream whose trajectory is present on an engine may always come back (idle ones
make room); and where nothing at all is in flight, the first turn that waits starts whatever is counted.
"""

from heapq import heapify, heappop, heappush
from itertools import count
from zlib import crc32

from headway.core.commands import Admit, Command, Drop, GrantAction, Reject, StartTurn, WakeAt
from headway.core.policy import Policies
from headway.core.queues import Ticket, WaitingQueue
from headway.core.units import EngineId, EnvironmentId, Nanos
from headway.core.world import Action, Doing, EngineState, EnvironmentState, Stream, Trajectory, World

_Item = Stream | Action | Trajectory
_Idle = tuple[float, int, int, int, Stream]  # urgency and age, then what tells whether it still holds


class Dispatch:
    """Who waits where, and who goes next. Only the machine calls it."""

    def __init__(self, world: World, policies: Policies) -> None:
        """Every trajectory of ``world`` waits for admission; nothing of it may be in flight."""
        self._world = world
        self._policies = policies
        self._out: list[Command] = []
        self._arrivals = count()
        self._tickets: dict[_Item, tuple[WaitingQueue[_Item], Ticket[_Item]]] = {}
        self._pending = self._queue()
        self._turns: dict[EngineId, WaitingQueue[_Item]] = {}
        self._homeless = self._queue()
        self._ready: dict[EnvironmentId, WaitingQueue[_Item]] = {}
        self._making: dict[EnvironmentId, WaitingQueue[_Item]] = {}
        self._fresh: dict[EnvironmentId, WaitingQueue[_Item]] = {}
        self._idle: dict[EngineId, list[_Idle]] = {}
        self._backing_off: list[tuple[int, int, Stream]] = []
        self._wakes: set[int] = set()
        self._moved: list[EnvironmentId] = []
        for name in world.environments:
            self._open(name)
        for trajectory in sorted(world.trajectories.values(), key=lambda t: (t.index, t.id)):
            self._wait(self._pending, trajectory, trajectory)

    def commands(self) -> list[Command]:
        """What was decided since the last call."""
        while self._moved:
            self.retry_actions(self._world.environments[self._moved.pop()])
        if not self._world.turning and not self._world.acting:
            self._unstick()
        out, self._out = self._out, []
        return out

    def emit(self, command: Command) -> None:
        """Add a command that needs no queue."""
        self._out.append(command)

    # -- waiting --------------------------------------------------------------------------------------------

    def _queue(self) -> WaitingQueue[_Item]:
        return WaitingQueue(self._policies.overtakes, self._arrivals)

    def _wait(self, queue: WaitingQueue[_Item], item: _Item, trajectory: Trajectory) -> None:
        priority = self._policies.order if queue is self._pending else self._policies.priority
        ticket = queue.push(
            item,
            priority.bucket(trajectory),
            priority.offset(trajectory, self._world),
            priority.member(trajectory),
        )
        self._tickets[item] = (queue, ticket)

    def forget(self, item: _Item) -> None:
        """Take something out of the queue that it stands in, if it does."""
        entry = self._tickets.pop(item, None)
        if entry is not None:
            entry[0].remove(entry[1])

    def progressed(self, trajectory: Trajectory) -> None:
        """A trajectory's group made progress: its bucket may move in every queue."""
        priority = self._policies.priority
        bucket = priority.bucket(trajectory)
        if bucket is None:
            return
        offset = priority.offset(trajectory, self._world)
        for queues in (self._turns, self._ready, self._making, self._fresh):
            for queue in queues.values():
                queue.rekey(bucket, offset)

    def _unstick(self) -> None:
        """Nothing is in flight: whoever waits for memory alone starts, one per engine."""
        if self._world.paused:
            return
        for engine in self._world.engines.values():
            ticket = self._turns[engine.id].first()
            if ticket is not None:
                self._start_turn(ticket.item, engine)

    # -- samples --------------------------------------------------------------------------------------------

    def submitted(self, trajectory: Trajectory) -> None:
        """A sample waits for admission."""
        self._wait(self._pending, trajectory, trajectory)
        self.admit()

    def admit(self) -> None:
        """Let samples in while there is room for them."""
        world = self._world
        while not world.paused and (ticket := self._pending.first()) is not None:
            trajectory = ticket.item
            assert isinstance(trajectory, Trajectory)  # noqa: S101 - only samples stand there
            if world.engines and not any(_holds(e, trajectory.prompt) for e in world.engines.values()):
                self.forget(trajectory)
                self._out.append(Reject(trajectory.id, "sample", self._too_long(trajectory.prompt)))
                world.end(trajectory, finished=False)
            elif self._has_room(trajectory):
                self.forget(trajectory)
                world.admit(trajectory)
                self._out.append(Admit(trajectory.id, trajectory.attempt))
            else:
                return

    def _has_room(self, trajectory: Trajectory) -> bool:
        world = self._world
        if world.limit is not None and world.live >= world.limit:
            return False
        if world.engines_seen and not world.engines:
            return False
        if self._policies.coupled and not (
            all(e.busy < e.slots for e in world.scope(trajectory)) and world.claimable(trajectory)
        ):
            return False
        return self._policies.admission.admits(trajectory, world)

    def _too_long(self, prompt: int) -> str:
        most = max(_longest(e) for e in self._world.engines.values())
        return f"its prompt of about {prompt} tokens fits no engine (the largest takes {most})"

    # -- turns ----------------------------------------------------------------------------------------------

    def place(self, stream: Stream) -> None:
        """Find a home for a turn and start it there, or let it wait."""
        engines = self._world.engines
        if not engines:
            self._wait(self._homeless, stream, stream.trajectory)
            return
        engine = self._policies.routing.choose(stream, self._world)
        if not _holds(engine, stream.prompt):
            roomy = [e for e in engines.values() if _holds(e, stream.prompt)]
            if not roomy:
                stream.doing = Doing.NOTHING
                reason = self._too_long(stream.prompt)
                self._out.append(Reject(stream.trajectory.id, "turn", reason, stream.id, stream.turn))
                return
            engine = min(roomy, key=lambda e: (e.homed, e.place))
        self._world.settle(stream, engine)
        queue = self._turns[engine.id]
        if not self._world.paused and queue.due() is None and self._may_start(stream, engine):
            self._start_turn(stream, engine)
        else:
            self._wait(queue, stream, stream.trajectory)

    def _may_start(self, stream: Stream, engine: EngineState) -> bool:
        if engine.max_running is not None and engine.running >= engine.max_running:
            return False
        need = stream.prompt + self._world.expected_output(stream)
        if stream.trajectory.present:
            return not engine.running or engine.kv_tokens is None or engine.active + need <= engine.kv_tokens
        return not engine.held or self._policies.residency.fits(engine, need)

    def _start_turn(self, item: _Item, engine: EngineState) -> None:
        assert isinstance(item, Stream)  # noqa: S101 - only streams stand in these queues
        self.forget(item)
        trajectory, priority = item.trajectory, self._policies.priority
        cached = min(item.context, item.prompt) if item.resident else 0
        self._world.start_turn(item, item.prompt + self._world.expected_output(item))
        item.attempt = trajectory.attempt
        self._make_room(engine)
        score = priority.offset(trajectory, self._world) + priority.member(trajectory)
        self._out.append(
            StartTurn(trajectory.id, item.id, item.turn, item.attempt, engine.id, round(score * 16), cached)
        )

    def retry_turns(self, engine: EngineState) -> None:
        """Start what may start on this engine, best first; those that don't fit are passed, within bounds."""
        queue = self._turns.get(engine.id)
        while queue and not self._world.paused:
            due = queue.due()
            if due is not None:
                if not self._may_start_item(due.item, engine):
                    return
                self._start_turn(due.item, engine)
                continue
            if engine.max_running is not None and engine.running >= engine.max_running:
                return
            for ticket in queue.best(self._policies.bypass):
                if self._may_start_item(ticket.item, engine):
                    self._start_turn(ticket.item, engine)
                    break
            else:
                return

    def _may_start_item(self, item: _Item, engine: EngineState) -> bool:
        assert isinstance(item, Stream)  # noqa: S101 - only streams stand in these queues
        return self._may_start(item, engine)

    def went_idle(self, stream: Stream, engine: EngineState) -> None:
        """A turn is over: its stream may be dropped from now on, the least urgent first."""
        if engine.kv_tokens is None and engine.state_slots is None:
            return
        trajectory, priority = stream.trajectory, self._policies.priority
        score = priority.offset(trajectory, self._world) + priority.member(trajectory)
        heap = self._idle[engine.id]
        if len(heap) > 64 + 4 * engine.held:
            heap[:] = [entry for entry in heap if _still_idle(entry, engine)]
            heapify(heap)
        heappush(heap, (-score, -trajectory.index, next(self._arrivals), stream.answered, stream))
        self._make_room(engine)

    def _make_room(self, engine: EngineState) -> None:
        heap = self._idle[engine.id]
        while heap and self._policies.residency.crowded(engine):
            entry = heappop(heap)
            if _still_idle(entry, engine):
                stream = entry[4]
                self._world.drop(stream)
                self._out.append(Drop(stream.trajectory.id, stream.id, engine.id))

    def back_off(self, stream: Stream, retry_after: Nanos | None) -> None:
        """A turn failed and is tried again later, where and when there is room."""
        spread = crc32(f"{stream.trajectory.id}/{stream.id}/{stream.trajectory.attempt}".encode()) / 2**32
        wait = max(retry_after or 0, self._policies.retries.wait(stream.tries, spread))
        stream.doing = Doing.BACKING_OFF
        until = self._world.now + wait
        heappush(self._backing_off, (until, next(self._arrivals), stream))
        self._wake_at(until)

    # -- actions --------------------------------------------------------------------------------------------

    def wait_for_slot(self, action: Action) -> None:
        """An action wants a slot; it gets one at once if one is free and nobody better waits."""
        self._wait(self._line(action), action, action.trajectory)
        self.retry_actions(action.environment)

    def _line(self, action: Action) -> WaitingQueue[_Item]:
        """Where an action waits: for a slot; for its instance to be made; for a place to make it."""
        environment, trajectory = action.environment, action.trajectory
        if not environment.stateful or environment.id in trajectory.instances:
            return self._ready[environment.id]
        placed = environment.instances is None or environment.id in trajectory.claims
        return (self._making if placed else self._fresh)[environment.id]

    def retry_actions(self, environment: EnvironmentState) -> None:
        """Grant free slots, best first."""
        while not self._world.paused and (action := self._next_action(environment)) is not None:
            if environment.busy >= environment.slots and environment.id not in action.trajectory.held:
                return
            create = self._line(action) is not self._ready[environment.id]
            self.forget(action)
            self._grant(action, create=create)

    def _next_action(self, environment: EnvironmentState) -> Action | None:
        lines = [self._ready[environment.id]]
        making, fresh = self._making[environment.id], self._fresh[environment.id]
        if (making or fresh) and self._may_create(environment):
            lines.append(making)
            unplaced = fresh.first()
            if unplaced is not None and self._world.claimable(_action(unplaced).trajectory):
                lines.append(fresh)
        due = [ticket for line in lines if (ticket := line.due()) is not None]
        if due:
            return _action(min(due, key=lambda ticket: ticket.arrival))
        waiting = [ticket for line in lines if (ticket := line.first()) is not None]
        return _action(min(waiting, key=lambda ticket: (ticket.score, ticket.arrival))) if waiting else None

    def _grant(self, action: Action, *, create: bool) -> None:
        trajectory = action.trajectory
        if create:
            self._world.claim(trajectory)
        self._world.grant(action, create=create)
        if create:
            for other in trajectory.actions.values():
                self._line_up_again(other)
        action.attempt = trajectory.attempt
        self._out.append(
            GrantAction(trajectory.id, action.stream, action.index, action.attempt, action.environment.id, create)
        )

    def _line_up_again(self, action: Action) -> None:
        """What an action waits for has changed."""
        if action in self._tickets and self._tickets[action][0] is not (line := self._line(action)):
            self.forget(action)
            self._wait(line, action, action.trajectory)
            self._moved.append(action.environment.id)

    def _may_create(self, environment: EnvironmentState) -> bool:
        if self._world.now < environment.next_create:
            self._wake_at(environment.next_create)
            return False
        return True

    # -- surroundings ---------------------------------------------------------------------------------------

    def _wake_at(self, at: int) -> None:
        if at not in self._wakes:
            self._wakes.add(at)
            self._out.append(WakeAt(Nanos(at)))

    def woken(self) -> None:
        """A time has come: retries that were waiting for it go on, and creations that were rate-limited."""
        now = self._world.now
        self._wakes = {at for at in self._wakes if at > now}
        while self._backing_off and self._backing_off[0][0] <= now:
            stream = heappop(self._backing_off)[2]
            known = stream.trajectory.streams.get(stream.id) is stream
            if known and stream.doing is Doing.BACKING_OFF:
                stream.doing = Doing.WAITING
                self.place(stream)
        for environment in self._world.environments.values():
            if self._making[environment.id] or self._fresh[environment.id]:
                self.retry_actions(environment)

    def environment_changed(self, environment: EnvironmentState) -> None:
        """An environment appeared or changed size."""
        if environment.id not in self._ready:
            self._open(environment.id)
        for queue in (self._making[environment.id], self._fresh[environment.id]):
            for ticket in list(queue.best(len(queue))):
                self._line_up_again(_action(ticket))
        self.retry_actions(environment)
        self.admit()

    def _open(self, environment: EnvironmentId) -> None:
        for queues in (self._ready, self._making, self._fresh):
            queues[environment] = self._queue()

    def engine_joined(self, engine: EngineState) -> None:
        """An engine appeared: whoever had none goes there, and others may be admitted."""
        self._turns[engine.id] = self._queue()
        self._idle[engine.id] = []
        while (ticket := self._homeless.first()) is not None:
            stream = ticket.item
            assert isinstance(stream, Stream)  # noqa: S101 - only streams stand there
            self.forget(stream)
            self.place(stream)
        self.admit()

    def engine_lost(self, engine: EngineState) -> None:
        """An engine is gone, its queue with it; the machine moved those who stood there."""
        del self._turns[engine.id], self._idle[engine.id]

    def retry_everything(self) -> None:
        """A pause is over."""
        for engine in self._world.engines.values():
            self.retry_turns(engine)
        for environment in self._world.environments.values():
            self.retry_actions(environment)
        self.admit()


def _holds(engine: EngineState, prompt: int) -> bool:
    return prompt < _longest(engine)


def _longest(engine: EngineState) -> int:
    limits = [limit for limit in (engine.kv_tokens, engine.max_context) if limit is not None]
    return min(limits, default=2**62)


def _still_idle(entry: _Idle, engine: EngineState) -> bool:
    answered, stream = entry[3:]
    return stream.resident and stream.engine is engine and stream.answered == answered


def _action(ticket: Ticket[_Item]) -> Action:
    assert isinstance(ticket.item, Action)  # noqa: S101 - only actions stand in these queues
    return ticket.item
