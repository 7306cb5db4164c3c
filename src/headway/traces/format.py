"""The trace: what trajectories did, turn by turn, in one format for all sources.

A trace is a header (:class:`Trace`) and one :class:`Recorded` trajectory after the other. Times are seconds, lengths
are tokens. Time in a queue (``queue_s``) is never part of a service time (``service_s``). Every duration says where it
comes from: *measured* by who ran it, *derived* from other times, or *assumed*, drawn from a distribution that somebody
named. What is not known is left out (None), never 0.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from headway.core.units import MAIN, EnvironmentId, GroupId, StreamId, TrajectoryId
from headway.errors import FailureKind

VERSION = 1

Tag = Literal["measured", "derived", "assumed"]
"""Where a number comes from."""

Fidelity = Literal["lengths", "ids", "texts"]
"""What a trace holds of prompts and answers: how long they were, their token ids too, or their texts too."""

Outcome = Literal["finished", "failed", "unfinished"]

Seconds = Annotated[float, Meta(ge=0)]
Length = Annotated[int, Meta(ge=0)]


class _Part(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    pass


class RecordedAction(_Part, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One action.

    Attributes:
        environment: where it ran.
        service_s: how long it held its slot on its last try; None: nobody measured it.
        queue_s: how long it waited for the slot.
        tag: where ``service_s`` comes from.
        parallel: it was asked for while the action before it in the list was still open.
        failures: how its tries ended that failed; what is ``lost`` was tried again, any other kind is its end.
        command: what was executed: a shell line, or ``{"name", "arguments"}`` of a tool.
        exit_code: of the command.
        response: what came back, as text.
    """

    environment: EnvironmentId
    service_s: Seconds | None = None
    queue_s: Seconds | None = None
    tag: Tag = "measured"
    parallel: bool = False
    failures: tuple[FailureKind, ...] = ()
    command: Any = None
    exit_code: int | None = None
    response: str | None = None


class RecordedTurn(_Part, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One turn of a stream, and the actions that follow it.

    A stream holds the tokens of its last prompt and answer. The prompt keeps the first ``prompt_tokens - new_tokens``
    of them and adds ``new_tokens``: it keeps all of them where a conversation only grows, none after a compaction.

    Attributes:
        stream: which growing prompt of the trajectory.
        new_tokens: tokens that the prompt adds to what it keeps.
        prompt_tokens: tokens of the whole prompt.
        output_tokens: tokens of the answer.
        lengths: where these three come from; *derived*: estimated from characters, or from the whole prompts' lengths.
        cached_tokens: prompt tokens that the engine found in its cache.
        queue_s: wait before the engine was asked.
        service_s: from asking the engine to the last byte of its answer; None: nobody measured it.
        engine_queue_s: the part of ``service_s`` that the engine says it spent waiting.
        think_s: the harness's own time between the end of what the turn follows and asking for it.
        tag: where ``service_s`` comes from.
        after: positions of earlier turns, of other streams, that were over (with their actions) before this one was
            asked for: what started the stream, or streams that it waited for.
        prompt_ids: token ids of the ``new_tokens``.
        output_ids: token ids of the answer.
        added: what was added, as text: a string, or messages as OpenAI shapes them.
        answer: the answer: a string, or a message as OpenAI shapes it.
        actions: in the order in which they were asked for.
    """

    stream: StreamId = MAIN
    new_tokens: Length
    prompt_tokens: Annotated[int, Meta(ge=1)]
    output_tokens: Length
    lengths: Tag = "measured"
    cached_tokens: Length | None = None
    queue_s: Seconds | None = None
    service_s: Seconds | None = None
    engine_queue_s: Seconds | None = None
    think_s: Seconds | None = None
    tag: Tag = "measured"
    after: tuple[Length, ...] = ()
    prompt_ids: tuple[int, ...] | None = None
    output_ids: tuple[int, ...] | None = None
    added: Any = None
    answer: Any = None
    actions: tuple[RecordedAction, ...] = ()

    @property
    def kept(self) -> int:
        """Tokens of what the stream holds that the prompt begins with."""
        return self.prompt_tokens - self.new_tokens


class Recorded(_Part, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One trajectory: the latest attempt at its sample.

    Attributes:
        id: unique in the trace.
        group: samples with the same one share a prompt.
        turns: of all streams, in the order in which they were asked for.
        setup: actions before the first turn.
        outcome: how it ended.
        cause: why it failed.
        score: what the sample scored.
        hint: its number of actions as guessed beforehand.
        attempt: which attempt at the sample this is, from 1.
        started_s: when it was admitted, in seconds since the batch began.
        finished_s: when it ended.
        request: what all its requests said beside the prompt (tools, sampling), where texts are kept.
    """

    id: TrajectoryId
    group: GroupId | None = None
    turns: tuple[RecordedTurn, ...]
    setup: tuple[RecordedAction, ...] = ()
    outcome: Outcome = "finished"
    cause: str | None = None
    score: float | None = None
    hint: float | None = None
    attempt: Annotated[int, Meta(ge=1)] = 1
    started_s: Seconds | None = None
    finished_s: Seconds | None = None
    request: dict[str, Any] | None = None

    def actions(self) -> tuple[RecordedAction, ...]:
        """All its actions, in the order of the trajectory."""
        return (*self.setup, *(action for turn in self.turns for action in turn.actions))


class Slots(_Part, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """How much of an environment there was when the trace was recorded."""

    slots: int
    instances: int | None = None


class Counts(_Part, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What a trace holds. ``derived``, ``assumed`` and ``untimed`` (no duration) count actions.

    ``estimated``: turns whose lengths are not measured.
    """

    trajectories: Length = 0
    turns: Length = 0
    actions: Length = 0
    derived: Length = 0
    assumed: Length = 0
    untimed: Length = 0
    estimated: Length = 0


class Trace(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    forbid_unknown_fields=True,
    tag_field="format",
    tag="headway-trace",
):
    """The header: where a trace comes from and what it holds.

    Attributes:
        version: of the format.
        source: what it was made from, for people: a journal's name, a format and a file.
        made: when, UTC, ISO 8601.
        fidelity: what it holds of prompts and answers.
        counts: filled in as it is written.
        label: what must stand beside every figure that rests on it; empty: nothing. Filled in as it is written.
        assume: the distribution that unknown durations were drawn from, if any were.
        tokenizer: the model whose token ids these are.
        engines: how many engines served it.
        environments: what there was of each.
        policy: who went when.
        concurrency: live trajectories at most.
        makespan_s: of the recorded batch.
    """

    version: int
    source: str
    made: str
    fidelity: Fidelity = "lengths"
    counts: Counts = Counts()
    label: str = ""
    assume: str = ""
    tokenizer: str | None = None
    engines: int | None = None
    environments: dict[EnvironmentId, Slots] = {}
    policy: str | None = None
    concurrency: int | None = None
    makespan_s: Seconds | None = None
