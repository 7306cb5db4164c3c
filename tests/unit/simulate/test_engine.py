"""The engine model, by hand: a step of n turns takes 1 + n/2 s, a prompt token 10 ms."""

from collections.abc import Callable

import pytest

from headway.core.units import SECOND, Nanos, TrajectoryId
from headway.latency import LatencyModel

Make = Callable[..., "Bench"]  # noqa: F821 - of conftest


def test_a_turn_alone_pays_for_its_prompt_then_for_its_steps(bench: Make) -> None:
    one = bench()
    one.start(0, "a", 100, 4)
    assert one.rest() == [("a", 1 + 4 * 1.5, 0)]
    assert one.engine.next_at() is None


def test_context_grows_while_it_decodes(bench: Make) -> None:
    one = bench(cost=LatencyModel(0.0, 0.0, 0.001, 0.0))
    one.start(0, "a", 1000, 100)
    assert one.rest() == [("a", pytest.approx(0.001 * (1000 * 100 + 100**2 / 2)), 0)]


def test_two_that_decode_share_the_base_of_a_step(bench: Make) -> None:
    one = bench(cost=LatencyModel(1.0, 0.5, 0.0, 0.0))
    one.start(0, "a", 10, 4)
    one.start(0, "b", 10, 2)
    assert one.rest() == [("b", 4.0, 0), ("a", 4.0 + 2 * 1.5, 0)]


def test_prefill_takes_half_of_the_engine_from_those_that_decode(bench: Make) -> None:
    one = bench()
    one.start(0, "a", 100, 10)
    one.start(1, "b", 300, 1)
    # From 1 s on, b's 3 s of prefill take 6 s, in which a gets 3 s of its steps of 1.5 s; then both decode.
    assert one.rest() == [("b", 7.0 + 2.0, 0), ("a", 9.0 + 7 * 1.5, 0)]


def test_prompts_are_computed_one_after_the_other(bench: Make) -> None:
    one = bench(cost=LatencyModel(0.0, 0.0, 0.0, 0.01))
    for name in ("a", "b", "c"):
        one.start(0, name, 100, 1)
    assert [end for _, end, _ in one.rest()] == [1.0, 2.0, 3.0]


def test_the_next_turn_finds_its_context(bench: Make) -> None:
    one = bench()
    one.start(0, "a", 100, 4)
    one.start(10, "a", 150, 1, turn=1)
    assert one.rest()[-1] == ("a", 10 + 0.46 + 1.5, 104)


@pytest.mark.parametrize(("keeps_decode", "cached"), [(True, 112), (False, 96)])
def test_hits_come_in_blocks_up_to_the_last_state_that_was_kept(bench: Make, keeps_decode: bool, cached: int) -> None:
    one = bench(block_tokens=16, keeps_decode=keeps_decode)
    one.start(0, "a", 110, 4)
    one.start(50, "a", 150, 1, turn=1)
    assert one.rest()[-1][2] == cached


def test_a_family_shares_its_first_prompt_while_one_of_it_is_there(bench: Make) -> None:
    one = bench(state_slots=2)
    one.start(0, "g-1", 150, 1)
    one.start(0, "g-2", 150, 1)  # waits for the first one's prefill, and finds it
    one.start(50, "x", 150, 1)
    one.start(60, "y", 150, 1)
    one.start(70, "g-3", 150, 1)  # nobody of the family is left
    assert [(name, cached) for name, _, cached in one.rest()] == [
        ("g-1", 0),
        ("g-2", 100),
        ("x", 0),
        ("y", 0),
        ("g-3", 0),
    ]
    assert one.engine.evictions == 3


def test_whoever_was_used_least_recently_goes_first(bench: Make) -> None:
    one = bench(kv_tokens=350)
    one.start(0, "a", 100, 1)
    one.start(20, "b", 100, 1)
    one.start(40, "a", 110, 1, turn=1)
    one.start(60, "c", 150, 1)  # takes b's place, not a's
    one.start(80, "a", 120, 1, turn=2)
    assert one.rest()[-1] == ("a", pytest.approx(80 + 0.09 + 1.5), 111)
    one.start(100, "b", 110, 1, turn=1)
    assert one.rest()[-1][2] == 0


def test_a_turn_waits_inside_the_engine_until_it_fits(bench: Make) -> None:
    one = bench(kv_tokens=300)
    one.start(0, "a", 200, 4)
    one.start(0, "b", 150, 1)
    assert one.engine.sample(Nanos(SECOND)).waiting == 1
    assert one.rest() == [("a", 8.0, 0), ("b", 8.0 + 1.5 + 1.5, 0)]
    again = bench(max_running=1)
    again.start(0, "a", 100, 1)
    again.start(0, "b", 100, 1, rank=5)
    again.start(0, "c", 100, 1, rank=1)
    assert [name for name, _, _ in again.rest()] == ["a", "c", "b"]


