"""Believed capacity: facts shrink it at once, turns that find what they should let it grow, never above the plan."""

from dataclasses import replace

import pytest

from headway.core.facts import (
    ActionFinished,
    ActionRequested,
    EngineJoined,
    EngineLost,
    EngineSampled,
    Resumed,
    SampleSubmitted,
    SlotsChanged,
    TrajectoryFinished,
    TurnFinished,
    TurnRequested,
)
from headway.core.machine import Machine
from headway.core.units import MAIN, EngineId, EnvironmentId, Nanos, Tokens, TrajectoryId
from headway.core.world import EngineState, World
from headway.policies.correction import GROW, LEAST, SHRINK, Believed, corrected
from headway.policies.presets import preset
from headway.policies.residency import WithinCache

E, BASH = EngineId("e"), EnvironmentId("bash")


class Batch:
    """A machine with one engine, whose believed capacity is looked at."""

    def __init__(self, kv=10_000, states=None, **geometry):
        self.believed = Believed(WithinCache(headroom=0.0))
        self.machine = Machine(preset("static-99")[0])
        self.turns = {}
        self.tell(Resumed(Nanos(0)), SlotsChanged(Nanos(0), BASH, 99))
        self.tell(EngineJoined(Nanos(0), E, "vllm", kv, states, **geometry))

    def tell(self, *facts):
        for fact in facts:
            assert self.believed.observe(fact, self.machine.world) is None
            self.machine.handle(fact)

    @property
    def engine(self):
        return self.machine.world.engines[E]

    @property
    def share(self):
        return self.believed.share(E)

    def start(self, name, prompt):
        who = TrajectoryId(name)
        if name not in self.turns:
            self.tell(SampleSubmitted(Nanos(0), who, len(self.turns), None, Tokens(prompt)))
        turn = self.turns[name] = self.turns.get(name, -1) + 1
        self.tell(TurnRequested(Nanos(0), who, MAIN, turn, Tokens(prompt)))

    def answer(self, name, prompt, cached, output=10):
        who, turn = TrajectoryId(name), self.turns[name]
        self.tell(TurnFinished(Nanos(0), who, MAIN, turn, 1, Tokens(prompt), Tokens(output), Nanos(1), cached))

    def turn(self, name, prompt, cached):
        self.start(name, prompt)
        self.answer(name, prompt, cached)


def crowd(**geometry):
    """Four trajectories with 2,000 tokens each in a cache of 10,000."""
    batch = Batch(**geometry)
    for name in "abcd":
        batch.turn(name, 1990, 0)
    assert batch.share == 1.0, "first turns find nothing, and nobody expected otherwise"
    return batch


def test_a_hit_that_is_not_given_shrinks_the_share_at_once():
    batch = crowd()
    batch.turn("a", 2100, 0)
    assert batch.share == SHRINK
    assert batch.believed.room(batch.engine) == 8000 - batch.engine.idle
    assert batch.believed.crowded(batch.engine) is (batch.engine.idle > 8000)


def test_misses_of_one_mistake_count_once():
    batch = crowd()
    for name in "abcd":
        batch.turn(name, 2100, 0)
    assert batch.share == SHRINK
    batch.turn("a", 2300, 0)
    assert batch.share == pytest.approx(SHRINK**2), "as many turns have ended as the engine held"


def test_the_share_has_a_floor():
    batch = crowd()
    for size in range(60):
        batch.turn("a", 2100 + 20 * size, 0)
    assert batch.share == LEAST


def test_turns_that_find_what_they_should_let_it_grow_slowly_and_never_above_one():
    batch = crowd()
    batch.turn("a", 2100, 0)
    for name in "abcd":
        batch.turn(name, 2200, 2000)
    assert batch.share == pytest.approx(SHRINK + GROW)
    for _ in range(200):
        batch.turn("a", 2200, 2200)
    assert batch.share == 1.0


def test_whole_blocks_and_the_last_answer_are_no_miss():
    batch = crowd(block_tokens=1024)
    batch.turn("a", 2100, 0)
    assert batch.share == 1.0


