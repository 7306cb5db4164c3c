"""What a command line can name: settings, files, traces, journals, sweeps."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from headway.analysis.play import draw
from headway.analysis.recording import record
from headway.analysis.simulate import Arm, Traced, simulate
from headway.analysis.sources import Changes, fit_run, known_settings, setting_source, swept, trace_source
from headway.core.units import EnvironmentId
from headway.errors import ConfigError
from headway.policies.presets import preset
from headway.workloads import ACCEPTANCE, Setting
from headway.workloads.setting import ACTING

SMALL = replace(ACCEPTANCE["I1"], samples=12)


def test_a_named_setting_with_changes() -> None:
    found = setting_source("E1", changes=Changes(samples=8, slots=5, engines=2, cost=SMALL.engine.cost))
    assert isinstance(found, Setting)
    assert (found.samples, found.engines, found.environments[ACTING].slots) == (8, 2, 5)
    several = setting_source("widesearch", changes=Changes(environments=((EnvironmentId("fetch"), 3),)))
    assert isinstance(several, Setting)
    assert several.environments[EnvironmentId("fetch")].slots == 3
    assert {"E1", "R3", "bfcl", "mcp"} <= set(known_settings())
    with pytest.raises(ConfigError, match="there is no environment 'page'"):
        setting_source("widesearch", changes=Changes(environments=((EnvironmentId("page"), 3),)))
    with pytest.raises(ConfigError, match="there is no setting 'E10'"):
        setting_source("E10")


def test_a_setting_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text("[one]\nslots = 3")
    found = setting_source("one", file)
    assert isinstance(found, Setting)
    assert found.environments[ACTING].slots == 3
    with pytest.raises(ConfigError, match=r"mine.toml: there is no setting 'two'"):
        setting_source("two", file)


def test_recorded_traces_say_what_is_assumed(tmp_path: Path) -> None:
    file = tmp_path / "some.jsonl"
    turns = [
        {"prompt_tokens": 100, "output_tokens": 5, "action": {"name": "bash", "seconds": None}},
        {"prompt_tokens": 150, "output_tokens": 5, "action": {"name": "web", "seconds": 1.0}},
        {"prompt_tokens": 200, "output_tokens": 5},
    ]
    file.write_text("\n".join(json.dumps({"sample_id": name, "turns": turns}) for name in "abc"))
    found = trace_source(file, Changes(samples=2))
    assert [script.trajectory for script in found.scripts] == ["a", "b"]
    assert list(found.setting.environments) == ["bash", "web"]
    assert found.setting.source == "recorded: some.jsonl (3 of 6 action times assumed, not measured)"
    assert simulate(found, ["fifo"], 2).rows[0].failed == 0


def test_a_simulated_batch_leaves_a_journal_that_can_be_played_again_and_fitted(tmp_path: Path) -> None:
    file = tmp_path / "sim.headway"
    played = record(SMALL, "fifo", file, seed=3)
    again = trace_source(file, Changes(slots=256, engines=1))
    assert again.scripts == draw(SMALL, 3).scripts
    assert again.setting.source == "recorded: sim.headway"
    same = simulate(Traced(replace(SMALL, name="again"), again.scripts), ["fifo"], 1)
    assert same.rows[0].makespan_mean == pytest.approx(played.makespan, rel=1e-9)
    fitted = fit_run(file)
    assert fitted.median_error < 0.1
    assert fitted.model.step(8, 40_000) == pytest.approx(SMALL.engine.cost.step(8, 40_000), rel=0.25)


def test_an_arm_can_be_recorded_too(tmp_path: Path) -> None:
    policies, _ = preset("fifo")
    played = record(replace(SMALL, samples=2), Arm(policies, 1), tmp_path / "one.headway")
    assert played.facts > 10
    with pytest.raises(ConfigError, match="too few turns"):
        fit_run(_short(tmp_path))


def _short(folder: Path) -> Path:
    file = folder / "short.headway"
    one = replace(SMALL, samples=1, workload=replace(SMALL.workload, cap=1))
    record(one, "fifo", file)
    return file


def test_a_journal_without_a_finished_trajectory(tmp_path: Path) -> None:
    file = tmp_path / "none.headway"
    tight = replace(SMALL, samples=2, engine=replace(SMALL.engine, kv_tokens=10))
    record(tight, "fifo", file)
    with pytest.raises(ConfigError, match="no finished trajectory"):
        trace_source(file)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("slots=4..16", ["I1 slots=4", "I1 slots=8", "I1 slots=16"]),
        ("engines=1,3", ["I1 engines=1", "I1 engines=3"]),
        ("kv_tokens=50000", ["I1 kv_tokens=50000"]),
        ("mean=2.5", ["I1 mean=2.5"]),
    ],
)
def test_sweeps(text: str, names: list[str]) -> None:
    found = swept(SMALL, text)
    assert [one.name for one in found if isinstance(one, Setting)] == names


def test_a_sweep_changes_what_it_says() -> None:
    (one,) = swept(SMALL, "kv_tokens=50000")
    (two,) = swept(SMALL, "sigma=0.25")
    assert isinstance(one, Setting)
    assert isinstance(two, Setting)
    assert (one.engine.kv_tokens, two.workload.sigma) == (50_000, 0.25)
    (traced,) = swept(Traced(SMALL, draw(SMALL, 0).scripts), "slots=4")
    assert isinstance(traced, Traced)
    assert traced.setting.environments[ACTING].slots == 4


@pytest.mark.parametrize("text", ["slots", "speed=3", "slots=", "slots=8..4", "slots=0..4", "slots=a,b"])
def test_a_sweep_that_makes_no_sense(text: str) -> None:
    with pytest.raises(ConfigError, match="--sweep"):
        swept(SMALL, text)


def test_recorded_lengths_can_not_be_swept() -> None:
    with pytest.raises(ConfigError, match="no sweep of mean"):
        swept(Traced(SMALL, draw(SMALL, 0).scripts), "mean=3")
