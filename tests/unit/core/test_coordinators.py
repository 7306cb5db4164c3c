"""Pauses, new coordinators, and a journal read back."""

import pytest

from headway.core.facts import TurnRequested
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


def test_a_refused_fact_says_why_and_changes_nothing(journal):
    batch = journal()
    with pytest.raises(RefusedFact, match="the trajectory is not live"):
        batch.machine.handle(TurnRequested(0, "ghost", MAIN, 0, 5))
    assert not batch.world.trajectories
