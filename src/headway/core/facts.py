"""Everything that can happen to a batch, in the past tense.

A fact is a frozen value: it can be compared, journalled and folded again. Time exists only as ``at``,
integer nanoseconds since the batch began; a point in time never runs backwards within one journal.
"""

from typing import assert_never

import msgspec

from headway.core.units import EngineId, EnvironmentId, GroupId, Nanos, StreamId, Tokens, TrajectoryId
from headway.errors import FailureKind as FailureKind


class _Fact(msgspec.Struct, frozen=True, gc=False, tag=True, omit_defaults=True):
    at: Nanos


class CoordinatorStarted(_Fact, frozen=True, gc=False, tag=True, omit_defaults=True):
    """A coordinator took over the batch: the first fact of a journal, and of every resume.

    Whatever was in flight is gone: unfinished trajectories go back to the queue as a new attempt. The batch is paused
    until ``Resumed`` says that engines and environments have been declared.
    With ``retry_failed`` those that were abandoned do so too. ``wall`` is unix time in nanoseconds, carried as data so
    that downtime can be told from makespan.
    """

    wall: int
    version: str
    retry_failed: bool = False


class SampleSubmitted(_Fact, frozen=True, gc=False, tag=True, omit_defaults=True):
    """A sample joined the batch and waits for admission.

    ``index`` is its place in the caller's order, ``prompt_tokens`` estimates its first prompt, ``hint`` is the
    caller's guess at its number of actions, ``environments`` names those it may use (empty: all of them).
    """

    trajectory: TrajectoryId
    index: int = 0
    group: GroupId | None = None
    prompt_tokens: Tokens = Tokens(0)
    hint: float | None = None
    environments: tuple[EnvironmentId, ...] = ()


class TurnRequested(_Fact, frozen=True, gc=False, tag=True, omit_defaults=True):
    """A stream wants its next turn. Turns of a stream count from 0 within a trajectory's attempt.

    ``prompt_tokens`` estimates the whole prompt (history included), ``max_output`` bounds the answer.
    """

    trajectory: TrajectoryId
    stream: StreamId
    turn: int
    prompt_tokens: Tokens
    max_output: Tokens | None = None


class TurnFinished(_Fact, frozen=True, gc=False, tag=True, omit_defaults=True):
    """An engine answered. ``cached_tokens`` is None where the engine does not report it.

    ``service`` is the time from sending the request to the last byte of the answer; ``engine_queue`` is
    the part of it that the engine says it spent waiting, None where it does not say.
    """

    trajectory: TrajectoryId
    stream: StreamId
    turn: int
    attempt: int
    prompt_tokens: Tokens
    output_tokens: Tokens
    service: Nanos
    cached_tokens: Tokens | None = None
    engine_queue: Nanos | None = None


class TurnFailed(_Fact, frozen=True, gc=False, tag=True, omit_defaults=True):
    """A turn ended without an answer. ``retry_after`` is the engine's own wish, if it gave one."""

    trajectory: TrajectoryId
    stream: StreamId
    turn: int
    attempt: int
    kind: FailureKind
    cause: str
    retry_after: Nanos | None = None


class TurnWithdrawn(_Fact, frozen=True, gc=False, tag=True, omit_defaults=True):
    """The agent no longer wants the turn it asked for, queued or running."""

    trajectory: TrajectoryId
    stream: StreamId
    turn: int


class ActionRequested(_Fact, frozen=True, gc=False, tag=True, omit_defaults=True):
    """A stream wants to act. Actions count from 0 within a trajectory's attempt, over all its streams."""

    trajectory: TrajectoryId
    stream: StreamId
    action: int
    environment: EnvironmentId


class ActionFinished(_Fact, frozen=True, gc=False, tag=True, omit_defaults=True):
    """The environment answered and the slot is free. ``service`` excludes the wait for the slot."""

    trajectory: TrajectoryId
    stream: StreamId
    action: int
    attempt: int
    service: Nanos


class ActionFailed(_Fact, frozen=True, gc=False, tag=True, omit_defaults=True):
    """An action ended badly and the slot is free. ``lost``: the slot died under it, the action re-queues."""

    trajectory: TrajectoryId
    stream: StreamId
    action: int
    attempt: int
    kind: FailureKind
    cause: str


class ActionWithdrawn(_Fact, frozen=True, gc=False, tag=True, omit_defaults=True):
    """The agent no longer wants the action it asked for and was not granted yet."""

    trajectory: TrajectoryId
    stream: StreamId
    action: int


class TrajectoryFinished(_Fact, frozen=True, gc=False, tag=True, omit_defaults=True):
    """The agent is done with this sample; everything it held is free."""

    trajectory: TrajectoryId
    score: float | None = None


