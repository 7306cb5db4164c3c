"""Whatever is written wrong: one line on standard error, exit code 2, nothing created, nothing lost."""

import json
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import unused_port

from headway.journal import Header, open_new, open_resume

Headway = Callable[..., Any]
LONG = "word " * 10_000


def tasks(name: str, *lines: dict[str, object] | str) -> None:
    Path(name).write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines))


def journal(name: str, **more: object) -> Path:
    path = Path(name)
    open_new(path, Header(more.get("settings", {}), "default", more.get("source", {}), {})).shut()  # type: ignore[arg-type]
    return path


def check(headway: Headway, here: Path, arguments: list[str], line: str) -> None:
    before = {path: path.read_bytes() for path in here.iterdir()}
    said = headway(*arguments)
    assert (said.code, said.out) == (2, ""), said
    assert said.err.count("\n") == 1, said.err
    assert said.err.startswith("headway: ")
    assert line in said.err
    assert {path: path.read_bytes() for path in here.iterdir()} == before


RUN = ["run", "tasks.jsonl"]


@pytest.mark.parametrize(
    ("more", "line"),
    [
        (["--policy", "fifoo"], "policy: unknown policy 'fifoo' (did you mean fifo?)"),
        (["--slots", "0"], "must be at least 1, is 0"),
        (["--env", "bash=0"], "environments.bash.slots: must be at least 1, is 0"),
        (["--env", "bash=-2"], "environments.bash.slots: must be at least 1, is -2"),
        (["--env", "bash"], "--env: must be NAME=SLOTS, is 'bash'"),
        (["--env", "=3"], "--env: must be NAME=SLOTS, is '=3'"),
        (["--env", "a=1", "--env", "b=1"], "--env: task files use one environment (given: a, b)"),
        (["--env", "a=1", "--env", "b=1", "--slots", "3"], "--slots is for a sole environment"),
        (["--concurrency", "0"], "concurrency: must be at least 1, is 0"),
        (["--concurrency", "lots"], "concurrency: must be a number, auto or unlimited, is 'lots'"),
        (["--error-budget", "1.5"], "error_budget: must be a whole number of samples, or a share of them below 1"),
        (["--seed", "-1"], "seed: must be at least 0, is -1"),
        (["--seed", "x"], "Invalid value for '--seed': "),
        (["--limit", "0"], "--limit: must be at least 1, is 0"),
        (["--repeats", "0"], "--repeats: must be at least 1, is 0"),
        (["--ids", "t0,t9"], "--ids: there is no sample 't9'"),
        (["--agent", "scripted"], "--agent: task files have one agent, not 'scripted'"),
        (["--inject-latency"], "--inject-latency: only the suite bfcl knows it"),
        (["--model", "tyni"], "no model 'tyni' is served there (it serves 'tiny')"),
        (["--engine-kind", "vlm"], "engines[0].kind: unknown kind 'vlm' (did you mean vllm?)"),
        (["--api-key-env", "NO_SUCH_KEY"], "the environment variable NO_SUCH_KEY is not set"),
        (["--ca-file", "no.pem"], "no.pem: not a usable CA file"),
        (["--config", "no.toml"], "no.toml: can't be read: No such file or directory"),
        (["--journal", "run.db"], "run.db: a journal's name ends in .headway"),
        (["--journal", "no/where.headway"], "no/where.headway: can't be written here: No such file or directory"),
        (["--polcy", "fifo"], "No such option: --polcy"),
    ],
)
def test_a_flag_that_can_not_be_used(headway: Headway, here: Path, engine: str, more: list[str], line: str) -> None:
    check(headway, here, [*RUN, "--engine", engine, *more], line)


def test_engines_that_are_none(headway: Headway, here: Path, engine: str) -> None:
    nobody = f"http://127.0.0.1:{unused_port()}"
    check(headway, here, RUN, "--engine: no engine is given (--engine http://HOST:PORT, once for each)")
    check(headway, here, [*RUN, "--engine", nobody], f"{nobody}: no engine answers: ")
    check(headway, here, [*RUN, "--engine", engine, "--engine", nobody], f"{nobody}: no engine answers: ")
    check(headway, here, [*RUN, "--engine", engine, "--engine", f"{engine}/"], "is that of engines[0] too")
    check(headway, here, [*RUN, "--engine", f"{engine}/counts/"], "not an OpenAI-compatible engine")
    check(headway, here, [*RUN, "--engine", "localhost:80"], "must look like http://HOST:PORT, is 'localhost:80'")
    check(headway, here, [*RUN, "--engine", "http://me:secret@host:80"], "must hold no password")


BROKEN = ['{"id": "t%d", "prompt": "x"}' % n for n in range(36)] + ['{"id": "t36", "prompt": "x"']  # noqa: UP031


