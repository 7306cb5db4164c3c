"""The group index by its formula, and the guard that switches it off."""

import random

import pytest

from headway.policies.group import FIRST_MEAN, K, LongestGroupFirst, batch_mean
from headway.policies.guard import LEAST, HazardGuard
from headway.policies.presets import preset


@pytest.fixture
def tried(batch):
    return batch(preset("group")[0])


@pytest.fixture
def guard(tried):
    return tried.machine._observers[0]


def index(trajectory, world, guard):
    order = LongestGroupFirst(guard)
    return -(order.offset(trajectory, world) + order.member(trajectory))


def test_the_index_is_progress_and_twice_the_posterior_mean(tried, guard):
    for name in ("a1", "a2", "b1", "b2"):
        tried.sample(name, group=name[0])
    tried.act("a1", 6)
    tried.finish("a1")
    tried.act("a2", 2)
    mean = (8 + K * FIRST_MEAN) / (1 + K)
    assert batch_mean(tried.world) == pytest.approx(mean)
    a2, b1 = tried.world.trajectories["a2"], tried.world.trajectories["b1"]
    assert index(a2, tried.world, guard) == pytest.approx(2 + 2 * (8 + K * mean) / (1 + K))
    assert index(b1, tried.world, guard) == pytest.approx(2 * mean)


def test_alone_most_progress_goes_first(tried, guard):
    tried.sample("a")
    tried.sample("b", group="only-one")
    tried.act("a", 3)
    tried.act("b", 1)
    a, b = tried.world.trajectories["a"], tried.world.trajectories["b"]
    prior = batch_mean(tried.world)
    assert index(a, tried.world, guard) == pytest.approx(3 + (3 + K * prior) / K)
    assert index(b, tried.world, guard) < index(a, tried.world, guard)


def test_everybody_moves_when_the_mean_is_learnt_or_the_verdict_changes(tried, guard):
    for name in ("a1", "a2"):
        tried.sample(name, group="a")
    a1 = tried.world.trajectories["a1"]
    order = LongestGroupFirst(guard)
    waiting = {order.bucket(a1)}
    assert order.moved(a1, tried.world, waiting) == [(order.bucket(a1), order.offset(a1, tried.world))]
    assert order.moved(a1, tried.world, set()) == (), "nobody of it waits"
    tried.finish("a1")
    assert order.moved(a1, tried.world, waiting) is None
    guard.flips += 1
    a2 = tried.world.trajectories["a2"]
    assert order.moved(a2, tried.world, waiting) is None
    assert order.moved(a2, tried.world, waiting) is not None


def test_while_hazards_rise_first_come_is_first_served(tried, guard):
    for name in ("a", "b"):
        tried.sample(name, group=name)
    tried.act("a", 5)
    guard.rising = True
    a, b = tried.world.trajectories["a"], tried.world.trajectories["b"]
    assert index(a, tried.world, guard) == index(b, tried.world, guard) == 0.0
    assert LongestGroupFirst(guard).bucket(a) == LongestGroupFirst(guard).bucket(b)


def play(tried, dice, draw, groups=40):
    """Groups whose members act in turn until their lengths, drawn by ``draw``, are reached."""
    for group in range(groups):
        left = {f"{group}/{member}": draw(dice) for member in range(6)}
        for name in left:
            tried.sample(name, group=str(group))
        while left:
            for name in list(left):
                if left[name]:
                    tried.act(name)
                    left[name] -= 1
                else:
                    tried.finish(name)
                    del left[name]


def test_lengths_that_level_off_raise_the_guard(tried, guard):
    play(tried, random.Random(1), lambda dice: dice.randint(4, 20))
    assert guard.rising
    assert guard.flips % 2 == 1


def test_heavy_tails_leave_it_down(tried, guard):
    play(tried, random.Random(1), lambda dice: min(90, round(4 * dice.paretovariate(1.3))))
    assert not guard.rising


def test_few_ends_are_no_evidence(tried, guard):
    play(tried, random.Random(1), lambda dice: dice.randint(4, 20), groups=2)
    assert min(guard._ended) < LEAST
    assert not guard.rising


def test_between_its_thresholds_the_verdict_stays():
    guard = HazardGuard()
    guard._exposed, guard._ended = [100, 100], [20, 38]
    guard._judge()
    assert not guard.rising, "two standard errors raise nothing"
    guard._ended = [20, 60]
    guard._judge()
    assert guard.rising
    guard._ended = [20, 38]
    guard._judge()
    assert guard.rising, "and two do not lower it"
    guard._ended = [20, 20]
    guard._judge()
    assert (guard.rising, guard.flips) == (False, 2)


def test_where_everybody_ends_at_once_there_is_nothing_to_compare():
    guard = HazardGuard()
    guard._ended = [LEAST, LEAST]
    guard._judge()
    assert not guard.rising
