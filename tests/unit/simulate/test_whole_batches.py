"""Whole batches: one sample takes its critical path, and no shape of batch loses work or beats its lower bound."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.analysis.play import Outage, draw, play
from headway.core.bounds import Engines
from headway.core.units import EnvironmentId, seconds
from headway.policies.presets import preset
from headway.workloads import ACCEPTANCE, EngineShape, EnvironmentShape, Setting, Workload
from headway.workloads.acceptance import BASE


@pytest.mark.parametrize("name", ["E1", "I1", "M1", "M2", "R3"])
@pytest.mark.parametrize("policy", ["coupled-fifo", "fifo", "default"])
def test_one_sample_takes_its_critical_path(name: str, policy: str) -> None:
    batch = draw(replace(ACCEPTANCE[name], samples=1), 3)
    bound = next(term for term in batch.bounds() if term.kind == "CP")
    played = play(batch, preset(policy)[0])
    assert played.makespan == pytest.approx(seconds(bound.value), rel=1e-6)


def shapes() -> st.SearchStrategy[EngineShape]:
    return st.builds(
        EngineShape,
        st.just(BASE.engine.cost),
        kv_tokens=st.sampled_from([None, 9_000, 20_000, 80_000]),
        state_slots=st.sampled_from([None, 2, 5, 20]),
        block_tokens=st.sampled_from([1, 16, 256]),
        max_running=st.sampled_from([None, 1, 3]),
        keeps_decode=st.booleans(),
        running_states=st.sampled_from([1, 2]),
        forgets=st.booleans(),
    )


places = st.builds(
    EnvironmentShape,
    slots=st.integers(1, 5),
    instances=st.sampled_from([None, 2, 6]),
    create_interval=st.sampled_from([0.0, 2.0]),
    create_seconds=st.sampled_from([0.0, 5.0]),
    resume_seconds=st.sampled_from([0.0, 3.0]),
)
workloads = st.builds(
    Workload,
    length=st.sampled_from(["lognormal", "geometric", "mixture", "uniform", "pareto"]),
    mean=st.floats(1.5, 8),
    cap=st.just(12),
    prompt=st.sampled_from([200.0, 1500.0]),
    out=st.sampled_from([20.0, 300.0]),
    obs=st.sampled_from([30.0, 300.0]),
    failures=st.sampled_from([0.0, 0.2]),
    stragglers=st.sampled_from([0.0, 0.1]),
)
anything = st.builds(
    Setting,
    name=st.just("anything"),
    workload=workloads,
    engine=shapes(),
    environments=st.dictionaries(st.sampled_from(["a", "b"]).map(EnvironmentId), places, min_size=1),
    samples=st.integers(1, 20),
    group=st.integers(1, 4),
    engines=st.integers(1, 3),
)


@given(anything, st.integers(0, 3), st.sampled_from(["coupled-fifo", "fifo", "default", "static-3", "round-robin"]))
@settings(max_examples=80, deadline=None)
def test_no_batch_loses_work_or_beats_its_bound(setting: Setting, seed: int, policy: str) -> None:
    batch = draw(setting, seed)
    policies, limit = preset(policy)
    played = play(batch, policies, limit=limit)  # checks that work in is work out
    assert 0 <= played.hit_rate <= 1
    if not played.failed:
        assert played.makespan >= seconds(batch.bounds()[0].value) * (1 - 1e-9)


def test_bounds_know_how_many_run_at_once_by_places_and_by_states() -> None:
    few = replace(ACCEPTANCE["I1"], samples=40)
    tight = replace(few, engine=replace(few.engine, state_slots=4, running_states=2))
    free = replace(few, engine=replace(few.engine, state_slots=None, kv_tokens=None))
    most = [next(t.value for t in draw(one, 0).bounds() if t.kind == "LLM") for one in (tight, few, free)]
    assert most[0] > 5 * most[1]
    assert most[1] >= most[2]
    assert Engines(1).max_running is None


def test_a_batch_survives_the_loss_of_an_engine() -> None:
    batch = draw(replace(ACCEPTANCE["M1"], samples=24), 0)
    policies, _ = preset("default")
    calm = play(batch, policies)
    hit = play(batch, policies, outages=[Outage(0, calm.makespan / 3, calm.makespan / 2)])
    assert hit.failed == 0
    assert hit.makespan > calm.makespan
    assert hit.hit_rate < calm.hit_rate