def test_answers_that_outgrow_memory_preempt_the_last_one_which_starts_again(bench: Make) -> None:
    one = bench(kv_tokens=240)
    one.start(0, "a", 100, 30)
    one.start(0, "b", 100, 30)
    ended = one.rest()
    totals = one.engine.totals
    assert [name for name, _, _ in ended] == ["a", "b"]
    assert totals.preemptions == 1
    assert totals.decoded == 60
    # b had a share of the 40 tokens that were free; its prompt and those are computed again, less what a left behind
    assert 100 < totals.recomputed < 140
    assert totals.computed == 200 + totals.recomputed


def test_a_preempted_prompt_counts_once_as_cached(bench: Make) -> None:
    one = bench(kv_tokens=320)
    one.start(0, "a", 100, 110)
    one.start(30, "b", 150, 1)
    one.start(31, "c", 40, 1)
    one.rest()
    assert sorted(name for name, _, _ in one.ended) == ["a", "b", "c"]
    assert one.engine.totals.turns == 3


def test_what_can_never_fit_is_refused_at_once(bench: Make) -> None:
    one = bench(kv_tokens=100)
    one.start(0, "a", 90, 20)
    assert one.rest() == []
    assert one.failed[0].kind == "invalid"
    two = bench(state_slots=2, running_states=3)
    two.start(5, "a", 10, 1)
    assert two.engine.next_at() == 5 * SECOND
    two.rest()
    assert [fact.trajectory for fact in two.failed] == ["a"]


def test_a_running_turn_may_hold_several_states(bench: Make) -> None:
    one = bench(state_slots=6, running_states=3)
    for name in ("a", "b", "c"):
        one.start(0, name, 100, 4)
    assert one.engine.join(Nanos(0)).state_slots == 2
    assert one.engine.sample(Nanos(0)).running == 2
    assert len(one.rest()) == 3


@pytest.mark.parametrize("at", [0.5, 3.0])
def test_a_cancelled_turn_leaves_nothing_behind(bench: Make, at: float) -> None:
    """While it prefills, and while it decodes."""
    one = bench(kv_tokens=300)
    one.start(0, "a", 100, 4)
    one.start(0, "b", 100, 4)
    one.start(0, "c", 150, 1)
    one.cancel(at, "a")
    one.cancel(at, "a")  # twice does no harm
    assert sorted(name for name, _, _ in one.rest()) == ["b", "c"]
    assert one.engine.sample(Nanos(10**15)).kv_usage == 0


def test_a_turn_can_be_cancelled_before_it_runs(bench: Make) -> None:
    one = bench(max_running=1)
    one.start(0, "a", 100, 1)
    one.start(0, "b", 100, 1)
    one.cancel(1, "b")
    assert [name for name, _, _ in one.rest()] == ["a"]


def test_a_lost_engine_forgets_everything(bench: Make) -> None:
    one = bench()
    one.start(0, "a", 100, 1)
    one.start(10, "b", 100, 9)
    one.engine.lose(Nanos(12 * SECOND))
    assert one.engine.next_at() is None
    one.start(20, "a", 150, 1, turn=1)
    assert one.rest()[-1] == ("a", 20 + 1.5 + 1.5, 0)


@pytest.mark.parametrize(("forgets", "hit"), [(True, 0), (False, 101)])
def test_engines_are_not_told_that_a_trajectory_is_over_unless_they_forget(
    bench: Make, forgets: bool, hit: int
) -> None:
    one = bench(forgets=forgets)
    one.start(0, "a", 100, 1)
    one.until(10)
    one.engine.ended(Nanos(10 * SECOND), TrajectoryId("a"))
    one.start(11, "a", 150, 1, turn=1)
    assert one.rest()[-1][2] == hit


def test_a_compacted_context_finds_its_first_prompt_at_most(bench: Make) -> None:
    one = bench()
    one.start(0, "a", 500, 1)
    one.start(50, "a", 200, 1, turn=1)
    assert one.rest()[-1][2] == 100


def test_an_answer_without_tokens_ends_with_its_prompt(bench: Make) -> None:
    one = bench()
    one.start(0, "a", 100, 0)
    assert one.rest() == [("a", 1.0, 0)]


def test_it_tells_what_it_can_hold_and_what_it_does(bench: Make) -> None:
    one = bench(kv_tokens=1000, state_slots=8, block_tokens=16, max_running=4)
    joined = one.engine.join(Nanos(5))
    assert (joined.at, joined.kv_tokens, joined.state_slots, joined.block_tokens, joined.max_running) == (
        5,
        1000,
        8,
        16,
        4,
    )
    one.start(0, "a", 100, 4)
    sample = one.engine.sample(Nanos(0))
    assert (sample.running, sample.waiting, sample.kv_usage, sample.preemptions) == (1, 0, 0.1, 0)
    assert bench().engine.sample(Nanos(0)).kv_usage is None
