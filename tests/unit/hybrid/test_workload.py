"""Profiles: from recorded turns, and from a few numbers; the two must agree on the same trajectories."""

import math

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.core.units import SECOND, Nanos, Tokens, TrajectoryId
from headway.errors import ConfigError
from headway.hybrid.workload import ByHand, Spread, TurnRecord, by_hand, from_turns

NUMBERS = ByHand(turns=4, first_prompt=1000, growth=100, output=50, action=3)


def record(name: str, turn: int, prompt: int, output: int, action: int | None = None) -> TurnRecord:
    return TurnRecord(
        TrajectoryId(name), turn, Tokens(prompt), Tokens(output), None if action is None else Nanos(action * SECOND)
    )


def chain(name: str, turns: int, first: int = 1000, growth: int = 100, output: int = 50) -> list[TurnRecord]:
    return [record(name, k, first + k * (growth + output), output, 3) for k in range(turns)]


def test_a_spread_in_five_numbers() -> None:
    spread = Spread.of([float(n) for n in range(1, 101)])
    assert spread == Spread(50.5, pytest.approx(28.866, abs=1e-3), 50, 95, 100)
    assert Spread.of([]) == Spread(0.0)


def test_weights_count_and_useless_weights_do_not() -> None:
    assert Spread.of([1.0, 3.0], [3.0, 1.0]).mean == 1.5
    assert Spread.of([1.0, 3.0], [0.0, 0.0]).mean == 2


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(0, 1e6), st.floats(0.001, 1e3)), min_size=1, max_size=30))
def test_a_spread_is_in_order(pairs: list[tuple[float, float]]) -> None:
    spread = Spread.of([v for v, _ in pairs], [w for _, w in pairs])
    assert spread.p50 <= spread.p95 <= spread.most == max(v for v, _ in pairs)


def test_recorded_turns_in_any_order() -> None:
    records = [*chain("b", 4), *reversed(chain("a", 2))]
    work = from_turns(records, source="here", shared_prefix=Tokens(7))
    assert (work.trajectories, work.turns.mean, work.shrunk, work.shared_prefix) == (2, 3, 0, 7)
    assert (work.first_prompt.mean, work.growth.mean, work.output.mean, work.action.mean) == (1000, 100, 50, 3)
    assert work.context.mean == pytest.approx((1050 + 1200 + 1050 + 1200 + 1350 + 1500) / 6)
    assert work.longest == Spread(1350, 150, 1200, 1500, 1500)
    assert work.new_tokens == pytest.approx((1000 + 2 * 100) / 3)
    assert work.later_turns == pytest.approx(2 / 3)


def test_contexts_are_weighted_by_the_time_they_are_held() -> None:
    work = from_turns([record("a", 0, 100, 0, 9), record("a", 1, 200, 0, 1)], source="here")
    assert work.context.mean == 110


def test_history_that_shrinks_is_counted() -> None:
    work = from_turns([record("a", 0, 100, 10), record("a", 1, 50, 10)], source="here")
    assert (work.shrunk, work.growth.mean, work.action.mean) == (1, 0, 0)


@pytest.mark.parametrize("field", ["prompt_tokens", "output_tokens", "action", "service"])
def test_negative_records_are_refused(field: str) -> None:
    bad = msgspec.structs.replace(record("a", 3, 1, 1), **{field: -1})
    with pytest.raises(ConfigError, match="here: turn 3 of a has a negative number"):
        from_turns([bad], source="here")


def test_an_empty_recording_is_refused() -> None:
    with pytest.raises(ConfigError, match="here: no turns"):
        from_turns([], source="here")


@pytest.mark.parametrize("turns", [1, 2, 7])
def test_by_hand_agrees_with_the_same_trajectories_recorded(turns: int) -> None:
    recorded = from_turns(chain("a", turns), source="here")
    guessed = by_hand(msgspec.structs.replace(NUMBERS, turns=turns))
    assert guessed.context.mean == pytest.approx(recorded.context.mean)
    assert guessed.context.sd == pytest.approx(recorded.context.sd)
    assert guessed.longest.mean == recorded.longest.mean
    assert guessed.new_tokens == pytest.approx(recorded.new_tokens)


def test_longer_chains_count_by_the_time_they_live() -> None:
    recorded = from_turns([*chain("a", 2), *chain("b", 6)], source="here")
    guessed = by_hand(msgspec.structs.replace(NUMBERS, turns=4, turns_sd=2))
    assert guessed.context.mean == pytest.approx(recorded.context.mean)


def test_spreads_by_hand_add_up() -> None:
    work = by_hand(msgspec.structs.replace(NUMBERS, first_prompt_sd=30, growth_sd=4, output_sd=3, turns=3))
    behind = 1.0  # turns behind a random one of three, variance 2/3
    assert work.context.sd == pytest.approx(math.sqrt(30**2 + 3**2 + behind * 25 + 150**2 * 2 / 3))


@pytest.mark.parametrize(
    ("changes", "words"), [({"growth": -1}, "growth is negative"), ({"turns": 0.5}, "at least one turn")]
)
def test_numbers_that_cannot_be_are_refused(changes: dict[str, float], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        by_hand(msgspec.structs.replace(NUMBERS, **changes))
