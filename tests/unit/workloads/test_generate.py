"""Generators: seeded, grouped, and with the moments that they promise."""

from dataclasses import replace
from math import exp, log
from random import Random
from statistics import fmean, pstdev

import pytest

from headway.core.units import SECOND, EnvironmentId
from headway.errors import ConfigError
from headway.workloads import ACCEPTANCE, PUBLISHED, EnvironmentShape, Setting, Workload, generate, moved
from headway.workloads.laws import Geometric, Law, Lognormal, Pareto, Quantiles, TwoModes, Uniform
from headway.workloads.setting import ACTING, EngineShape

MANY = replace(ACCEPTANCE["E1"], samples=8000)


def law_mean(law: Law, points: int = 40_000) -> float:
    return fmean(law.at((place + 0.5) / points) for place in range(points))


@pytest.mark.parametrize("law", [Lognormal(12, 0.8), TwoModes(12), Uniform(12), Pareto(12, 3.0), Geometric(12)])
def test_a_law_has_the_mean_that_it_is_given(law: Law) -> None:
    rounded = isinstance(law, Geometric)  # its mean is right once lengths are rounded up
    assert law_mean(law) + rounded * 0.5 == pytest.approx(12, rel=0.02)
    values = [law.at(u / 100) for u in range(1, 100)]
    assert values == sorted(values)


def test_quantiles_are_met_and_joined() -> None:
    law = Quantiles(((0.0, 1.0), (0.5, 4.0), (1.0, 64.0)))
    assert [law.at(u) for u in (0.25, 0.5, 0.75)] == pytest.approx([2.0, 4.0, 16.0])
    assert law.at(1 - 1e-12) == pytest.approx(64.0)


def test_a_seed_is_a_batch() -> None:
    one, same, other = (generate(ACCEPTANCE["E1"], Random(seed)) for seed in (5, 5, 6))
    assert one == same
    assert one != other
    assert len(one) == 256
    names = [sample.script.trajectory for sample in one]
    assert names == sorted(set(names))


def test_groups_share_a_prompt_and_most_of_their_length() -> None:
    batch = generate(MANY, Random(1))
    groups: dict[str, list[int]] = {}
    for sample in batch:
        assert sample.script.group is not None
        groups.setdefault(sample.script.group, []).append(sample.script.actions)
    assert {len(members) for members in groups.values()} == {8}
    prompts = {(s.script.group, s.script.steps[0].new_tokens) for s in batch}
    assert len(prompts) == len(groups)
    between = pstdev(fmean(map(log, members)) for members in groups.values())
    overall = pstdev(log(length) for members in groups.values() for length in members)
    # 0.6 of the variance lies between groups, and an eighth of the rest stays in a group's mean
    assert (between / overall) ** 2 == pytest.approx(0.6 + 0.4 / 8, abs=0.05)


def test_tokens_and_seconds_have_their_means() -> None:
    batch = generate(MANY, Random(2))
    steps = [step for sample in batch for step in sample.script.steps]
    acting = [step.action for step in steps if step.action is not None]
    assert fmean(step.output_tokens for step in steps) == pytest.approx(300, rel=0.02)
    assert fmean(step.new_tokens for s in batch for step in s.script.steps[1:]) == pytest.approx(600, rel=0.02)
    assert fmean(s.script.steps[0].new_tokens for s in batch) == pytest.approx(3000, rel=0.05)
    assert fmean(a.service for a in acting) / SECOND == pytest.approx(6 * exp(0.3**2 / 2), rel=0.05)
    assert all(sample.script.steps[-1].action is None for sample in batch)
    assert fmean(sample.script.actions for sample in batch) == pytest.approx(12.4, rel=0.05)  # rounded up, and cut off
    assert max(sample.script.actions for sample in batch) == 100


def test_history_guesses_a_groups_length() -> None:
    batch = generate(MANY, Random(3))
    off = [
        log(batch[first].history) - fmean(log(s.script.actions) for s in batch[first : first + 8])
        for first in range(0, len(batch), 8)
    ]
    assert pstdev(off) == pytest.approx(0.3, rel=0.1)
    assert abs(fmean(off)) < 0.05


