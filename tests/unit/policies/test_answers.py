"""What the small policies answer, one case each."""

import pytest

from headway.core.facts import EngineJoined, SampleSubmitted, SlotsChanged
from headway.core.policy import Retries
from headway.core.units import SECOND
from headway.core.world import Stream, World
from headway.policies.admission import Unlimited, WithinMemory
from headway.policies.priority import Fifo, LongestHintFirst, MostActionsFirst, MostServiceFirst, Random
from headway.policies.residency import Uncontrolled, WithinCache
from headway.policies.routing import LeastLoaded, RoundRobin, Sticky


@pytest.fixture
def world():
    return World()


def engine(world, name="e", **limits):
    return world.join(EngineJoined(0, name, **limits))


def sample(world, name="a", index=0, prompt=10, hint=None):
    return world.submit(SampleSubmitted(0, name, index, prompt_tokens=prompt, hint=hint))


# -- admission ---------------------------------------------------------------------------------------------------


def test_one_is_always_let_in(world):
    engine(world, kv_tokens=100, state_slots=0)
    assert WithinMemory().admits(sample(world, prompt=10**9), world)


def test_states_are_over_admitted_by_less_than_a_third(world):
    engine(world, state_slots=10)
    policy = WithinMemory()
    admitted = 0
    while policy.admits(trajectory := sample(world, f"t{admitted}"), world):
        world.admit(trajectory)
        admitted += 1
    assert admitted == 13


def test_tokens_count_prompts_and_growth(world):
    engine(world, kv_tokens=10_000)
    world.admit(sample(world, "a", prompt=4000))
    growth = 2 * 4 * 512
    assert WithinMemory().admits(sample(world, "b", prompt=13_000 - growth - 4000), world)
    assert not WithinMemory().admits(sample(world, "c", prompt=13_000 - growth - 4000 + 1), world)


def test_engines_that_say_nothing_take_a_plain_number_and_one_for_each_slot(world):
    engine(world)
    world.resize(SlotsChanged(0, "bash", 6))
    world.live = 69
    assert WithinMemory().admits(sample(world), world)
    world.live = 70
    assert not WithinMemory().admits(sample(world, "b"), world)
    assert Unlimited().admits(sample(world, "c"), world)


# -- residency ---------------------------------------------------------------------------------------------------


def test_room_keeps_a_headroom_free(world):
    state = engine(world, kv_tokens=1000)
    state.active, state.idle = 300, 200
    assert WithinCache().room(state) == 420
    assert not WithinCache().crowded(state)
    state.active = 801
    assert WithinCache().crowded(state)


def test_no_state_is_no_room(world):
    state = engine(world, state_slots=2)
    state.held = 1
    assert WithinCache().room(state) > 10**9
    state.held = 2
    assert WithinCache().room(state) < 0
    assert not WithinCache().crowded(state)
    state.held = 3
    assert WithinCache().crowded(state)


def test_without_control_there_is_always_room(world):
    state = engine(world, kv_tokens=10, state_slots=1)
    state.active = state.held = 99
    assert Uncontrolled().room(state) > 10**9
    assert not Uncontrolled().crowded(state)


# -- routing -----------------------------------------------------------------------------------------------------


def test_sticky_takes_the_engine_that_fewest_call_home_and_stays(world):
    first, second = engine(world, "e"), engine(world, "f")
    first.homed = 1
    stream = Stream("main", sample(world))
    assert Sticky().choose(stream, world) is second
    stream.engine = first
    assert Sticky().choose(stream, world) is first


def test_round_robin_goes_round_with_turns_and_samples(world):
    engine(world, "e")
    engine(world, "f")
    stream = Stream("main", sample(world, index=1), turn=0)
    assert RoundRobin().choose(stream, world).id == "f"
    stream.turn = 1
    assert RoundRobin().choose(stream, world).id == "e"


def test_least_loaded_counts_running_turns_then_memory(world):
    first, second = engine(world, "e"), engine(world, "f")
    first.active = 5
    stream = Stream("main", sample(world))
    assert LeastLoaded().choose(stream, world) is second
    second.running = 1
    assert LeastLoaded().choose(stream, world) is first


# -- priority ----------------------------------------------------------------------------------------------------


def test_what_each_priority_prefers(world):
    ahead, behind = sample(world, "a", hint=9.0), sample(world, "b", hint=4.0)
    ahead.completed, behind.completed = 3, 1
    ahead.attained, behind.attained = 4 * SECOND, 2 * SECOND
    for priority in (MostActionsFirst(), MostServiceFirst(), LongestHintFirst()):
        assert priority.member(ahead) < priority.member(behind)
    assert Fifo().member(ahead) == Fifo().member(behind)
    assert LongestHintFirst().member(sample(world, "c")) == 0.0
    assert Fifo().offset(ahead, world) == 0.0
    assert Fifo().bucket(ahead) == Fifo().bucket(behind)


def test_the_lottery_is_drawn_anew_at_every_wait_and_repeats_with_its_seed(world):
    trajectory = sample(world)
    before = Random(1).member(trajectory)
    assert Random(1).member(trajectory) == before
    assert Random(2).member(trajectory) != before
    trajectory.next_action += 1
    assert Random(1).member(trajectory) != before


# -- retries -----------------------------------------------------------------------------------------------------


def test_waits_double_and_end_at_the_longest(world):
    retries = Retries()
    assert [retries.wait(tries, 0.0) for tries in (1, 2, 3)] == [SECOND // 4, SECOND // 2, SECOND]
    assert retries.wait(99, 0.0) == 30 * SECOND
    assert retries.wait(1, 0.5) == SECOND // 4 + SECOND // 16


def test_a_kind_that_is_not_listed_is_tried_once(world):
    assert Retries().again("lost", 5)
    assert not Retries().again("lost", 6)
    assert not Retries().again("auth", 1)
