"""The closed loop and the equations of memory, against sums worked out by hand."""

import math

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.core.units import Bytes, Tokens
from headway.hybrid.capacity import MARGIN, Reference, Scene, Z, reference
from headway.hybrid.pools import Pools
from headway.hybrid.timing import Fitted
from headway.hybrid.workload import ByHand, Workload, by_hand

WORK = by_hand(ByHand(turns=20, first_prompt=4000, growth=500, output=100, action=10, growth_sd=200))
TIMING = Fitted(base=0.01, per_sequence=1e-4, per_context=1e-8, per_new=1e-4)


def pools(**changes: object) -> Pools:
    plain = Pools(
        memory=Bytes(10_000_000),
        slot_bytes=Bytes(10_000),
        token_bytes=Bytes(10),
        token_grain=Tokens(1),
        reserve_bytes=Bytes(10_000),
        sequence_bytes=Bytes(0),
        running_slots=5,
        paused_slots=1,
    )
    return msgspec.structs.replace(plain, **changes)


def scene(workload: Workload = WORK, timing: Fitted = TIMING, again: float = 0, **changes: object) -> Scene:
    return Scene(pools(**changes), workload, timing, again)


@settings(deadline=None)
@given(st.integers(1, 2000))
def test_the_loop_is_in_balance(live: int) -> None:
    found = scene()
    loop = found.loop(live)
    assert loop.running + loop.rate * WORK.action.mean == pytest.approx(live, rel=1e-6)
    assert loop.share == pytest.approx(loop.running / live, rel=1e-6)
    met = found.response(1 + loop.running * (live - 1) / live)
    assert loop.rate * met == pytest.approx(loop.running, rel=1e-6)


def test_one_trajectory_by_hand() -> None:
    new = (4000 + 19 * 500) / 20
    response = 100 * (0.01 + 1e-4 + 1e-8 * WORK.context.mean) + new * 1e-4
    assert scene().response(1) == pytest.approx(response)
    assert scene().loop(1).rate == pytest.approx(1 / (10 + response))


def test_what_is_computed_again_takes_time_too() -> None:
    assert scene(again=1000).response(1) == pytest.approx(scene().response(1) + 1000 * 19 / 20 * 1e-4)


def test_prompts_are_computed_one_after_another() -> None:
    heavy = Fitted(base=0.0, per_sequence=0.0, per_context=0.0, per_new=1e-3)
    found = scene(timing=heavy)
    assert found.response(50) == pytest.approx(50 * found.response(1))
    assert found.loop(10_000).rate == pytest.approx(1 / found.response(1), rel=1e-3)


def test_decode_steps_are_shared_by_all() -> None:
    shared = Fitted(base=0.01, per_sequence=0.0, per_context=0.0, per_new=0.0)
    assert scene(timing=shared).response(50) == pytest.approx(scene(timing=shared).response(1))


def exact(service: float, action: float, live: int) -> float:
    """Turns per second of one server and so many customers that think in between: mean-value analysis, step by step."""
    waiting = rate = 0.0
    for customers in range(1, live + 1):
        response = service * (1 + waiting)
        rate = customers / (action + response)
        waiting = rate * response
    return rate


@pytest.mark.parametrize("live", [1, 2, 5, 10, 20, 40, 200])
def test_turns_that_come_by_chance_wait_before_the_engine_is_full(live: int) -> None:
    heavy = Fitted(base=0.0, per_sequence=0.0, per_context=0.0, per_new=1e-3)
    found = scene(timing=heavy)
    assert found.loop(live).rate == pytest.approx(exact(found.response(1), 10.0, live), rel=0.06)


def test_the_demand_of_fifty_by_hand() -> None:
    found = scene()
    loop, need = found.loop(50), found.demand(50)
    swing = Z * math.sqrt(50 * loop.share * (1 - loop.share))
    assert need.running == math.ceil(loop.running + swing)
    ended = loop.rate / WORK.turns.mean * WORK.action.p95
    assert need.slots == math.ceil(5 * (loop.running + swing) + (50 - loop.running - swing) + 2 * ended)
    held = 50 * math.ceil(WORK.context.mean) + Z * math.sqrt(50) * WORK.context.sd
    assert need.tokens == math.ceil(held + ended * math.ceil(WORK.longest.mean))


