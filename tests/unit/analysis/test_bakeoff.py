"""Who wins where: made-up outcomes, so that it is known who should."""

from dataclasses import replace

import pytest

from headway.analysis import bakeoff as module
from headway.analysis.bakeoff import Bakeoff, bakeoff, default_policies
from headway.analysis.outcome import Outcome
from headway.analysis.pages import html, markdown, table
from headway.analysis.simulate import simulate, summary
from headway.policies.presets import NAMES
from headway.workloads import ACCEPTANCE

E1, E2 = ACCEPTANCE["E1"], ACCEPTANCE["E2"]


def outcome(setting: str, policy: str, seed: int, makespan: float) -> Outcome:
    return Outcome(setting, policy, seed, makespan, 50.0, "ENV", 0.9, 0.95, 7.0, 0, 0, 100, 0)


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> Bakeoff:
    """On E1 the subject beats everybody but the oracle; on E2 the rival is 10% better."""
    means = {
        "E1": {
            "default": 80,
            "coupled-fifo": 100,
            "fifo": 90,
            "oracle": 76,
            "static-8": 88,
            "static-16": 84,
            "rival": 95,
        },
        "E2": {
            "default": 100,
            "coupled-fifo": 100,
            "fifo": 100,
            "oracle": 80,
            "static-8": 120,
            "static-16": 130,
            "rival": 90,
        },
    }

    def made(*_: object, **__: object) -> dict[str, dict[str, list[Outcome]]]:
        return {
            setting: {
                name: [outcome(setting, name, seed, mean * (1 + seed / 10)) for seed in range(3)]
                for name, mean in by_policy.items()
            }
            for setting, by_policy in means.items()
        }

    monkeypatch.setattr(module, "outcomes", made)
    return bakeoff([E1, E2], seeds=3)


def test_the_best_static_limit_stands_for_all_of_them(found: Bakeoff) -> None:
    first, second = found.contests
    assert (first.best_static, second.best_static) == ("static-16", "static-8")
    assert "static-8" not in {row.policy for row in first.result.rows}
    assert (first.best_rival, second.best_rival) == ("static-16", "rival")
    assert first.allowed == 1.16


def test_gains_are_paired_and_losses_are_named(found: Bakeoff) -> None:
    (versus,) = [v for v in found.contests[0].versus if v.policy == "fifo"]
    assert versus.shorter_pct == pytest.approx(100 * (1 - 80 / 90))
    assert not versus.lost
    assert found.losses == ("E2: rival by 11.1%",)
    assert found.gain_over_best_rival == pytest.approx((100 * (1 - 80 / 84) - 100 / 9) / 2)
    assert found.oracle_over_subject == pytest.approx((100 * (80 / 76 - 1) + 25) / 2)


def test_pages_say_the_same(found: Bakeoff) -> None:
    text, page = markdown(found), html(found)
    for words in ("Worse by more than noise: E2: rival by 11.1%", "static-16", "+20.0%", "synthetic"):
        assert words in text
        assert words in page
    assert page.startswith("<!doctype html>")
    assert "http" not in page  # it needs nothing from anywhere else
    assert page.count("<svg") == 2
    lines = table(found.contests[0].result).splitlines()
    assert lines[1].split()[:2] == ["policy", "makespan"]
    assert len({len(line) for line in lines[2:]}) == 1


def test_a_small_one_for_real() -> None:
    small = replace(E1, samples=12).with_slots(3)
    found = bakeoff([small], ["fifo"], 1, processes=1)
    (contest,) = found.contests
    assert {row.policy for row in contest.result.rows} == {"fifo", "default", "coupled-fifo"}
    assert (contest.best_static, contest.best_rival, found.gain_over_best_rival) == (None, None, None)
    assert "nowhere" in markdown(found)
    assert "-" in table(simulate(small, ["fifo"], 1))


def test_every_named_policy_takes_part() -> None:
    assert set(NAMES) - {"static-N"} <= set(default_policies())


def test_a_setting_that_asks_for_nothing(found: Bakeoff) -> None:
    other = replace(E1, name="other")
    runs = {name: [outcome("other", name, 0, 100.0)] for name in ("default", "coupled-fifo")}
    contest = module._contest(other, runs, "default")
    assert contest.allowed is None
    assert contest.versus[0].lost is False
    assert summary(other, runs).rows[0].vs_baseline_ci is None
    page = markdown(replace_contests(found, contest))
    assert "| other | 2.00 | - |" in page


def replace_contests(found: Bakeoff, contest: module.Contest) -> Bakeoff:
    return Bakeoff(found.subject, 1, (contest,), None, None, ())
