"""Work that gets lost, or done twice, is noticed."""

from dataclasses import replace

import pytest

from headway.analysis.tally import Tally
from headway.core.commands import Admit, CancelTurn, GrantAction, StartTurn
from headway.core.facts import (
    ActionFailed,
    ActionFinished,
    ActionRequested,
    SampleSubmitted,
    TrajectoryAbandoned,
    TrajectoryFinished,
    TurnFinished,
    TurnRequested,
)
from headway.core.units import MAIN, SECOND, EngineId, EnvironmentId, Nanos, Tokens, TrajectoryId
from headway.drivers.simulate import Totals
from headway.errors import BugError
from headway.traces import Script, ScriptedAction, Step

A, BASH, ENGINE = TrajectoryId("a"), EnvironmentId("bash"), EngineId("e")
SCRIPT = Script(A, (Step(Tokens(100), Tokens(10), ScriptedAction(BASH, Nanos(SECOND))), Step(Tokens(20), Tokens(5))))
DONE = Totals(turns=2, computed=140, recomputed=0, cached=90, decoded=15)


def at(seconds: float) -> Nanos:
    return Nanos(round(seconds * SECOND))


def played() -> Tally:
    """Turn, action, turn: waits of 2 s for the engine and 3 s for the slot; 90 of 110 tokens found again."""
    tally = Tally()
    tally.apply(SampleSubmitted(at(0), A), [Admit(A, 1)])
    tally.apply(TurnRequested(at(1), A, MAIN, 0, Tokens(100)), [])
    tally.apply(TurnRequested(at(1), A, MAIN, 0, Tokens(100)), [])
    tally.apply(SampleSubmitted(at(3), TrajectoryId("b")), [StartTurn(A, MAIN, 0, 1, ENGINE)])
    tally.apply(TurnFinished(at(4), A, MAIN, 0, 1, Tokens(100), Tokens(10), at(1), Tokens(0)), [])
    tally.apply(ActionRequested(at(4), A, MAIN, 0, BASH), [])
    tally.apply(SampleSubmitted(at(7), TrajectoryId("c")), [GrantAction(A, MAIN, 0, 1, BASH)])
    tally.apply(ActionFinished(at(8), A, MAIN, 0, 1, at(1)), [])
    tally.apply(TurnRequested(at(8), A, MAIN, 1, Tokens(130)), [StartTurn(A, MAIN, 1, 1, ENGINE, 0, 110)])
    tally.apply(TurnFinished(at(9), A, MAIN, 1, 1, Tokens(130), Tokens(5), at(1), Tokens(90)), [])
    tally.apply(TrajectoryFinished(at(9), A), [])
    return tally


def test_what_it_counts() -> None:
    tally = played()
    assert tally.makespan == 9 * SECOND
    assert tally.hit_rate == pytest.approx(90 / 110)
    assert tally.expected_hit_rate == 1.0
    assert (tally.longest_turn_wait, tally.longest_slot_wait) == (2 * SECOND, 3 * SECOND)
    tally.check([SCRIPT], [DONE])


def test_nothing_yet() -> None:
    tally = Tally()
    assert (tally.makespan, tally.hit_rate, tally.expected_hit_rate) == (0, 1.0, 1.0)
    tally.check([], [])


@pytest.mark.parametrize(
    ("field", "value", "what"),
    [
        ("turns", 1, "turns: 2 asked for, 1 done"),
        ("actions", 2, "actions: 1 asked for, 2 done"),
        ("outputs", 14, "output tokens: 15 asked for, 14 done"),
        ("cached", 80, "prompt tokens: 150 asked for, 140 done"),
        ("failed", 1, "samples: 1 asked for, 2 done"),
    ],
)
def test_lost_work_is_a_bug(field: str, value: int, what: str) -> None:
    tally = played()
    setattr(tally, field, value)
    with pytest.raises(BugError, match=what):
        tally.check([SCRIPT], [DONE])


def test_engines_that_decoded_something_else_are_a_bug() -> None:
    with pytest.raises(BugError, match="decoded tokens: 15 asked for, 12 done"):
        played().check([SCRIPT], [replace(DONE, decoded=12)])


def test_whoever_was_cancelled_may_have_done_more_but_not_less() -> None:
    tally = played()
    tally.apply(TrajectoryAbandoned(at(9), TrajectoryId("b"), "enough"), [CancelTurn(A, MAIN, 3, 1, ENGINE)])
    more = [SCRIPT, Script(TrajectoryId("b"), SCRIPT.steps)]
    tally.turns += 1
    tally.check(more, [replace(DONE, computed=200)])
    with pytest.raises(BugError, match="prompt tokens"):
        tally.check(more, [replace(DONE, computed=100)])


def test_an_action_that_failed_counts_unless_it_will_be_tried_again() -> None:
    tally = Tally()
    for kind, count in (("lost", 0), ("error", 1)):
        tally.apply(ActionFailed(at(1), A, MAIN, 0, 1, kind, "why"), [])  # type: ignore[arg-type]
        assert tally.actions == count
