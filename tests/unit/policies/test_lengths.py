"""The mixture of lengths: against sums by hand, and against batches drawn from laws that it does not know."""

import random
from math import exp, log

import pytest

from headway.policies.lengths import CELLS, THETAS, Lengths, beyond, exactly, excess, expected, expected_excess, left


def test_ends_and_survival_share_out_the_probability_of_every_cell():
    for cell in range(CELLS):
        ended = sum(exp(exactly(n)[cell]) for n in range(1, 60))
        assert ended + exp(beyond(59)[cell]) == pytest.approx(1.0, abs=1e-9)


def test_what_is_left_is_the_mean_of_what_remains():
    cell = min(range(CELLS), key=lambda c: abs(THETAS[c] - log(8)))
    for n in (1, 5, 20):
        surviving = [exp(beyond(m)[cell] - beyond(n)[cell]) for m in range(n, 500)]
        assert left(n)[cell] == pytest.approx(sum(surviving), rel=0.06)


def test_far_beyond_all_that_is_likely_there_is_still_something_left():
    rest = left(3000)
    assert all(1.0 <= more < 3000 for more in rest)
    assert rest == sorted(rest), "longer groups have more left"
    assert all(more >= 1.0 for more in left(0))


def test_no_progress_says_nothing():
    assert beyond(0) == exactly(0) == [0.0] * CELLS


def test_weights_follow_what_was_seen():
    lengths = Lengths()
    nothing = lengths.weights([0.0] * CELLS)
    assert sum(nothing) == pytest.approx(1.0)
    assert expected(lengths.weights(beyond(40)), 40) > expected(nothing, 0) > expected(lengths.weights(exactly(2)), 0)


def test_short_members_make_a_survivor_look_nearly_done():
    lengths = Lengths()
    group = [3 * a + b for a, b in zip(exactly(5), beyond(5), strict=True)]
    alone = beyond(5)
    assert expected(lengths.weights(group), 5) < expected(lengths.weights(alone), 5)


def test_a_batch_with_two_modes_is_learnt_as_such():
    dice = random.Random(1)
    groups = [exactly(dice.choice((3, 4, 5)) if dice.random() < 0.8 else dice.choice((40, 50))) for _ in range(60)]
    lengths = Lengths()
    before = expected(lengths.weights(beyond(10)), 10)
    for _ in range(5):
        lengths.learn((seen, 1.0) for seen in groups)
    after = expected(lengths.weights(beyond(10)), 10)
    assert after > 1.5 * before, "who outlives the short ones is one of the long"
    assert expected(lengths.weights(beyond(0)), 0) == pytest.approx(12, rel=0.35)


def test_how_many_groups_say_the_same_counts():
    once, often = Lengths(), Lengths()
    once.learn([(exactly(30), 1.0)])
    often.learn([(exactly(30), 50.0)])
    blank = [0.0] * CELLS
    assert expected(often.weights(blank), 0) > expected(once.weights(blank), 0)


def test_the_excess_is_what_survival_leaves_beyond_a_bound():
    assert excess(4, 0) == pytest.approx(left(4))
    cell = min(range(CELLS), key=lambda c: abs(THETAS[c] - log(8)))
    surviving = [exp(beyond(m)[cell] - beyond(4)[cell]) for m in range(14, 500)]
    assert excess(4, 10)[cell] == pytest.approx(sum(surviving), rel=0.08)
    weights = Lengths().weights(beyond(4))
    assert expected_excess(weights, 4, 50) < expected_excess(weights, 4, 10) < expected(weights, 4)
