"""A comparison that was interrupted goes on where it stopped, and only there."""

from dataclasses import replace
from pathlib import Path

import pytest

from headway.analysis import kept as module
from headway.analysis import simulate as playing
from headway.analysis.kept import Kept
from headway.analysis.outcome import Outcome
from headway.analysis.simulate import outcomes
from headway.errors import ConfigError
from headway.workloads import ACCEPTANCE

TINY = replace(ACCEPTANCE["E1"], samples=4, group=2)


def plays(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the policies that are played from now on."""
    played: list[str] = []
    real = playing.play

    def noted(batch: object, policies: object, **rest: object) -> object:
        played.append(policies.name)  # type: ignore[attr-defined]
        return real(batch, policies, **rest)  # type: ignore[arg-type]

    monkeypatch.setattr(playing, "play", noted)
    return played


def test_what_is_kept_is_not_played_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "done.jsonl"
    first = outcomes([TINY], ["fifo"], [3], kept=Kept(file))
    played = plays(monkeypatch)
    again = outcomes([TINY], ["fifo", "caas"], [3, 4], kept=Kept(file))
    assert played == ["caas", "fifo", "caas"]
    assert again["E1"]["fifo"][0] == first["E1"]["fifo"][0]
    assert [run.seed for run in again["E1"]["fifo"]] == [3, 4]


def test_another_setting_or_version_has_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "done.jsonl"
    outcomes([TINY], ["fifo"], [0], kept=Kept(file))
    played = plays(monkeypatch)
    outcomes([TINY.with_slots(3)], ["fifo"], [0], kept=Kept(file))
    monkeypatch.setattr(module, "__version__", "0.0.0")
    outcomes([TINY], ["fifo"], [0], kept=Kept(file))
    assert played == ["fifo", "fifo"]


def test_a_line_cut_short_is_dropped_and_the_rest_used(tmp_path: Path) -> None:
    file = tmp_path / "done.jsonl"
    first = outcomes([TINY], ["fifo"], [0, 1], kept=Kept(file))
    file.write_bytes(file.read_bytes()[:-9])
    again = outcomes([TINY], ["fifo"], [0, 1], kept=Kept(file))
    assert again == first
    assert len(file.read_bytes().splitlines()) == 2


def test_files_that_hold_something_else_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("milk\n")
    with pytest.raises(ConfigError, match="line 1: is not an outcome that was kept"):
        Kept(file)
    with pytest.raises(ConfigError, match="can't be read"):
        Kept(_directory(tmp_path))


def test_a_file_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    kept = Kept(tmp_path / "nowhere" / "done.jsonl")
    outcome = Outcome("E1", "fifo", 0, 1.0, 1.0, "CP", 1.0, 1.0, 0.0, 0, 0, 1, 0)
    with pytest.raises(ConfigError, match="can't be written"):
        kept.add("source", [outcome])


def _directory(tmp_path: Path) -> Path:
    (tmp_path / "folder").mkdir()
    return tmp_path / "folder"
