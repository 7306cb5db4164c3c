"""kill -9 at every fact of a small batch: nothing acknowledged is lost, nothing finished is run again."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from headway.core.facts import TrajectoryFinished
from headway.journal import read

SCRIPT = Path(__file__).with_name("killed_batch.py")


@pytest.mark.parametrize("mode", ["flushed", "as it is"])
def test_killed_at_every_fact(tmp_path: Path, mode: str) -> None:
    """``flushed``: exactly the facts up to the fatal one are on disk; else those that happened to be."""
    command = [sys.executable, str(SCRIPT), str(tmp_path), mode]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stderr
    rounds = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(rounds) > 22  # the opening's five and six for every sample
    for found in rounds[:-1]:
        assert found["died"] == signal.SIGKILL, found
        assert found["resumed"] == 0, done.stderr
        _check(found["fact"], found["log"], tmp_path / f"{mode}-{found['fact']}" / "run.headway")
    assert rounds[-1]["died"] == 0  # it had fewer facts than that, so nobody killed it
    assert len([line for line in rounds[-1]["log"] if line.endswith("recalled")]) == 3


def _check(fact: int, log: list[str], journal: Path) -> None:
    where = f"killed after fact {fact}: {log}"
    for name in "abc":
        acknowledged = f"first has {name} {name} new" in log
        again = f"second solves {name}" in log
        assert not (acknowledged and again), where
        assert f"second has {name} {name} {'new' if again else 'recalled'}" in log, where
    assert len([line for line in log if line.startswith("second has")]) == 3, where
    finished = [row.fact.trajectory for row in read(journal).rows if isinstance(row.fact, TrajectoryFinished)]
    assert sorted(finished) == ["a", "b", "c"], where  # none finished twice
