"""What the fold keeps: sums per trajectory, per engine and per environment. No lists of turns or actions.

All times are nanoseconds of *batch time*: the clock of the facts without the gaps between two coordinators.
"""

from dataclasses import dataclass, field
from enum import IntEnum

from headway.core.units import EngineId, EnvironmentId, GroupId, Nanos, StreamId, TrajectoryId


class State(IntEnum):
    """Where a sample is."""

    PENDING = 0
    LIVE = 1
    FINISHED = 2
    FAILED = 3


class Phase(IntEnum):
    """What a live trajectory does: exactly one of these, so that its phases add up to the time that it was live.

    With several streams it is the first that holds of: action, inference, slot queue, inference queue, idle.
    ``IDLE`` is the harness's own time: nothing is asked of engines or environments. A turn that failed and will be
    tried again is in the inference queue.
    """

    INFERENCE_QUEUE = 0
    INFERENCE = 1
    SLOT_QUEUE = 2
    ACTION = 3
    IDLE = 4


@dataclass(slots=True, eq=False)
class Use:
    """What one trajectory did in one environment.

    ``head``: service that its stream had before the first action there ended, that action excluded; ``tail``: service
    after the last one. The least over its streams; what lower bounds need.
    """

    actions: int = 0
    service: Nanos = Nanos(0)
    head: Nanos = Nanos(0)
    tail: Nanos = Nanos(0)


@dataclass(slots=True, eq=False)
class Work:
    """What one attempt at a sample did.

    ``serial``: the longest stream's service, overlapping actions counted once: no schedule makes it shorter.
    ``new``: prompt tokens that the stream did not have before, so tokens that even a perfect cache computes.
    ``first_prompt``: tokens of the first prompt. ``weighted``: Σ output * (2 * prompt + output), twice the Σ o·ctx of
    the bounds. ``cached`` counts only turns whose engine reports it.
    """

    turns: int = 0
    actions: int = 0
    prompt: int = 0
    cached: int = 0
    output: int = 0
    new: int = 0
    first_prompt: int = 0
    weighted: int = 0
    turn_service: Nanos = Nanos(0)
    action_service: Nanos = Nanos(0)
    serial: Nanos = Nanos(0)
    uses: dict[EnvironmentId, Use] = field(default_factory=dict[EnvironmentId, Use])


@dataclass(slots=True, eq=False)
class Lane:
    """One stream of a live trajectory, and its turn under way if ``turn`` is 0 or more.

    ``engine``: where its last turn ran or runs, empty before. ``since``: when it began to wait or to run; ``waited``:
    earlier waits of the same turn. ``served`` and ``counted`` measure service without overlaps: how
    much, and up to when.
    """

    turn: int = -1
    running: bool = False
    since: int = 0
    waited: int = 0
    engine: EngineId = EngineId("")
    prompt: int = 0
    expected: int = 0
    area: int = 0
    context_area: int = 0
    context: int = 0
    served: int = 0
    counted: int = 0
    marks: dict[EnvironmentId, tuple[int, int]] = field(default_factory=dict[EnvironmentId, tuple[int, int]])

    def serve(self, service: int, now: int) -> None:
        """Count a service that ends now, as far as it does not overlap with what is counted."""
        self.served += min(service, now - self.counted)
        self.counted = now


@dataclass(slots=True, eq=False)
class Errand:
    """One action that was asked for and is not over."""

    stream: StreamId
    environment: EnvironmentId
    since: int
    waited: int = 0
    running: bool = False


