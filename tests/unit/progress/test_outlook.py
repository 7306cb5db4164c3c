"""The estimate of what is left: right where it can be known, silent where not."""

import random
from collections import Counter

import pytest

from headway.core.commands import Admit
from headway.core.facts import SampleSubmitted
from headway.core.progress import Phase, Progress, State, eta
from headway.core.progress.outlook import residuals
from headway.core.units import SECOND, Nanos, TrajectoryId


def batch(finished: dict[int, int], live: dict[int, int], pending: int = 0) -> Progress:
    """Ten seconds in, every live chain in inference since the start."""
    progress = Progress()
    progress.apply(SampleSubmitted(Nanos(0), TrajectoryId("x")), [Admit(TrajectoryId("x"), 1)])
    progress.lengths, progress.live_lengths = Counter(finished), Counter(live)
    progress.counts[State.PENDING] = pending
    progress.population = [0] * len(Phase)
    progress.population[Phase.INFERENCE] = sum(live.values())
    return progress


def test_chains_all_of_one_length() -> None:
    assert residuals(batch({5: 10}, {}))[:5] == [5, 4, 3, 2, 1]


def test_chains_under_way_count_for_at_least_what_they_are() -> None:
    blind = residuals(batch({2: 10}, {}))[0]
    seeing = residuals(batch({2: 10}, {8: 10}))[0]
    assert blind == 2
    assert seeing > 5


def test_it_finds_the_mean_of_a_memoryless_length_in_mid_batch() -> None:
    dice = random.Random(0)
    finished, live = Counter[int](), Counter[int]()
    for _ in range(4000):
        length = 1
        while dice.random() > 0.1:
            length += 1
        seen = dice.randint(0, 15)
        if length <= seen:
            finished[length] += 1
        else:
            live[seen] += 1
    expected = residuals(batch(finished, live))
    assert expected[0] == pytest.approx(10, rel=0.1)
    assert expected[5] == pytest.approx(10, rel=0.1)


def test_the_pace_so_far_goes_on() -> None:
    progress = batch({4: 5}, {}, pending=10)
    assert eta(progress, 10 * SECOND) == 20 * SECOND


def test_one_long_chain_takes_its_time() -> None:
    progress = batch({2: 50, 40: 3}, {10: 1})
    left = eta(progress, 10 * SECOND)
    per_turn = 10 * SECOND / (2 * 50 + 3 * 40 + 10)
    assert left is not None
    assert left >= 30 * per_turn - SECOND


def test_nothing_is_said_too_early() -> None:
    assert eta(Progress(), 5) is None
    assert eta(batch({4: 2}, {1: 1}), 10 * SECOND) is None
    assert eta(batch({4: 3}, {1: 1}), 0) is None
    assert eta(batch({0: 3}, {}), 10 * SECOND) is None
    assert eta(batch({4: 3}, {}), 10 * SECOND) == 0
