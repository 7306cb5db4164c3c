"""How far long work is, in a pipe and on a terminal."""

import sys

import pytest

from headway.cli import output
from headway.cli.output import Countdown


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time that it is, to be moved."""
    now = [0.0]
    monkeypatch.setattr(output.time, "monotonic", lambda: now[0])
    return now


def test_a_pipe_hears_of_every_tenth(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    told = Countdown()
    for done in range(1, 21):
        clock[0] += 10.0
        told(done, 20, f"piece {done}")
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 10
    assert lines[0] == "2/20  piece 2  (about 3 min left)"
    assert lines[-2] == "18/20  piece 18  (about 20 s left)"
    assert lines[-1] == "20/20  piece 20"


def test_a_terminal_keeps_one_line(
    clock: list[float], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    told = Countdown()
    clock[0] = 1.0
    told(1, 2, "one")
    told(2, 2, "two")
    parts = capsys.readouterr().err.split("\r")
    assert parts[1].rstrip() == "1/2  one  (about 1 s left)"
    assert parts[2].rstrip(" ") == "2/2  two" + " " * 64 + "\n"