@dataclass(slots=True, eq=False)
class Chain:
    """A sample and its trajectory; ``work`` and ``spent`` are those of the latest attempt.

    ``spent``: nanoseconds per :class:`Phase`, up to ``since``. ``admissions``: attempts so far.
    ``asking``, ``turning``, ``wanting``, ``acting``: turns that wait and run, actions that wait and run.
    """

    id: TrajectoryId
    index: int
    group: GroupId | None
    state: State = State.PENDING
    admissions: int = 0
    admitted: int = 0
    ended: int = 0
    cause: str | None = None
    score: float | None = None
    phase: Phase = Phase.IDLE
    since: int = 0
    asking: int = 0
    turning: int = 0
    wanting: int = 0
    acting: int = 0
    spent: list[int] = field(default_factory=list[int])
    work: Work = field(default_factory=Work)
    lanes: dict[StreamId, Lane] = field(default_factory=dict[StreamId, Lane])
    errands: dict[int, Errand] = field(default_factory=dict[int, Errand])

    def due(self) -> Phase:
        """The phase that it ought to be in."""
        if self.acting:
            return Phase.ACTION
        if self.turning:
            return Phase.INFERENCE
        if self.wanting:
            return Phase.SLOT_QUEUE
        return Phase.INFERENCE_QUEUE if self.asking else Phase.IDLE

    def close(self) -> None:
        """Draw up the sums of its attempt, which is over, and let go of what was under way."""
        lanes = self.lanes.values()
        work = self.work
        work.serial = Nanos(max((lane.served for lane in lanes), default=0))
        for name, use in work.uses.items():
            marks = [(lane.marks[name], lane.served) for lane in lanes if name in lane.marks]
            use.head = Nanos(min(head for (head, _), _ in marks))
            use.tail = Nanos(min(served - mark for (_, mark), served in marks))
        self.lanes, self.errands = {}, {}
        self.asking = self.turning = self.wanting = self.acting = 0


@dataclass(slots=True, eq=False)
class Engine:
    """One engine, over all the times that it joined.

    ``area``: ∫ running turns dt, ``context_area``: ∫ their tokens dt, ``busy``: time with at least one turn running.
    ``reusable``: tokens that turns after a stream's first could have found in the cache, ``reused``: those they did
    find; both, like ``cached``, ``reported`` (prompt tokens) and ``expected``, over the ``reporting`` turns only, those
    that say ``cached_tokens``.
    ``moved``: turns that came here while their stream's previous one ran elsewhere.
    """

    id: EngineId
    kind: str = "openai"
    kv_tokens: int | None = None
    max_running: int | None = None
    alive: bool = False
    running: int = 0
    tokens: int = 0
    since: int = 0
    area: int = 0
    context_area: int = 0
    busy: int = 0
    turns: int = 0
    prompt: int = 0
    output: int = 0
    cached: int = 0
    reported: int = 0
    reporting: int = 0
    expected: int = 0
    reusable: int = 0
    reused: int = 0
    service: int = 0
    moved: int = 0
    failed: int = 0
    waited: int = 0
    longest_wait: int = 0
    kv_usage: float | None = None
    engine_waiting: int | None = None
    preemptions: int | None = None

    def advance(self, now: int) -> None:
        """Integrate up to now."""
        span = now - self.since
        self.since = now
        if self.running:
            self.area += self.running * span
            self.context_area += self.tokens * span
            self.busy += span


@dataclass(slots=True, eq=False)
class Environment:
    """One environment. ``area``: ∫ running actions dt, ``capacity``: ∫ slots dt since it appeared."""

    id: EnvironmentId
    slots: int = 0
    most_slots: int = 0
    instances: int | None = None
    busy: int = 0
    queued: int = 0
    since: int = 0
    area: int = 0
    capacity: int = 0
    actions: int = 0
    service: int = 0
    failed: int = 0
    waited: int = 0
    longest_wait: int = 0

    def advance(self, now: int) -> None:
        """Integrate up to now."""
        span = now - self.since
        self.since = now
        self.area += self.busy * span
        self.capacity += self.slots * span


@dataclass(slots=True)
class Lost:
    """Work of attempts that were given up and began anew: it is in all other sums, and led to nothing."""

    attempts: int = 0
    turns: int = 0
    actions: int = 0
    service: int = 0
    live: int = 0


@dataclass(frozen=True, slots=True)
class EngineLoss:
    """An engine went away; ``turns`` were running there and moved, or failed with it."""

    at: Nanos
    engine: EngineId
    cause: str
    turns: int
