"""Turns that don't fit are passed, within bounds."""

import pytest

from headway.core.facts import EngineSampled


@pytest.fixture
def crowded(journal):
    """One engine of 1000 tokens, half of it taken by ``holder``; the others are live and have asked nothing yet."""

    def begin(policy="fifo", **settings):
        batch = journal(policy, **settings)
        batch.something_in_flight().engine("e", kv=1000)
        for name in ("holder", "big", "small", "tiny", "late"):
            batch.sample(name, 1)
        batch.turn("holder", 490)
        return batch

    return begin


def test_a_smaller_turn_passes_one_that_does_not_fit(crowded):
    batch = crowded()
    assert batch.turn("big", 800) == []
    assert batch.turn("small", 100) == ["start small:0 on e"]


def test_the_window_bounds_how_far_a_retry_looks(crowded):
    batch = crowded(bypass=1)
    batch.turn("big", 600)
    batch.turn("small", 450)
    batch.turn("tiny", 430)
    assert batch.withdraw_turn("holder") != []
    assert batch.world.trajectories["tiny"].streams["main"].doing == 1


def test_nobody_is_passed_more_often_than_overtaking_allows(crowded):
    batch = crowded(overtakes=1)
    assert batch.turn("big", 800) == []
    assert batch.turn("small", 100) == ["start small:0 on e"]
    assert batch.turn("tiny", 100) == [], "big was passed once, and may not be again"
    batch.answer("holder")
    batch.answer("small")
    batch.finish("small")
    assert batch.finish("holder") == ["start big:0 on e", "start tiny:0 on e"]


def test_a_blocked_window_is_not_looked_at_again_until_something_changed(crowded):
    batch = crowded()
    for name in ("big", "small", "tiny"):
        assert batch.turn(name, 700) == []
    line = batch.machine._dispatch.turns._lanes["e"].parked
    batch.sample("x", 1)
    batch.turn("x", 20)
    assert batch.answer("x") == []
    assert line.least == 710
    assert batch.turn("late", 450) == []
    assert line.least == 460, "a smaller newcomer within the window counts"
    assert batch.finish("x") == []
    assert batch.withdraw_turn("holder") == ["cancel holder:0 on e", "start big:0 on e"]


def test_a_retry_passes_those_who_do_not_fit(crowded):
    batch = crowded()
    batch.machine.handle(EngineSampled(0, "e", 1, 0, 0.5, 0))
    batch.turn("small", 300)
    batch.turn("big", 700)
    batch.turn("tiny", 400)
    assert batch.withdraw_turn("small") == ["cancel small:0 on e", "start tiny:0 on e"]


def test_places_are_shared_by_priority_and_the_passed_line_counts(journal):
    batch = journal(overtakes=1)
    batch.engine("e", kv=10_000, running=1)
    batch.environment("bash", 9)
    for name in "abcd":
        batch.sample(name)
    batch.turn("a")
    batch.answer("a")
    batch.turn("b")
    assert batch.turn("c") == [], "new, first to wait"
    assert batch.turn("a", 30) == [], "back, second"
    assert batch.answer("b") == ["start c:0 on e"]
    assert batch.turn("d") == []
    assert batch.answer("c") == ["start a:1 on e"]
    assert batch.answer("a") == ["start d:0 on e"]


def test_a_returning_turn_with_more_progress_goes_before_a_new_one(journal):
    batch = journal("caas")
    batch.engine("e", kv=10_000, running=1)
    batch.environment("bash", 9)
    for name in "abc":
        batch.sample(name)
    batch.turn("a")
    batch.answer("a")
    batch.act("a")
    batch.acted("a")
    batch.turn("b")
    batch.turn("c")
    batch.turn("a", 30)
    assert batch.answer("b") == ["start a:1 on e"]