class TrajectoryAbandoned(_Fact, frozen=True, gc=False, tag=True, omit_defaults=True):
    """The trajectory failed, timed out or was cancelled. ``again`` puts it back in the queue, once more."""

    trajectory: TrajectoryId
    cause: str
    again: bool = False


class EngineJoined(_Fact, frozen=True, gc=False, tag=True, omit_defaults=True):
    """An engine is ready. What is None is not known and not limited by us.

    ``kv_tokens``: KV tokens the cache holds (for one shared block pool: what it holds when states are
    counted apart). ``state_slots``: recurrent states it keeps. ``block_tokens``: granularity of a prefix hit.
    ``max_running``: requests it runs at once. ``max_context``: longest prompt plus output of one request.
    """

    engine: EngineId
    kind: str = "openai"
    kv_tokens: Tokens | None = None
    state_slots: int | None = None
    block_tokens: Tokens = Tokens(1)
    max_running: int | None = None
    max_context: Tokens | None = None


class EngineSampled(_Fact, frozen=True, gc=False, tag=True, omit_defaults=True):
    """What an engine says of itself. Counters count since it started; None where it does not say."""

    engine: EngineId
    running: int | None = None
    waiting: int | None = None
    kv_usage: float | None = None
    preemptions: int | None = None


class EngineLost(_Fact, frozen=True, gc=False, tag=True, omit_defaults=True):
    """An engine is gone, with its cache. Its turns move; its trajectories find a new home."""

    engine: EngineId
    cause: str


class SlotsChanged(_Fact, frozen=True, gc=False, tag=True, omit_defaults=True):
    """An environment appeared or changed size. Fewer slots than are busy: none is granted until it fits.

    ``instances`` bounds how many trajectories may hold an instance for life (None: stateless, no instances).
    ``create_interval`` is the least time between two creations of an instance.
    """

    environment: EnvironmentId
    slots: int
    instances: int | None = None
    create_interval: Nanos = Nanos(0)


class LimitChanged(_Fact, frozen=True, gc=False, tag=True, omit_defaults=True):
    """The number of live trajectories was limited anew; None lifts the limit."""

    live: int | None


class Paused(_Fact, frozen=True, gc=False, tag=True, omit_defaults=True):
    """Nothing new starts until ``Resumed``; what runs goes on."""


class Resumed(_Fact, frozen=True, gc=False, tag=True, omit_defaults=True):
    """The pause is over."""


class Woke(_Fact, frozen=True, gc=False, tag=True, omit_defaults=True):
    """A time that a ``WakeAt`` asked for has come."""


Fact = (
    TurnFinished
    | ActionRequested
    | ActionFinished
    | TurnRequested
    | SampleSubmitted
    | TrajectoryFinished
    | TurnFailed
    | ActionFailed
    | TrajectoryAbandoned
    | TurnWithdrawn
    | ActionWithdrawn
    | EngineSampled
    | EngineJoined
    | EngineLost
    | SlotsChanged
    | LimitChanged
    | Paused
    | Resumed
    | Woke
    | CoordinatorStarted
)

_ORDER: dict[type, int] = {
    kind: place
    for place, kind in enumerate(
        (
            CoordinatorStarted,
            SlotsChanged,
            EngineJoined,
            LimitChanged,
            Paused,
            Resumed,
            EngineSampled,
            TurnFinished,
            TurnFailed,
            ActionFinished,
            ActionFailed,
            TurnWithdrawn,
            ActionWithdrawn,
            TrajectoryFinished,
            TrajectoryAbandoned,
            EngineLost,
            TurnRequested,
            ActionRequested,
            SampleSubmitted,
            Woke,
        )
    )
}


def canonical(fact: Fact) -> tuple[int, int, int, str, str]:
    """Order facts so that simultaneous ones are applied alike by every driver.

    What frees something comes before what asks for something; then the caller's order; then the names.
    """
    rest: tuple[int, str, str]
    match fact:
        case SampleSubmitted():
            rest = (fact.index, fact.trajectory, "")
        case ActionRequested() | ActionFinished() | ActionFailed() | ActionWithdrawn():
            rest = (fact.action, fact.trajectory, fact.stream)
        case TurnRequested() | TurnFinished() | TurnFailed() | TurnWithdrawn():
            rest = (fact.turn, fact.trajectory, fact.stream)
        case TrajectoryFinished() | TrajectoryAbandoned():
            rest = (0, fact.trajectory, "")
        case EngineJoined() | EngineSampled() | EngineLost():
            rest = (0, fact.engine, "")
        case SlotsChanged():
            rest = (0, fact.environment, "")
        case CoordinatorStarted() | LimitChanged() | Paused() | Resumed() | Woke():
            rest = (0, "", "")
        case _:
            assert_never(fact)
    return (fact.at, _ORDER[type(fact)], *rest)