@pytest.mark.parametrize(("prompt", "cached"), [(1500, 0), (2100, None), (2100, 1500)])
def test_a_rewritten_prompt_a_silent_engine_and_a_part_of_it_are_no_evidence(prompt, cached):
    batch = crowd()
    batch.turn("a", prompt, cached)
    assert batch.share == 1.0


def test_in_a_cache_that_is_half_empty_a_miss_is_the_prompts_own_fault():
    batch = Batch()
    batch.turn("a", 1990, 0)
    batch.turn("a", 2100, 0)
    assert batch.share == 1.0


def test_states_run_out_as_well():
    batch = Batch(kv=None, states=7)
    for name in "abcd":
        batch.turn(name, 1990, 0)
    batch.turn("a", 2100, 0)
    assert batch.share == SHRINK
    assert batch.believed.room(batch.engine) > 0
    batch.turn("e", 1990, 0)
    assert batch.believed.room(batch.engine) == -1, "five of seven, at four fifths"
    assert batch.believed.crowded(batch.engine) is False
    batch.turn("f", 1990, 0)
    assert batch.believed.crowded(batch.engine) is True


def test_an_engine_that_tells_nothing_of_its_cache_is_never_corrected_by_misses():
    batch = Batch(kv=None)
    batch.turn("a", 1990, 0)
    batch.turn("a", 2100, 0)
    assert batch.share == 1.0
    assert batch.believed.room(batch.engine) > 10**9


def test_what_was_dropped_is_not_expected():
    batch = crowd()
    stream = batch.machine.world.trajectories[TrajectoryId("a")].streams[MAIN]
    batch.machine.world.drop(stream)
    batch.turn("a", 2100, 0)
    assert batch.share == 1.0


@pytest.mark.parametrize(
    ("before", "now", "shrinks"),
    [
        ({"preemptions": 3}, {"preemptions": 4}, True),
        ({"preemptions": 3}, {"preemptions": 3}, False),
        ({}, {"preemptions": 4}, False),
        ({"preemptions": 3}, {}, False),
        ({}, {"kv_usage": 0.99, "waiting": 2}, True),
        ({}, {"kv_usage": 0.99, "waiting": 0}, False),
        ({}, {"kv_usage": 0.5, "waiting": 2}, False),
    ],
)
def test_what_an_engine_says_of_itself(before, now, shrinks):
    batch = crowd()
    batch.tell(EngineSampled(Nanos(0), E, **before))
    batch.tell(EngineSampled(Nanos(0), E, **now))
    assert (batch.share < 1.0) is shrinks


def test_preemptions_before_the_batch_are_not_ours():
    batch = crowd()
    batch.tell(EngineSampled(Nanos(0), E, preemptions=9))
    assert batch.share == 1.0


def test_an_engine_that_comes_back_is_believed_again():
    batch = crowd()
    batch.turn("a", 2100, 0)
    batch.tell(EngineLost(Nanos(0), E, "gone"))
    assert batch.share == 1.0


def test_other_facts_say_nothing():
    batch = crowd()
    a = TrajectoryId("a")
    batch.tell(ActionRequested(Nanos(0), a, MAIN, 0, BASH), ActionFinished(Nanos(0), a, MAIN, 0, 1, Nanos(1)))
    batch.tell(TrajectoryFinished(Nanos(0), a))
    assert batch.share == 1.0


def test_policies_that_control_residency_are_corrected_from_the_start_of_each_machine():
    policies = corrected(preset("fifo")[0])
    one, two = policies.begun(Machine(policies).world), policies.begun(Machine(policies).world)
    assert isinstance(one.residency, Believed)
    assert one.residency is not two.residency
    assert one.observers[-1] is one.residency


def test_those_that_do_not_are_left_alone():
    static = corrected(preset("static-4")[0])
    assert static.begun(Machine(static).world).observers == ()


def test_what_policies_begin_with_is_kept():
    marked = replace(preset("fifo")[0], begin=lambda own, world: replace(own, name="begun", residency=WithinCache(0.5)))
    found = corrected(marked).begun(World())
    assert found.name == "begun"
    assert found.residency.room(EngineState(E, 0, "vllm", 1000, None, 1, None, None, 1000)) == 500
