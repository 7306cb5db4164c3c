"""Real engines and the real command line, killed: samples are not lost, finished ones are not run again."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headway.adapters.replicas import Replica, down, up
from headway.core.facts import TrajectoryFinished
from headway.journal import read, results

pytestmark = pytest.mark.engine
COMMAND = [sys.executable, "-c", "from headway.cli import main; main()"]
OWN = ["--max-num-seqs", "12"]  # so that these replicas are nobody else's


@pytest.fixture(scope="module")
def pair() -> Iterator[list[Replica]]:
    """Two replicas that these tests may kill."""
    replicas = up(2, extra_args=OWN, announce=print)
    yield replicas
    down(replicas)


def start(folder: Path, *arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [*COMMAND, *arguments, "--json"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def batch(folder: Path, tasks: int, engines: list[str]) -> "subprocess.Popen[str]":
    flags = [flag for url in engines for flag in ("--engine", url)]
    what = ["run", "bfcl", "--agent", "scripted", "--limit", str(tasks), "--slots", "2", "--concurrency", "6"]
    return start(folder, *what, "--journal", "run.headway", "--cache-salt", folder.name, *flags)


def finished(folder: Path) -> list[str]:
    journal = folder / "run.headway"
    if not journal.exists() or not journal.stat().st_size:
        return []
    return [row.fact.trajectory for row in read(journal).rows if isinstance(row.fact, TrajectoryFinished)]


def until(process: "subprocess.Popen[str]", folder: Path, done: int) -> list[str]:
    """Look until so many samples are done, and the batch still runs."""
    while len(found := finished(folder)) < done:
        try:
            process.wait(0.1)
        except subprocess.TimeoutExpired:
            continue
        pytest.fail(f"it ended by itself: {process.communicate()}")
    return found


def ended(process: "subprocess.Popen[str]") -> tuple[int, Any, str]:
    out, err = process.communicate(timeout=300)
    return process.returncode, json.loads(out) if out else None, err


def check_complete(folder: Path, outcome: Any, tasks: int, before: list[str]) -> None:
    """Every sample has its result, none that was done before was run again, all in one file."""
    assert (outcome["samples"], outcome["finished"], outcome["failed"]) == (tasks, tasks, 0)
    assert outcome["recalled"] >= len(before)
    ends = finished(folder)
    assert len(ends) == len(set(ends)) == tasks
    assert set(before) <= set(ends)
    assert len(list(results(folder / "run.headway"))) == tasks


@pytest.mark.timeout(900)
def test_a_run_killed_half_way_and_resumed(engine_urls: list[str], tmp_path: Path) -> None:
    process = batch(tmp_path, 64, engine_urls)
    until(process, tmp_path, 32)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    before = finished(tmp_path)
    inode = (tmp_path / "run.headway").stat().st_ino
    code, outcome, err = ended(start(tmp_path, "resume", "run.headway"))
    assert code == 0, err
    check_complete(tmp_path, outcome, 64, before)
    assert outcome["recalled"] == len(before)
    assert (tmp_path / "run.headway").stat().st_ino == inode


@pytest.mark.timeout(900)
def test_engines_killed_in_mid_run(pair: list[Replica], tmp_path: Path) -> None:
    """One of two: the batch completes and says what moved. Then the other: one line, and it goes on later."""
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    process = batch(first, 16, [replica.url for replica in pair])
    until(process, first, 3)
    os.killpg(pair[0].pid, signal.SIGKILL)
    code, outcome, err = ended(process)
    assert code == 0, err
    check_complete(first, outcome, 16, [])
    [loss] = outcome["summary"]["engine_losses"]
    assert loss["engine"] == pair[0].url
    assert outcome["summary"]["moved_turns"] > 0

    process = batch(second, 16, [pair[1].url])
    before = until(process, second, 3)
    os.killpg(pair[1].pid, signal.SIGKILL)
    code, outcome, err = ended(process)
    assert (code, outcome) == (1, None)
    assert err.splitlines()[-1].startswith(
        f"headway: no engine has been alive for 60 s; the last to fail, {pair[1].url}"
    )
    before = finished(second)
    assert len(before) < 16
    [fresh] = up(1, extra_args=OWN, announce=print)
    try:
        code, outcome, err = ended(start(second, "resume", "run.headway", "--engine", fresh.url))
    finally:
        down([fresh])
    assert code == 0, err
    check_complete(second, outcome, 16, before)
    assert outcome["recalled"] == len(before)