def test_what_ended_trajectories_leave_behind_is_evicted_last() -> None:
    at_once = msgspec.structs.replace(WORK, action=msgspec.structs.replace(WORK.action, p95=0.0))
    ended = scene().ended(scene().loop(50))
    assert ended > 1
    assert scene().demand(50).slots - scene(at_once).demand(50).slots == pytest.approx(2 * ended, abs=1)
    for other in (scene(caching=False), scene(slot_bytes=Bytes(0)), scene(whole=True)):
        assert other.ended(other.loop(50)) == 0


def test_without_a_cache_only_those_in_inference_hold_anything() -> None:
    kept, dropped = scene().demand(50), scene(caching=False).demand(50)
    assert dropped.tokens < kept.tokens
    assert dropped.slots < kept.slots


def test_slots_that_hold_their_longest_from_the_start() -> None:
    assert scene(whole=True).demand(10).tokens == 10 * math.ceil(WORK.longest.p95)


LIMITS = {
    "state": {"fixed": (30, Tokens(10_000_000))},
    "kv": {"fixed": (10_000, Tokens(200_000))},
    "memory": {},
    "running": {"memory": Bytes(10**12), "running_limit": 8},
    "slots": {"memory": Bytes(10**12), "live_limit": 9},
    "context": {"per_sequence": Tokens(100)},
}


@pytest.mark.parametrize("binding", LIMITS)
def test_what_binds(binding: str) -> None:
    found = reference(scene(**LIMITS[binding]))
    assert found.binding == binding
    share = MARGIN if binding in {"state", "kv", "memory"} else 1
    assert found.live == math.floor(share * found.largest)


def test_one_resource_alone_binds_by_its_name() -> None:
    assert reference(scene(slot_bytes=Bytes(0))).binding == "kv"
    assert reference(scene(token_bytes=Bytes(0), slot_bytes=Bytes(40_000))).binding == "state"


def test_pools_that_are_fixed_may_have_no_states() -> None:
    assert reference(scene(slot_bytes=Bytes(0), fixed=(0, Tokens(200_000)))).binding == "kv"


def test_inference_that_saturates_ends_it_before_memory_does() -> None:
    slow = Fitted(base=0.01, per_sequence=0.01, per_context=0.0, per_new=1e-4)
    found = scene(timing=slow, memory=Bytes(10**11))
    verdict = reference(found)
    assert verdict.binding == "inference"
    assert verdict.live < verdict.largest
    best = (1 << 16) / found.response(float(1 << 16))
    assert found.loop(verdict.live).rate >= 0.98 * best > found.loop(verdict.live - 1).rate


def test_an_engine_without_any_limit_is_bound_by_inference() -> None:
    assert reference(scene(memory=Bytes(10**18))).binding == "inference"
    free = Fitted(base=0.0, per_sequence=0.0, per_context=0.0, per_new=0.0)
    assert reference(scene(timing=free, memory=Bytes(10**18))).binding == "inference"


def test_nothing_fits_and_one_fits() -> None:
    assert reference(scene(memory=Bytes(20_000))) == Reference(0, 0, "memory")
    one = scene(live_limit=1)
    assert reference(one).live == reference(one).largest == 1


@settings(deadline=None, max_examples=30)
@given(st.integers(20, 2000), st.integers(0, 60))
def test_the_largest_fits_and_the_next_does_not(mega: int, action: int) -> None:
    work = msgspec.structs.replace(WORK, action=msgspec.structs.replace(WORK.action, mean=float(action)))
    found = scene(workload=work, memory=Bytes(mega * 1_000_000))
    verdict = reference(found)
    assert verdict.largest == 0 or found.violated(verdict.largest) is None
    assert found.violated(verdict.largest + 1) is not None
    more = reference(scene(workload=work, memory=Bytes(mega * 1_100_000)))
    assert more.live >= verdict.live
