"""What the scheduler knows, and the only code that changes it.

``World`` holds entities and counters, no queues and no policy. Every change is one method here, called by
:mod:`headway.core.machine` and by nothing else.

Three counts of memory per engine: ``active`` (tokens reserved by running turns, their answers included), ``idle``
(contexts that stay in its cache while their trajectory acts) and ``stale`` (contexts that nobody will come back to, but
that the engine can't know to be of no use). Engines evict whatever was used least recently, and so what is believed of
their caches is kept in that order.
"""

from collections import deque
from dataclasses import dataclass, field
from enum import IntEnum

from headway.core.facts import (
    ActionRequested,
    EngineJoined,
    EngineSampled,
    SampleSubmitted,
    SlotsChanged,
    TurnFinished,
    TurnRequested,
)
from headway.core.units import EngineId, EnvironmentId, GroupId, Nanos, StreamId, TrajectoryId

UNLIMITED = 2**62
"""More tokens than there will be."""


_SLACK = 64
"""Entries that were taken up long ago and are carried along, before they are swept out."""


class Phase(IntEnum):
    """Where a trajectory is in its life."""

    PENDING = 0
    LIVE = 1


class Doing(IntEnum):
    """What a stream's turn, or an action, is doing."""

    NOTHING = 0
    WAITING = 1
    BACKING_OFF = 2
    RUNNING = 3


@dataclass(slots=True, eq=False)
class Group:
    """Samples that share a prompt, and what has been seen of their lengths.

    ``actions`` completed by all members so far, ``finished`` members, ``submitted`` members, ``admitted`` ones that are
    live or over. ``attained``: service time of their turns and actions, nanoseconds. ``lengths``: how many members
    finished after so many actions.
    """

    id: GroupId | None
    submitted: int = 0
    actions: int = 0
    finished: int = 0
    admitted: int = 0
    attained: int = 0
    lengths: dict[int, int] = field(default_factory=dict[int, int])


class Use(IntEnum):
    """What a context in a cache is there for."""

    IDLE = 0
    TAKEN = 1
    STALE = 2


@dataclass(slots=True, eq=False)
class Kept:
    """A context that a turn left in a cache: idle until its stream's next turn takes it, or stale for good."""

    stream: "Stream"
    tokens: int
    use: Use = Use.IDLE


@dataclass(slots=True, eq=False)
class Stream:
    """One growing prompt inside a trajectory; at most one turn of it is under way.

    ``need``: tokens of prompt and expected answer of a turn that waits or runs, ``reserved`` those of one that runs.
    ``kept``: what its last turn left in a cache.
    """

    id: StreamId
    trajectory: "Trajectory"
    turn: int = -1
    doing: Doing = Doing.NOTHING
    tries: int = 0
    attempt: int = 0
    engine: "EngineState | None" = None
    resident: bool = False
    context: int = 0
    prompt: int = 0
    need: int = 0
    reserved: int = 0
    max_output: int | None = None
    outputs: int = 0
    answered: int = 0
    kept: Kept | None = None


@dataclass(slots=True, eq=False)
class Action:
    """One action that was asked for and is not over."""

    index: int
    stream: StreamId
    trajectory: "Trajectory"
    environment: "EnvironmentState"
    doing: Doing = Doing.WAITING
    tries: int = 0
    attempt: int = 0


