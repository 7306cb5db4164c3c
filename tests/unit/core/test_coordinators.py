"""Pauses, new coordinators, and a journal read back."""

import pytest

from headway.core.facts import (
    ActionFinished,
    ActionRequested,
    ActionWithdrawn,
    EngineJoined,
    EngineLost,
    LimitChanged,
    SampleSubmitted,
    SlotsChanged,
    TrajectoryAbandoned,
    TrajectoryFinished,
    TurnFinished,
    TurnRequested,
    TurnWithdrawn,
    Woke,
)
from headway.core.units import MAIN
from headway.core.world import Phase
from headway.errors import RefusedFact


def test_nothing_starts_in_a_pause_and_everything_goes_on_after_it(journal):
    batch = journal()
    batch.engine("e", running=1)
    batch.environment("bash", 1)
    for name in "ab":
        batch.sample(name)
    batch.turn("a")
    batch.pause()
    assert batch.turn("b") == []
    assert batch.act("b") == []
    assert batch.sample("c") == []
    assert batch.answer("a") == []
    assert batch.resume() == ["start b:0 on e", "grant b#0 in bash", "admit c"]


def test_what_was_in_flight_starts_again_under_a_new_coordinator(journal):
    batch = journal()
    batch.engine("e")
    batch.environment("bash", 1)
    for name in "abc":
        batch.sample(name)
    batch.turn("a")
    batch.act("b")
    batch.finish("c")
    assert batch.coordinator() == []
    assert batch.engine("e") == []
    assert batch.resume() == ["admit a", "admit b"], "in their first order; c is done"
    assert batch.turn("a") == ["start a:0 on e"]


def test_a_new_coordinator_may_try_what_failed_again(journal):
    batch = journal()
    batch.engine("e")
    batch.sample("a")
    batch.abandon("a")
    batch.coordinator(retry_failed=True)
    batch.engine("e")
    assert batch.resume() == ["admit a"]
    assert not batch.world.failed


def test_a_restored_machine_admits_what_the_live_one_would(journal):
    batch = journal()
    batch.engine("e")
    batch.environment("bash", 1)
    for name in "abcd":
        batch.sample(name)
    batch.limit(4)
    batch.turn("a")
    batch.answer("a", 30)
    batch.act("a")
    batch.acted("a")
    batch.finish("b")
    batch.abandon("c")
    batch.abandon("d", again=True)
    world = batch.restored().world
    assert world.done == {"b"}
    assert set(world.failed) == {"c"}
    assert (world.outputs, world.answered) == (30, 1)
    assert world.trajectories["a"].completed == 1
    assert world.trajectories["d"].attempt == batch.world.trajectories["d"].attempt


def test_a_rejected_sample_stays_rejected(journal):
    batch = journal()
    batch.engine("e", context=5)
    batch.sample("a", 10)
    assert set(batch.restored().world.failed) == {"a"}


@pytest.mark.parametrize("again", [False, True])
def test_restoring_over_two_coordinators_counts_attempts_on(journal, again):
    batch = journal()
    batch.engine("e")
    batch.sample("a")
    batch.abandon("a", again=again)
    batch.coordinator(retry_failed=True)
    batch.engine("e")
    batch.resume()
    batch.turn("a")
    restored = batch.restored().world.trajectories["a"]
    assert restored.attempt == batch.world.trajectories["a"].attempt
    assert restored.phase is Phase.LIVE


def test_restore_reads_what_is_kept_beside_a_sample_that_ended(journal):
    batch = journal()
    batch.engine("e")
    batch.environment("bash", 1)
    batch.sample("a")
    batch.turn("a")
    batch.fail("a", "invalid")
    assert batch.restored().world.trajectories["a"].attempt == 1


REFUSED = {
    "the trajectory is not live": TurnRequested(9, "ghost", MAIN, 0, 5),
    "turns of a stream count up by one": TurnRequested(9, "idle", MAIN, 7, 5),
    "a turn of this stream is under way": TurnRequested(9, "busy", MAIN, 1, 5),
    "this attempt at the turn is not running": TurnFinished(9, "busy", MAIN, 0, 99, 5, 5, 5),
    "this attempt at the action is not running": ActionFinished(9, "busy", MAIN, 0, 99, 5),
    "no such stream is live": TurnFinished(9, "ghost", MAIN, 0, 1, 5, 5, 5),
    "no such action is open": ActionFinished(9, "idle", MAIN, 0, 1, 5),
    "actions of a trajectory count up by one": ActionRequested(9, "idle", MAIN, 5, "bash"),
    "no such turn is under way": TurnWithdrawn(9, "idle", MAIN, 0),
    "no such action waits": ActionWithdrawn(9, "busy", MAIN, 0),
    "no such trajectory": TrajectoryAbandoned(9, "ghost", "gone"),
    "this sample was submitted before": SampleSubmitted(9, "idle"),
    "this engine has joined already": EngineJoined(9, "e"),
    "no such engine": EngineLost(9, "f", "gone"),
    "negative": SlotsChanged(9, "bash", -1),
    "a limit below one": LimitChanged(9, 0),
    "it is from 2 ns before the last fact": Woke(3),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_a_refused_fact_says_why_and_changes_nothing(journal, reason):
    batch = journal()
    batch.engine("e")
    batch.environment("bash", 1)
    for name in ("idle", "busy"):
        batch.sample(name)
    batch.turn("busy")
    batch.pass_(5).act("busy")
    with pytest.raises(RefusedFact, match=reason):
        batch.machine.handle(REFUSED[reason])
    assert batch.answer("busy") == []
    assert batch.acted("busy") == []


def test_a_pending_trajectory_can_neither_finish_nor_ask(journal):
    batch = journal()
    batch.engine("e")
    batch.pause()
    batch.sample("a")
    for fact in (TrajectoryFinished(0, "a"), ActionRequested(0, "a", MAIN, 0, "bash"), TurnWithdrawn(0, "b", MAIN, 0)):
        with pytest.raises(RefusedFact, match="the trajectory is not live"):
            batch.machine.handle(fact)
