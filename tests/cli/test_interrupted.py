"""A run that is stopped: by Ctrl-C, by kill -9, by its engine; and what `headway resume` makes of it."""

import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from headway.core.facts import TrajectoryFinished
from headway.journal import read, results

RUN = ["run", "tasks.jsonl", "--slots", "2", "--journal", "run.headway", "--concurrency", "3", "--engine"]


def finished(journal: Path) -> set[str]:
    """Samples that are done, so far as it is on disk."""
    if not journal.exists() or not journal.stat().st_size:
        return set()
    return {row.fact.trajectory for row in read(journal).rows if isinstance(row.fact, TrajectoryFinished)}


def wait_for(process: "subprocess.Popen[str]", journal: Path, some: int) -> set[str]:
    """Look until so many samples are done."""
    while len(done := finished(journal)) < some:
        try:
            process.wait(0.02)
        except subprocess.TimeoutExpired:
            continue
        raise AssertionError(f"it ended by itself: {process.communicate()}")
    return done


def check_resumed(program: Any, before: set[str], counts: Callable[[], Any]) -> None:
    """All twelve are there, those done before were not asked for again, and it is the same file."""
    journal = program.folder / "run.headway"
    asked, inode = counts()["prompts"], journal.stat().st_ino
    done = program.run("resume", "run.headway", "--json")
    assert done.returncode == 0, done.stderr
    outcome = json.loads(done.stdout)
    assert (outcome["samples"], outcome["finished"], outcome["failed"]) == (12, 12, 0)
    assert outcome["recalled"] >= len(before)
    assert outcome["recalled"] < 12
    for name in before:
        prompt = json.dumps([{"role": "user", "content": f"task {name[1:]}"}])
        assert counts()["prompts"][prompt] == asked[prompt]
    assert journal.stat().st_ino == inode
    ends = [row.fact.trajectory for row in read(journal).rows if isinstance(row.fact, TrajectoryFinished)]
    assert sorted(ends) == sorted(f"t{n}" for n in range(12))
    assert len(list(results(journal))) == 12


def test_killed_and_resumed(program: Any, engine: str, counts: Callable[[], Any]) -> None:
    process = program.start(*RUN, engine)
    wait_for(process, program.folder / "run.headway", 4)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    check_resumed(program, finished(program.folder / "run.headway"), counts)


def test_ctrl_c_says_how_to_go_on(
    program: Any, engine: str, counts: Callable[[], Any], survivors: Callable[[int], list[int]]
) -> None:
    process = program.start(*RUN, engine, "--json")
    wait_for(process, program.folder / "run.headway", 2)
    os.kill(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (130, "")
    assert err.splitlines() == [
        "journal: run.headway (if this is interrupted: headway resume run.headway)",
        "headway: interrupted; go on with: headway resume run.headway",
    ]
    assert survivors(process.pid) == []
    assert sorted(file.name for file in program.folder.iterdir()) == ["run.headway", "tasks.jsonl"]
    assert program.here("status", "run.headway")[1].splitlines()[0] == "run.headway, policy default, stopped"
    check_resumed(program, finished(program.folder / "run.headway"), counts)


def test_a_resume_is_refused_while_the_run_goes_on(program: Any, engine: str, ask: Callable[[str], Any]) -> None:
    process = program.start(*RUN, engine, "--json")
    wait_for(process, program.folder / "run.headway", 1)
    ask("hold")
    code, _, error = program.here("resume", "run.headway")
    assert code == 2
    assert error.startswith(f"headway: run.headway: is being written by process {process.pid} (wait for it")
    assert error.count("\n") == 1
    assert program.here("control", "pause", "run.headway")[0] == 0  # the run's ear is still where it was
    assert program.here("control", "continue", "run.headway")[0] == 0
    ask("release")
    out, _ = process.communicate(timeout=60)
    assert json.loads(out)["finished"] == 12


def test_a_run_is_steered_from_outside(program: Any, engine: str, ask: Callable[[str], Any]) -> None:
    process = program.start(*RUN, engine, "--json")
    wait_for(process, program.folder / "run.headway", 1)
    ask("hold")
    assert json.loads(program.here("control", "pause", "run.headway", "--json")[1]) == {"done": "pause", "argument": ""}
    paused = False
    while not paused:  # the order is carried out at once, and is on disk a moment later
        status = json.loads(program.here("status", "run.headway", "--json")[1])
        assert (status["standing"], status["process"]) == ("running", process.pid)
        paused = status["batch"]["paused"]
    for verb, *arguments in (["slots", "bash=5"], ["concurrency", "none"], ["cancel", "t11"]):
        assert program.here("control", verb, "run.headway", *arguments) == (0, "done\n", "")
    for verb, argument, line in (
        ("slots", "web=1", "there is no environment 'web' (there are: bash)"),
        ("cancel", "t99", "there is no sample 't99' to be run here"),
        ("concurrency", "0", "concurrency: must be at least 1, is 0 (pause the batch instead)"),
    ):
        assert program.here("control", verb, "run.headway", argument) == (2, "", f"headway: {line}\n")
    assert program.here("control", "continue", "run.headway") == (0, "done\n", "")
    ask("release")
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert json.loads(out)["failures"] == {"t11": "cancelled"}
    slots = json.loads(program.here("report", "run.headway", "--json")[1])["batch"]["environments"][0]["slots"]
    assert slots == 5


def test_a_mistake_is_one_line_from_the_program_itself(program: Any) -> None:
    done = program.run("run", "tasks.jsonl", "--polcy", "fifo")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("headway: No such option: --polcy")
    assert done.stderr.count("\n") == 1


def test_a_reader_that_leaves_is_no_error(program: Any, engine: str) -> None:
    assert program.here(*RUN, engine)[0] == 0
    process = program.start("report", "run.headway", "--json")
    assert process.stdout is not None
    process.stdout.close()
    assert "Traceback" not in process.stderr.read()
    process.stderr.close()
    process.wait()