@dataclass(slots=True, eq=False)
class Trajectory:
    """One sample and its agent, as far as scheduling cares.

    ``answered``: its first turn is over, so its memory is known. ``completed``: actions finished in this attempt.
    ``attained``: service time of turns and actions, nanoseconds.
    ``present``: its streams that run or are resident on an engine. ``acting``: actions that run.
    ``held``: environments in which it holds a slot for life (coupled). ``claims``: where a place for its
    instance is kept. ``instances``: where it has one.
    """

    id: TrajectoryId
    index: int
    group: Group
    hint: float | None
    prompt: int
    environments: tuple[EnvironmentId, ...]
    phase: Phase = Phase.PENDING
    answered: bool = False
    attempt: int = 0
    completed: int = 0
    attained: int = 0
    present: int = 0
    acting: int = 0
    streams: dict[StreamId, Stream] = field(default_factory=dict[StreamId, Stream])
    actions: dict[int, Action] = field(default_factory=dict[int, Action])
    next_action: int = 0
    held: frozenset[EnvironmentId] = frozenset()  # frozen ones, since nearly all are empty and can share that one
    claims: frozenset[EnvironmentId] = frozenset()
    instances: frozenset[EnvironmentId] = frozenset()


@dataclass(slots=True, eq=False)
class EngineState:
    """One engine, as facts tell of it. Limits that are None are not known.

    ``longest``: a prompt must be shorter than this many tokens. ``held``: streams that run or idle there.
    ``kept``: what turns left in its cache, least recently used first. ``stale``: tokens there, and ``stale_states``
    contexts, that nobody will use and that will be evicted only after some that are idle.
    """

    id: EngineId
    place: int
    kind: str
    kv_tokens: int | None
    state_slots: int | None
    block_tokens: int
    max_running: int | None
    max_context: int | None
    longest: int
    running: int = 0
    homed: int = 0
    active: int = 0
    idle: int = 0
    held: int = 0
    stale: int = 0
    stale_states: int = 0
    kept: deque[Kept] = field(default_factory=deque[Kept])
    sample: EngineSampled | None = None


@dataclass(slots=True, eq=False)
class EnvironmentState:
    """One environment: slots in use, and places for instances taken where trajectories keep one."""

    id: EnvironmentId
    slots: int
    instances: int | None
    create_interval: int
    busy: int = 0
    claimed: int = 0
    next_create: int = 0

    @property
    def stateful(self) -> bool:
        """Does a trajectory keep an instance here for life?"""
        return self.instances is not None or self.create_interval > 0