def test_singles_and_a_last_group_that_is_smaller() -> None:
    assert {sample.script.group for sample in generate(ACCEPTANCE["E8"], Random(0))} == {None}
    batch = generate(replace(ACCEPTANCE["E1"], samples=11), Random(0))
    assert [sample.script.group for sample in batch] == ["g00"] * 8 + ["g01"] * 3


def test_actions_are_shared_out_among_environments() -> None:
    places = {
        EnvironmentId("search"): EnvironmentShape(4, share=3, seconds=0.5),
        EnvironmentId("page"): EnvironmentShape(4, share=1, seconds=2.0),
    }
    batch = generate(replace(ACCEPTANCE["E1"], environments=places, samples=2000), Random(4))
    acting = [step.action for s in batch for step in s.script.steps if step.action is not None]
    search = [a.service for a in acting if a.environment == "search"]
    page = [a.service for a in acting if a.environment == "page"]
    assert len(search) / len(acting) == pytest.approx(0.75, abs=0.01)
    assert fmean(page) / fmean(search) == pytest.approx(4, rel=0.1)


def test_stragglers_and_lost_slots_come_as_often_as_they_should() -> None:
    plain, odd = (
        generate(replace(MANY, workload=replace(MANY.workload, **more)), Random(5))
        for more in ({}, {"stragglers": 0.05, "straggler_factor": 20.0, "failures": 0.1})
    )
    seconds = [
        fmean(step.action.service for s in batch for step in s.script.steps if step.action) for batch in (plain, odd)
    ]
    assert seconds[1] / seconds[0] == pytest.approx(0.95 + 0.05 * 20, rel=0.1)
    lost = [bool(step.action.failures) for s in odd for step in s.script.steps if step.action]
    assert fmean(lost) == pytest.approx(0.1, abs=0.01)


@pytest.mark.parametrize("name", list(PUBLISHED))
def test_workloads_after_benchmarks_say_what_they_are(name: str) -> None:
    setting = PUBLISHED[name]
    assert setting.source.startswith("synthetic: ")
    batch = generate(setting, Random(0))
    used = {step.action.environment for s in batch for step in s.script.steps if step.action}
    assert used == set(setting.environments)


def test_lengths_follow_published_quantiles() -> None:
    batch = generate(replace(PUBLISHED["swebench"], samples=4000), Random(0))
    turns = sorted(len(sample.script.steps) for sample in batch)
    assert turns[2000] == pytest.approx(36, abs=2)
    assert turns[3600] == pytest.approx(66, abs=3)
    assert turns[-1] <= 145


def test_a_setting_can_be_moved() -> None:
    there = moved(ACCEPTANCE["E2"], mean=1.2, sigma=0.8, slots=1.2)
    assert (there.workload.mean, there.workload.sigma) == (pytest.approx(14.4), pytest.approx(0.8))
    assert there.environments[ACTING].slots == 58
    assert there.name != "E2"


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda: Workload(mean=1.0), "mean length"),
        (lambda: Workload(length="pareto", alpha=1.0), "alpha above 1"),
        (lambda: Workload(icc=1.5), "icc"),
        (lambda: EnvironmentShape(slots=0), "needs a slot"),
        (lambda: replace(ACCEPTANCE["E1"], engines=0), "E1: engines: at least 1"),
        (lambda: EngineShape(ACCEPTANCE["E1"].engine.cost, prefill_share=1.0), "between 0 and 1"),
        (lambda: EngineShape(ACCEPTANCE["E1"].engine.cost, block_tokens=0), "at least 1"),
        (lambda: PUBLISHED["widesearch"].with_slots(3), "several environments"),
    ],
)
def test_what_makes_no_sense_is_refused(make: object, what: str) -> None:
    with pytest.raises(ConfigError, match=what):
        make()  # type: ignore[operator]


def test_a_setting_has_the_shape_of_a_frozen_value() -> None:
    assert isinstance(ACCEPTANCE["E1"], Setting)
    assert hash(ACCEPTANCE["E1"].engine) == hash(replace(ACCEPTANCE["E1"].engine))
