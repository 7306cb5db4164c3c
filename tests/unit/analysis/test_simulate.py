"""Comparisons are paired, ordered, the same in every number of processes, and say what they rest on."""

from dataclasses import replace

import msgspec
import pytest

from headway.analysis.play import draw, play
from headway.analysis.simulate import Arm, Traced, drawn, outcomes, simulate, summary
from headway.errors import ConfigError
from headway.policies.presets import preset
from headway.workloads import ACCEPTANCE

SMALL = replace(ACCEPTANCE["E1"], samples=16).with_slots(3)


def test_rows_are_as_asked_for_and_paired_with_the_baseline() -> None:
    told: list[tuple[int, int, str]] = []
    found = simulate(SMALL, ["fifo", "static-4"], 3, progress=lambda *what: told.append(what))
    assert (found.setting, found.seeds, found.baseline, found.source) == ("E1", 3, "coupled-fifo", SMALL.source)
    assert [row.policy for row in found.rows] == ["fifo", "static-4"]
    assert told == [(1, 3, "E1 seed 0"), (2, 3, "E1 seed 1"), (3, 3, "E1 seed 2")]
    assert sum(found.binding.values()) == 3
    gains = []
    for seed in range(3):
        batch = draw(SMALL, seed)
        fifo, coupled = (play(batch, preset(name)[0]).makespan for name in ("fifo", "coupled-fifo"))
        gains.append(100 * (1 - fifo / coupled))
    fifo_row = found.rows[0]
    assert fifo_row.vs_baseline_pct == pytest.approx(sum(gains) / 3)
    assert fifo_row.vs_baseline_ci is not None
    assert fifo_row.vs_baseline_ci[0] < fifo_row.vs_baseline_pct < fifo_row.vs_baseline_ci[1]
    assert fifo_row.over_bound_mean >= 1


def test_json_has_the_fields_that_people_rely_on() -> None:
    decoded = msgspec.json.decode(msgspec.json.encode(simulate(SMALL, ["fifo"], [4])))
    assert decoded["setting"] == "E1"
    assert decoded["seeds"] == 1
    row = decoded["rows"][0]
    for field in ("policy", "makespan_mean", "over_bound_mean", "vs_baseline_pct", "hit_rate", "max_wait"):
        assert row[field] is not None
    assert (row["makespan_ci"], row["vs_baseline_ci"]) == (None, None)


def test_processes_change_nothing() -> None:
    one = simulate(SMALL, ["fifo", "random"], [0, 1, 2])
    assert simulate(SMALL, ["fifo", "random"], [0, 1, 2], processes=2) == one


def test_policies_without_a_name_of_their_own() -> None:
    policies, _ = preset("fifo")
    arm = Arm(replace(policies, name="mine"), limit=2)
    found = outcomes([SMALL], [arm, "coupled-fifo"], 1)["E1"]
    assert found["mine"][0].makespan > found["coupled-fifo"][0].makespan
    assert [row.policy for row in simulate(SMALL, [arm], 1).rows] == ["mine"]
    assert {row.policy for row in summary(SMALL, found).rows} == {"mine", "coupled-fifo"}


def test_unknown_policies_are_refused_before_anything_runs() -> None:
    with pytest.raises(ConfigError, match="unknown policy 'fife'"):
        simulate(SMALL, ["fife"], 1)


def test_recorded_trajectories_are_the_same_for_every_seed_but_in_another_order() -> None:
    scripts = draw(SMALL, 0).scripts
    traced = Traced(SMALL, scripts)
    assert drawn(traced, 0).scripts == scripts
    other = drawn(traced, 1).scripts
    assert other != scripts
    assert set(other) == set(scripts)
    assert simulate(traced, ["fifo"], 2).rows[0].failed == 0


def test_hints_go_to_those_who_may_know() -> None:
    batch = draw(SMALL, 0)
    hints: dict[str, list[float | None]] = {}

    for name in ("longest-first", "fifo"):
        seen = hints[name] = []

        def record(fact: object, commands: object, seen: list[float | None] = seen) -> None:
            if type(fact).__name__ == "SampleSubmitted":
                seen.append(fact.hint)  # type: ignore[attr-defined]

        play(batch, preset(name)[0], record=record)
    assert hints["longest-first"] == [float(script.actions) for script in batch.scripts]
    assert set(hints["fifo"]) == {None}
