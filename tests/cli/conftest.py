import contextlib
import io
import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from fake_engine import engine_process

from headway.cli.main import _outcome

_EARS = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"  # also where tests run behind an &
COMMAND = [sys.executable, "-c", f"{_EARS}; from headway.cli import main; main()"]


@dataclass
class Program:
    """The command line as a process of its own, in a folder of its own."""

    folder: Path

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*COMMAND, *arguments],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [*COMMAND, *arguments]
        return subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False, timeout=60)

    def here(self, *arguments: str) -> tuple[int, str, str]:
        """The same in this process, which is quicker: exit code, output, errors."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.chdir(self.folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = _outcome(list(arguments))
        return code, out.getvalue(), err.getvalue()


@pytest.fixture
def program(tmp_path: Path) -> Program:
    lines = [json.dumps({"id": f"t{n}", "prompt": f"task {n}"}) for n in range(12)]
    (tmp_path / "tasks.jsonl").write_text("\n".join(lines))
    return Program(tmp_path)


@pytest.fixture
def engine() -> Iterator[str]:
    """An engine that takes a twentieth of a second for each turn."""
    with engine_process(delay=0.05) as (url, _):
        yield url


@pytest.fixture
def ask(engine: str) -> Callable[[str], Any]:
    """``counts``: what the engine was asked so far; ``hold`` and ``release``: no answers until further notice."""

    def get(what: str) -> Any:
        with urllib.request.urlopen(f"{engine}/{what}", timeout=10) as answer:
            return json.loads(answer.read())

    return get


@pytest.fixture
def counts(ask: Callable[[str], Any]) -> Callable[[], Any]:
    return lambda: ask("counts")


def alive(group: int) -> list[int]:
    """Processes of a process group that are not zombies."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except (OSError, NotADirectoryError):
            continue
        if folder.name.isdecimal() and int(fields[2]) == group and fields[0] != "Z":
            found.append(int(folder.name))
    return found


@pytest.fixture
def survivors() -> Callable[[int], list[int]]:
    assert os.path.exists("/proc")
    return alive