@pytest.mark.parametrize(
    ("lines", "line"),
    [
        (BROKEN, "bad.jsonl, line 37: Input data was truncated"),
        ([{"id": "a", "prompt": "x"}, "", {"id": "a", "prompt": "y"}], "line 3: the sample id 'a' stands on line 1"),
        ([{"id": "", "prompt": "x"}], "bad.jsonl, line 1: the id is empty"),
        ([{"id": "a"}], "bad.jsonl, line 1: needs either a prompt or messages"),
        ([{"id": "a", "prompt": "x", "messages": [{}]}], "bad.jsonl, line 1: needs either a prompt or messages"),
        ([{"prompt": "x"}], "bad.jsonl, line 1: missing required field `id`"),
        ([{"id": 3, "prompt": "x"}], "bad.jsonl, line 1: expected `str`, got `int` - at `$.id`"),
        ([{"id": "a", "prompt": "x", "max_turn": 3}], "unknown key 'max_turn' (did you mean 'max_turns'?)"),
        ([{"id": "a", "prompt": "x", "max_turns": 0}], "bad.jsonl, line 1: max_turns must be at least 1, is 0"),
        (["[]"], "bad.jsonl, line 1: expected `object`, got `array`"),
        (["", ""], "bad.jsonl: has no tasks"),
        ([{"id": "a", "prompt": LONG}], "the first prompt of 'a' has 12"),
    ],
)
def test_task_files(headway: Headway, here: Path, engine: str, lines: list[Any], line: str) -> None:
    tasks("bad.jsonl", *lines)
    check(headway, here, ["run", "bad.jsonl", "--engine", engine], line)


def test_what_can_not_be_run(headway: Headway, here: Path, engine: str) -> None:
    given = ["--engine", engine]
    check(headway, here, ["run", "bfcll", *given], "there is no suite 'bfcll' (suites: bfcl; or a file TASKS.jsonl)")
    check(headway, here, ["run", "no.jsonl", *given], "no.jsonl: can't be read: No such file or directory")
    check(headway, here, ["run", "/.jsonl", *given], "/.jsonl: can't be read: No such file or directory")
    check(headway, here, ["run"], "Missing argument 'what'")
    check(headway, here, ["rnu"], "No such command 'rnu'")


def test_config_files(headway: Headway, here: Path, engine: str) -> None:
    config = here / "headway.toml"
    for text, line in (
        ('polcy = "fifo"', "headway.toml: polcy: unknown setting (did you mean policy?)"),
        ("policy = ", "headway.toml: is not valid TOML"),
        ("[environments.bash]\nslots = 0", "headway.toml: environments.bash.slots: must be at least 1, is 0"),
        ("[environments]\na = 1\nb = 1", "--slots is for a sole environment (use --env NAME=N for: a, b)"),
    ):
        config.write_text(text)
        check(headway, here, [*RUN, "--engine", engine, "--config", "headway.toml", "--slots", "2"], line)


def test_journals(headway: Headway, here: Path, engine: str) -> None:
    (here / "text.headway").write_text("this is no database, whatever its name may say " * 100)
    (here / "empty.headway").touch()
    path = journal("new.headway")
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    journal("python.headway")
    for command in ("resume", "status", "report"):
        check(headway, here, [command, "no.headway"], "no.headway: there is no such journal")
        check(headway, here, [command, "text.headway"], "text.headway: is not a Headway journal")
        check(headway, here, [command, "empty.headway"], "empty.headway: is empty: its batch never began")
        check(headway, here, [command, "new.headway"], "new.headway: is a journal of format 99; this Headway reads")
        check(headway, here, [command, "."], "is not a file")
    check(headway, here, ["resume", "python.headway"], "python.headway: was not written by `headway run`")
    run = [*RUN, "--engine", engine, "--slots", "1", "--journal", "python.headway"]
    check(headway, here, run, "python.headway: exists already (resume it, or choose another name for this batch)")
    for order in (["pause"], ["continue"], ["cancel", "t0"], ["slots", "bash=1"], ["concurrency", "3"]):
        verb, *argument = order
        line = "python.headway: no batch is running on this journal"
        check(headway, here, ["control", verb, "python.headway", *argument], line)


def test_two_coordinators_on_one_journal(headway: Headway, here: Path, engine: str) -> None:
    run = [*RUN, "--engine", engine, "--slots", "1", "--journal", "run.headway", "--json"]
    assert headway(*run).code == 0
    owner = open_resume("run.headway")
    try:
        said = headway("resume", "run.headway")
    finally:
        owner.shut()
    assert said.code == 2
    assert said.err == (
        f"headway: run.headway: is being written by process {os.getpid()} "
        "(wait for it or stop it; reading is fine meanwhile)\n"
    )


def test_the_doctor_and_plain_mistakes(headway: Headway, here: Path) -> None:
    check(headway, here, ["doctor", "localhost"], "an engine is given by its URL")
    check(headway, here, ["doctor"], "Missing argument 'url'")
    check(headway, here, ["control", "explode", "run.headway"], "No such command 'explode'")
    check(headway, here, ["version", "--jsn"], "No such option: --jsn")
