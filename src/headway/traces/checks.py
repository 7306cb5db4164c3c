"""What is wrong with a trajectory, if anything is, beyond what its types say."""

from headway.core.units import StreamId
from headway.traces.format import Recorded, RecordedTurn


def wrong(trajectory: Recorded) -> str | None:
    """One sentence on the first thing in a trajectory that can't be true; None: nothing."""
    held: dict[StreamId, int] = {}
    for place, turn in enumerate(trajectory.turns):
        said = _lengths(turn, held.get(turn.stream, 0)) or _ids(turn)
        if said is None and any(earlier >= place for earlier in turn.after):
            said = "is said to come after a turn that is not before it in the list"
        if said is not None:
            return f"turn {place} {said}"
        held[turn.stream] = turn.prompt_tokens + turn.output_tokens
    if trajectory.started_s is not None and trajectory.finished_s is not None:  # noqa: SIM102 - reads as two questions
        if trajectory.finished_s < trajectory.started_s:
            return "it ends before it starts"
    return None


def untimed(trajectory: Recorded) -> str | None:
    """Say which action has no duration; None: all have one."""
    if all(action.service_s is not None for action in trajectory.setup) is False:
        return "an action of its setup has no duration"
    for place, turn in enumerate(trajectory.turns):
        for number, action in enumerate(turn.actions):
            if action.service_s is None:
                return f"action {number} of turn {place} ({action.environment}) has no duration"
    return None


def _lengths(turn: RecordedTurn, held: int) -> str | None:
    if turn.kept < 0:
        return f"adds {turn.new_tokens} tokens to a prompt of {turn.prompt_tokens}"
    if turn.kept > held:
        return (
            f"keeps {turn.kept} tokens, but its stream {turn.stream!r} holds {held}: a turn before it is missing or out"
            " of order"
        )
    if turn.cached_tokens is not None and turn.cached_tokens > turn.prompt_tokens:
        return f"found {turn.cached_tokens} tokens cached of a prompt of {turn.prompt_tokens}"
    return None


def _ids(turn: RecordedTurn) -> str | None:
    for ids, length, what in (
        (turn.prompt_ids, turn.new_tokens, "new"),
        (turn.output_ids, turn.output_tokens, "answered"),
    ):
        if ids is not None and len(ids) != length:
            return f"has {len(ids)} ids for {length} {what} tokens"
    return None
