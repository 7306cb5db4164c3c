"""Turn records out of facts: streams apart, attempts apart, and the time until a stream goes on."""

from headway.analysis.profile import turn_records
from headway.core.facts import (
    ActionFinished,
    CoordinatorStarted,
    Fact,
    TrajectoryAbandoned,
    TrajectoryFinished,
    TurnFinished,
    TurnRequested,
)
from headway.core.units import MAIN, Nanos, StreamId, Tokens, TrajectoryId

A = TrajectoryId("a")
SUB = StreamId("sub")


def asked(at: int, turn: int, stream: StreamId = MAIN) -> TurnRequested:
    return TurnRequested(Nanos(at), A, stream, turn, Tokens(10))


def answered(at: int, turn: int, stream: StreamId = MAIN) -> TurnFinished:
    return TurnFinished(Nanos(at), A, stream, turn, 1, Tokens(10 + turn), Tokens(5), Nanos(1))


def acted(at: int) -> ActionFinished:
    return ActionFinished(Nanos(at), A, MAIN, 0, 1, Nanos(1))


def over(at: int) -> TrajectoryFinished:
    return TrajectoryFinished(Nanos(at), A)


def times(*facts: Fact) -> list[tuple[str, int, int | None]]:
    return [(r.trajectory, r.turn, r.action) for r in turn_records((fact, ()) for fact in facts)]


def test_an_action_lasts_until_the_stream_goes_on() -> None:
    facts = (asked(0, 0), answered(3, 0), acted(8), asked(9, 1), answered(12, 1), acted(20), over(21))
    assert times(*facts) == [("a/main#1", 0, 6), ("a/main#1", 1, 8)]


def test_nothing_follows_the_last_turn_where_nothing_acted_after_it() -> None:
    assert times(asked(0, 0), answered(3, 0), over(9)) == [("a/main#1", 0, None)]
    facts = (asked(0, 0), answered(3, 0), acted(5), asked(6, 1), answered(8, 1), over(9))
    assert times(*facts)[-1] == ("a/main#1", 1, None)


def test_streams_are_chains_of_their_own() -> None:
    facts = (answered(3, 0), answered(4, 0, SUB), asked(5, 1), asked(9, 1, SUB), over(9))
    assert times(*facts) == [("a/main#1", 0, 2), ("a/sub#1", 0, 5)]


def test_only_attempts_that_finished_count() -> None:
    again = TrajectoryAbandoned(Nanos(4), A, "lost", again=True)
    facts = (answered(3, 0), again, answered(6, 0), over(7))
    assert times(*facts) == [("a/main#2", 0, None)]
    restart = CoordinatorStarted(Nanos(4), 0, "0")
    assert times(answered(3, 0), restart, answered(6, 0), over(7)) == [("a/main#2", 0, None)]


def test_a_run_in_which_none_finished_yet_is_taken_as_it_is() -> None:
    assert times(answered(3, 0), asked(5, 1)) == [("a/main#1", 0, 2)]
    assert times(TrajectoryAbandoned(Nanos(0), A, "never began")) == []
