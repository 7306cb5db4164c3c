"""How a command can end: its line and its exit code."""

import sys
from collections.abc import Callable
from typing import Any

import pytest
import typer

from headway.cli import main
from headway.cli.compose import Interrupted
from headway.errors import BoundaryError, BugError, ConfigError, EngineError


@pytest.mark.parametrize(
    ("end", "code", "line"),
    [
        (ConfigError("is wrong", where="--this", hint="do that"), 2, "headway: --this: is wrong (do that)\n"),
        (EngineError("gone", kind="lost"), 1, "headway: gone\n"),
        (BoundaryError("disk full"), 1, "headway: disk full\n"),
        (BugError("odd"), 1, "headway: odd (this is a fault of Headway's: please report it)\n"),
        (Interrupted("interrupted; go on"), 130, "headway: interrupted; go on\n"),
        (KeyboardInterrupt(), 130, "headway: interrupted\n"),
        (typer.Abort(), 130, "headway: interrupted\n"),
        (BrokenPipeError(), 1, ""),
    ],
)
def test_every_end_has_a_code(
    end: BaseException, code: int, line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.modules["headway.cli.main"], "app", _raising(end))
    monkeypatch.setattr("sys.argv", ["headway", "run"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == code
    assert capsys.readouterr().err == line


def _raising(end: BaseException) -> Callable[..., Any]:
    def app(arguments: list[str], *, standalone_mode: bool) -> None:
        assert arguments == ["run"]
        raise end

    return app


def test_a_fault_of_ours_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["headway.cli.main"], "app", _raising(ZeroDivisionError("ours")))
    monkeypatch.setattr("sys.argv", ["headway", "run"])
    with pytest.raises(ZeroDivisionError):
        main()
