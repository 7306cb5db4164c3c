"""``headway simulate``, ``bakeoff`` and ``fit`` from the command line."""

import json
from pathlib import Path

import pytest

from headway.cli.main import _outcome


def run(*arguments: str) -> int:
    return _outcome(list(arguments))


SMALL = ("--samples", "16", "--seeds", "2", "--processes", "1")


def test_policies_are_compared_on_the_same_batches(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("simulate", "--setting", "E1", *SMALL, "--policy", "fifo,coupled-fifo", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["setting"], found["seeds"], found["baseline"]) == ("E1", 2, "coupled-fifo")
    keys = {
        "policy",
        "makespan_mean",
        "makespan_ci",
        "over_bound_mean",
        "vs_baseline_pct",
        "vs_baseline_ci",
        "hit_rate",
        "max_wait",
    }
    assert [row["policy"] for row in found["rows"]] == ["fifo", "coupled-fifo"]
    assert all(keys <= row.keys() for row in found["rows"])
    assert found["rows"][1]["vs_baseline_pct"] == 0


def test_a_table_says_what_it_is_about(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("simulate", "--setting", "E1", *SMALL) == 0
    out = capsys.readouterr().out
    assert out.startswith("E1: 2 seeds, baseline coupled-fifo")
    assert "default" in out


def test_a_sweep_gives_one_result_for_each_value(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("simulate", "--setting", "E1", *SMALL, "--policy", "fifo", "--sweep", "slots=4,8", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert [result["setting"] for result in found] == ["E1 slots=4", "E1 slots=8"]


def test_a_simulated_batch_can_be_kept_reported_fitted_and_played_again(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    journal = str(tmp_path / "run.headway")
    assert run("simulate", "--setting", "E1", *SMALL, "--policy", "fifo", "--journal", journal) == 0
    assert run("report", journal) == 0
    assert run("fit", journal) == 0
    assert "error" in capsys.readouterr().out
    assert run("fit", journal, "--json") == 0
    assert json.loads(capsys.readouterr().out)["turns"] > 0
    again = ("simulate", "--trace", journal, "--fit", journal, "--policy", "fifo", "--seeds", "1", "--json")
    assert run(*again, "--replicas", "2", "--slots", "4") == 0
    assert json.loads(capsys.readouterr().out)["rows"][0]["makespan_mean"] > 0


def test_a_bakeoff_is_a_page(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    small = ("bakeoff", "--setting", "E1", "--policy", "fifo,static-8", *SMALL)
    page = tmp_path / "page.html"
    assert run(*small, "-o", str(page)) == 0
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert run(*small, "-o", str(tmp_path / "page.md")) == 0
    capsys.readouterr()
    assert run(*small) == 0
    assert capsys.readouterr().out.startswith("# Bake-off")
    assert run(*small, "--json") == 0
    assert json.loads(capsys.readouterr().out)["subject"] == "default"


def test_a_bakeoff_plays_settings_and_trajectories_of_your_own(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "mine.toml"
    file.write_text("[one]\nslots = 4\n[two]\nslots = 8\n", encoding="utf-8")
    small = ("bakeoff", "--policy", "fifo,default", *SMALL, "--json")
    assert run(*small, "--settings", str(file)) == 0
    assert _settings(capsys) == ["one", "two"]
    assert run(*small, "--settings", str(file), "--setting", "two") == 0
    assert _settings(capsys) == ["two"]
    journal = str(tmp_path / "run.headway")
    assert run("simulate", "--setting", "E1", *SMALL, "--policy", "fifo", "--journal", journal) == 0
    capsys.readouterr()
    assert run(*small, "--trace", journal) == 0
    assert _settings(capsys) == ["run"]


def _settings(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [one["result"]["setting"] for one in json.loads(capsys.readouterr().out)["contests"]]


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("simulate",), "needs a --setting or a --trace"),
        (("simulate", "--setting", "E1", "--trace", "x"), "needs a --setting or a --trace"),
        (("simulate", "--setting", "E99"), "E99"),
        (("simulate", "--setting", "E1", "--policy", "cas"), "cas"),
        (("simulate", "--setting", "E1", "--policy", ","), "names nothing"),
        (("simulate", "--setting", "E1", "--seeds", "0"), "--seeds: must be at least 1"),
        (("simulate", "--setting", "E1", "--processes", "0"), "--processes: must be at least 1"),
        (("simulate", "--setting", "E1", "--sweep", "slots"), "--sweep"),
        (("simulate", "--setting", "E1", "--env", "bash=0"), "--env"),
        (("simulate", "--trace", "/nonexistent.jsonl"), "/nonexistent.jsonl"),
        (("bakeoff", "--trace", "x", "--setting", "E1"), "--trace: is a workload of its own"),
        (("bakeoff", "-o", "/nonexistent/page.md"), "/nonexistent: there is no such folder"),
        (("bakeoff", "-o", "page.pdf"), "--output: must end in .md or .html"),
        (("fit", "/nonexistent.headway"), "there is no such journal"),
    ],
)
def test_bad_input_is_one_line(arguments: tuple[str, ...], line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*arguments) == 2
    error = capsys.readouterr().err
    assert line in error
    assert error.count("\n") == 1