@dataclass(slots=True)
class World:
    """Everything known about a batch, from facts alone."""

    coupled: bool = False
    now: Nanos = Nanos(0)
    trajectories: dict[TrajectoryId, Trajectory] = field(default_factory=dict[TrajectoryId, Trajectory])
    done: set[TrajectoryId] = field(default_factory=set[TrajectoryId])
    failed: dict[TrajectoryId, Trajectory] = field(default_factory=dict[TrajectoryId, Trajectory])
    groups: dict[GroupId, Group] = field(default_factory=dict[GroupId, Group])
    singles: Group = field(default_factory=lambda: Group(None))
    engines: dict[EngineId, EngineState] = field(default_factory=dict[EngineId, EngineState])
    environments: dict[EnvironmentId, EnvironmentState] = field(default_factory=dict[EnvironmentId, EnvironmentState])
    live: int = 0
    turning: int = 0
    acting: int = 0
    live_tokens: int = 0
    limit: int | None = None
    paused: bool = False
    outputs: int = 0
    answered: int = 0
    served: int = 0
    actions: int = 0
    attained: int = 0
    grown: int = 0
    regrown: int = 0
    engines_seen: int = 0

    # -- the life of a trajectory ---------------------------------------------------------------------------

    def submit(self, fact: SampleSubmitted) -> Trajectory:
        """A sample joins, pending."""
        group = self.singles
        if fact.group is not None:
            group = self.groups.setdefault(fact.group, Group(fact.group))
        group.submitted += 1
        trajectory = Trajectory(fact.trajectory, fact.index, group, fact.hint, fact.prompt_tokens, fact.environments)
        self.trajectories[fact.trajectory] = trajectory
        return trajectory

    def admit(self, trajectory: Trajectory) -> None:
        """It goes live; coupled, it takes a slot in each of its environments for life."""
        trajectory.phase = Phase.LIVE
        trajectory.attempt += 1
        trajectory.group.admitted += 1
        self.live += 1
        self.live_tokens += trajectory.prompt
        if self.coupled:
            for environment in self.scope(trajectory):
                environment.busy += 1
                trajectory.held |= {environment.id}
            self.claim(trajectory)

    def scope(self, trajectory: Trajectory) -> list[EnvironmentState]:
        """The environments that a trajectory may act in and that exist."""
        if not trajectory.environments:
            return list(self.environments.values())
        known = self.environments
        return [known[name] for name in trajectory.environments if name in known]

    def claimable(self, trajectory: Trajectory) -> bool:
        """Is there a place for an instance in every limited environment that it may act in?"""
        return all(
            environment.instances is None
            or environment.claimed < environment.instances
            or environment.id in trajectory.claims
            for environment in self.scope(trajectory)
        )

    def claim(self, trajectory: Trajectory) -> None:
        """Keep a place for it in all of them at once: whoever holds one here and waits for one there can't be."""
        for environment in self.scope(trajectory):
            if environment.instances is not None:
                self._claim(trajectory, environment)

    def _claim(self, trajectory: Trajectory, environment: EnvironmentState) -> None:
        if environment.id not in trajectory.claims:
            trajectory.claims |= {environment.id}
            environment.claimed += 1

    def end(self, trajectory: Trajectory, *, finished: bool) -> None:
        """It leaves; everything it held is free. Only a finished one counts as such in its group."""
        self._release(trajectory)
        del self.trajectories[trajectory.id]
        if finished:
            self.done.add(trajectory.id)
            group = trajectory.group
            group.finished += 1
            group.lengths[trajectory.completed] = group.lengths.get(trajectory.completed, 0) + 1
        else:
            self.failed[trajectory.id] = trajectory

    def restart(self, trajectory: Trajectory) -> None:
        """It loses what it did and waits for admission again; its next attempt counts on."""
        self._release(trajectory)
        self._forget_progress(trajectory)

    def _forget_progress(self, trajectory: Trajectory) -> None:
        group = trajectory.group
        group.admitted -= trajectory.phase is Phase.LIVE
        group.actions -= trajectory.completed
        group.attained -= trajectory.attained
        self.actions -= trajectory.completed
        self.attained -= trajectory.attained
        trajectory.phase = Phase.PENDING
        trajectory.completed = trajectory.attained = trajectory.next_action = 0

    def _release(self, trajectory: Trajectory) -> None:
        if trajectory.phase is Phase.PENDING:
            return
        self.live -= 1
        if not trajectory.answered:
            self.live_tokens -= trajectory.prompt
        trajectory.answered = False
        for stream in trajectory.streams.values():
            if stream.doing is Doing.RUNNING:
                self.stop_turn(stream)
            self.live_tokens -= stream.context
            self.leave(stream)
        for action in list(trajectory.actions.values()):
            self.close_action(action)
        for name in trajectory.held:
            self.environments[name].busy -= 1
        for name in trajectory.claims:
            self.environments[name].claimed -= 1
        trajectory.streams, trajectory.actions = {}, {}
        trajectory.held = trajectory.claims = trajectory.instances = frozenset()

    # -- turns ----------------------------------------------------------------------------------------------

    def request_turn(self, trajectory: Trajectory, fact: TurnRequested) -> Stream:
        """A stream, new or known, waits for a turn."""
        stream = trajectory.streams.get(fact.stream)
        if stream is None:
            stream = trajectory.streams[fact.stream] = Stream(fact.stream, trajectory)
        stream.turn = fact.turn
        stream.prompt = fact.prompt_tokens
        stream.max_output = fact.max_output
        stream.doing = Doing.WAITING
        stream.tries = 0
        return stream

    def settle(self, stream: Stream, engine: EngineState) -> None:
        """Make another engine the home of a stream. What it had elsewhere is not counted any more."""
        self.leave(stream)
        stream.engine = engine
        engine.homed += 1

    def leave(self, stream: Stream) -> None:
        """A stream has no home any more, and nothing of it is resident."""
        engine = stream.engine
        if engine is None:
            return
        self.drop(stream)
        engine.homed -= 1
        stream.engine = None

    def drop(self, stream: Stream) -> None:
        """Stop counting an idle stream as resident."""
        engine = stream.engine
        if engine is not None and stream.resident:
            stream.resident = False
            stream.trajectory.present -= 1
            engine.idle -= stream.context
            engine.held -= 1
            self._release_kept(stream, engine, Use.STALE)

    def _release_kept(self, stream: Stream, engine: EngineState, use: Use) -> None:
        """What a stream left in the cache is idle no more. What is behind nothing idle can be evicted at no loss."""
        assert stream.kept is not None  # noqa: S101 - a resident stream left something
        stream.kept.use = use
        if use is Use.STALE:
            engine.stale += stream.kept.tokens
            engine.stale_states += 1
        kept = engine.kept
        while kept and kept[0].use is not Use.IDLE:
            first = kept.popleft()
            if first.use is Use.STALE:
                engine.stale -= first.tokens
                engine.stale_states -= 1

    def start_turn(self, stream: Stream) -> None:
        """The turn runs on the stream's home, which reserves what it needs for prompt and answer."""
        engine = stream.engine
        assert engine is not None  # noqa: S101 - settle() comes first
        if stream.resident:
            engine.idle -= stream.context
            self._release_kept(stream, engine, Use.TAKEN)
        else:
            stream.trajectory.present += 1
            engine.held += 1
        stream.resident = False
        stream.reserved = stream.need
        stream.doing = Doing.RUNNING
        stream.tries += 1
        engine.running += 1
        engine.active += stream.need
        self.turning += 1

    def stop_turn(self, stream: Stream) -> None:
        """The running turn is over without an answer; what it computed is not counted."""
        engine = stream.engine
        assert engine is not None  # noqa: S101 - a running turn has a home
        engine.running -= 1
        engine.active -= stream.reserved
        engine.held -= 1
        stream.trajectory.present -= 1
        stream.reserved = 0
        stream.doing = Doing.WAITING
        self.turning -= 1

    def finish_turn(self, stream: Stream, fact: TurnFinished) -> None:
        """The answer is there; the whole context stays behind in the engine's cache."""
        engine = stream.engine
        assert engine is not None  # noqa: S101 - a running turn has a home
        context = fact.prompt_tokens + fact.output_tokens
        self.turning -= 1
        engine.running -= 1
        engine.active -= stream.reserved
        engine.idle += context
        self.live_tokens += context - stream.context
        trajectory = stream.trajectory
        if not trajectory.answered:
            trajectory.answered = True
            self.live_tokens -= trajectory.prompt
        if stream.answered:
            self.grown += max(0, context - stream.context)
            self.regrown += 1
        stream.reserved = 0
        stream.resident = True
        stream.doing = Doing.NOTHING
        stream.context = context
        stream.outputs += fact.output_tokens
        stream.answered += 1
        self._keep(stream, engine)
        self.outputs += fact.output_tokens
        self.answered += 1
        self.served += fact.service
        self.attain(trajectory, fact.service)

    def _keep(self, stream: Stream, engine: EngineState) -> None:
        if len(engine.kept) > _SLACK + 2 * (engine.held + engine.stale_states):
            engine.kept = deque(kept for kept in engine.kept if kept.use is not Use.TAKEN)
        stream.kept = Kept(stream, stream.context)
        engine.kept.append(stream.kept)

    def attain(self, trajectory: Trajectory, service: int) -> None:
        """Time that a turn or an action of it took."""
        trajectory.attained += service
        trajectory.group.attained += service
        self.attained += service

    # -- actions --------------------------------------------------------------------------------------------

    def request_action(self, trajectory: Trajectory, fact: ActionRequested) -> Action:
        """An action waits for a slot."""
        action = Action(fact.action, fact.stream, trajectory, self.environments[fact.environment])
        trajectory.actions[fact.action] = action
        trajectory.next_action = fact.action + 1
        return action

    def grant(self, action: Action, *, create: bool) -> None:
        """The action runs: in its trajectory's own slot when coupled, else in a free one."""
        environment = action.environment
        trajectory = action.trajectory
        action.doing = Doing.RUNNING
        action.tries += 1
        trajectory.acting += 1
        self.acting += 1
        if environment.id not in trajectory.held:
            environment.busy += 1
        if create:
            self._claim(trajectory, environment)
            trajectory.instances |= {environment.id}
            environment.next_create = self.now + environment.create_interval

    def complete(self, trajectory: Trajectory, service: int) -> None:
        """One more action of it is done."""
        trajectory.completed += 1
        trajectory.group.actions += 1
        self.actions += 1
        self.attain(trajectory, service)

    def close_action(self, action: Action) -> None:
        """The action is over, granted or not; its slot, if it had one, is free."""
        self.suspend_action(action)
        del action.trajectory.actions[action.index]

    def suspend_action(self, action: Action) -> None:
        """The action lost its slot and waits again."""
        if action.doing is Doing.RUNNING:
            action.trajectory.acting -= 1
            self.acting -= 1
            if action.environment.id not in action.trajectory.held:
                action.environment.busy -= 1
        action.doing = Doing.WAITING

    # -- engines and environments -----------------------------------------------------------------------------

    def join(self, fact: EngineJoined) -> EngineState:
        """An engine appears, or comes back with an empty cache."""
        state = EngineState(
            fact.engine,
            self.engines_seen,
            fact.kind,
            fact.kv_tokens,
            fact.state_slots,
            fact.block_tokens,
            fact.max_running,
            fact.max_context,
            min((limit for limit in (fact.kv_tokens, fact.max_context) if limit is not None), default=UNLIMITED),
        )
        self.engines_seen += 1
        self.engines[fact.engine] = state
        return state

    def lose(self, engine: EngineState) -> list[Stream]:
        """An engine is gone. Returns the streams that lived there."""
        del self.engines[engine.id]
        return [
            stream
            for trajectory in self.trajectories.values()
            for stream in trajectory.streams.values()
            if stream.engine is engine
        ]

    def take_over(self, *, retry_failed: bool) -> None:
        """A new coordinator: nothing is in flight, no engine has joined, all paused, live trajectories wait again."""
        for trajectory in self.trajectories.values():
            if trajectory.phase is Phase.LIVE:
                self.restart(trajectory)
        if retry_failed:
            for trajectory in self.failed.values():
                self._forget_progress(trajectory)
            self.trajectories.update(self.failed)
            self.failed.clear()
        self.engines.clear()
        self.paused = True

    def resize(self, fact: SlotsChanged) -> EnvironmentState:
        """An environment appears or changes size; what runs there goes on."""
        state = self.environments.get(fact.environment)
        if state is None:
            state = self.environments[fact.environment] = EnvironmentState(
                fact.environment, fact.slots, fact.instances, fact.create_interval
            )
        state.slots, state.instances, state.create_interval = fact.slots, fact.instances, fact.create_interval
        state.next_create = min(state.next_create, self.now + fact.create_interval)
        return state

    # -- estimates ------------------------------------------------------------------------------------------

    def expected_output(self, stream: Stream) -> int:
        """Tokens that the next answer of a stream should have: its own mean so far, else the batch's mean.

        Bounded by what was asked for; 256 where nothing is known at all.
        """
        if stream.answered:
            mean = stream.outputs // stream.answered
        elif self.answered:
            mean = self.outputs // self.answered
        else:
            mean = 256
        return mean if stream.max_output is None else min(mean, stream.max_output)

    def expected_growth(self) -> int:
        """Tokens that a turn and its observation add to a context, a mean over the batch; 512 while unknown."""
        return self.grown // self.regrown if self.regrown else 512
