"""What the commands print. Numbers are N, runs of spaces are one; the words are the contract."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fake_engine import engine_process

from headway.version import __version__

Headway = Callable[..., Any]


def words(text: str) -> str:
    """Numbers and spaces made equal."""
    text = re.sub(r"\d+(?:[.,]\d+)*", "N", text)
    return "\n".join(re.sub(r" +", " ", line).strip() for line in text.splitlines()).strip()


def shape(value: object, depth: int = 2) -> object:
    if isinstance(value, dict):
        return {key: shape(inner, depth - 1) for key, inner in value.items()} if depth else "{}"
    return [shape(inner, depth - 1) for inner in value[:1]] if isinstance(value, list) else type(value).__name__


@pytest.fixture
def ran(headway: Headway, engine: str) -> Any:
    return headway("run", "tasks.jsonl", "--engine", engine, "--slots", "2", "--journal", "run.headway")


REPORT = """\
run.headway, policy default, finished

makespan N s = N x the lower bound of N s
bound by the longest chain, t
samples N: N finished
done N% N s N% N s N% N s N% N s N% N s
work N turns, N actions, N prompt and N output tokens
hit rate N% of what earlier turns left; N% of all prompt tokens

where N s of trajectory time went
phase time share
inference queue N s N% turns that waited for an engine
inference N s N% turns that ran
slot queue N s N% actions that waited for a slot
action N s N% actions that ran
idle N s N% the harness's own time

engines
engine turns batch busy prompt output hit rate longest wait
N:N N N N s N N N% N s

environments
environment slots in use actions service waited longest wait
bash N N% N N s N s N s
"""


def same(found: str) -> str:
    """What binds depends on the machine's mood; what is said of it doesn't."""
    return re.sub(r"bound by .*", "bound by the longest chain, t", found)


def test_a_run_reports_itself(ran: Any) -> None:
    assert ran.code == 0
    found = words(ran.out)
    assert same(found).startswith(REPORT)
    assert "no schedule could have been shorter than\nN s " in found
    assert "slowest chains, and where each spent its seconds (q: queue)\nchain turns live inf. q infer. slot q" in found
    assert found.endswith("N of N finished, N failed; see `headway report run.headway`")
    told = words(ran.err).splitlines()
    assert told[0] == "journal: run.headway (if this is interrupted: headway resume run.headway)"
    assert told[-1] == "N s: N/N done, N live, inference N (+N waiting), actions N (+N waiting)"


def test_status_and_report_say_the_same_later(headway: Headway, ran: Any) -> None:
    report = headway("report", "run.headway")
    assert (report.code, report.err) == (0, "")
    assert ran.out.startswith(report.out.strip())
    status = headway("status", "run.headway")
    assert words(status.out) == (
        "run.headway, policy default, finished\nsamples N: N finished\nelapsed N s\n"
        "engine http://N:N: N running, N turns, hit rate N%\nslots bash: N of N busy, N queued, N actions"
    )


OUTCOME = {
    "journal": "str",
    "policy": "str",
    "samples": "int",
    "finished": "int",
    "failed": "int",
    "recalled": "int",
    "makespan_s": "float",
    "label": "str",
    "score": "NoneType",
    "failures": {},
    "summary": {"complete": "bool", "paused": "bool", "samples": "{}", "makespan_s": "float", "eta_s": "NoneType"},
}


def test_json_is_all_that_json_prints(headway: Headway, engine: str) -> None:
    run = headway("run", "tasks.jsonl", "--engine", engine, "--env", "bash=2", "--journal", "run.headway", "--json")
    resumed = headway("resume", "run.headway", "--json")
    for said, recalled in ((run, 0), (resumed, 4)):
        found: Any = shape(said.json)
        assert said.code == 0
        assert {k: v for k, v in found["summary"].items() if k in OUTCOME["summary"]} == OUTCOME["summary"]  # type: ignore[operator]
        assert {**found, "summary": OUTCOME["summary"]} == OUTCOME
        assert (said.json["finished"], said.json["recalled"]) == (4, recalled)
        assert words(said.err) == "journal: run.headway (if this is interrupted: headway resume run.headway)"
    summaries = [headway(command, "run.headway", "--json").json for command in ("status", "report")]
    assert summaries[0] == summaries[1]
    assert list(summaries[0])[:5] == ["run", "policy", "standing", "process", "settings"]
    assert summaries[0]["batch"]["samples"]["finished"] == 4


def test_the_version(headway: Headway) -> None:
    assert headway("version").out == f"headway {__version__}\n"
    assert headway("version", "--json").json == {"headway": __version__}


def test_no_command_is_help(headway: Headway) -> None:
    assert "Finish batches of LLM-agent tasks sooner" in headway("-h").out


def test_the_doctor(headway: Headway, engine: str) -> None:
    said = headway("doctor", engine)
    assert said.code == 0
    lines = words(said.out).splitlines()
    assert [line.split(":")[0] for line in lines] == [
        "ok api",
        "ok chat",
        "ok completion",
        "ok cache",
        "ok priority",
        "ok geometry",
        "ok metrics",
        "ok cancellation",
    ]
    assert lines[0] == "ok api: vllm serves tiny"
    findings = headway("doctor", engine, "--engine-kind", "openai", "--json").json
    assert (findings["url"], findings["kind"], findings["model"]) == (engine, "openai", "tiny")
    assert set(findings["checks"][0]) == {"name", "verdict", "line", "hint"}


def test_the_doctor_finds_nobody(headway: Headway) -> None:
    said = headway("doctor", "http://127.0.0.1:9")
    assert said.code == 1
    assert words(said.out).startswith("fail api: http://N:N: no engine answers: ")


def test_engines_on_this_machine(headway: Headway, monkeypatch: pytest.MonkeyPatch) -> None:
    class Replica:
        url, model, core = "http://127.0.0.1:8801", "tiny-qwen3-next", 0

    monkeypatch.setattr("headway.adapters.replicas.listed", list)
    assert headway("engine", "list").out == "none\n"
    assert headway("engine", "list", "--json").json == []
    monkeypatch.setattr("headway.adapters.replicas.listed", lambda: [Replica()])
    assert headway("engine", "list").out == "http://127.0.0.1:8801  tiny-qwen3-next  core 0\n"


# -- runs ---------------------------------------------------------------------------------------------------


def test_a_sample_that_fails_makes_the_exit_code_1(headway: Headway, engine: str) -> None:
    Path("tasks.jsonl").write_text('{"id": "a", "prompt": "x"}\n{"id": "b", "messages": [{"content": "no role"}]}\n')
    said = headway("run", "tasks.jsonl", "--engine", engine, "--slots", "1", "--journal", "run.headway", "--json")
    assert said.code == 1
    assert (said.json["finished"], said.json["failed"], list(said.json["failures"])) == (1, 1, ["b"])
    again = headway("resume", "run.headway", "--json")
    assert (again.json["recalled"], again.json["failed"]) == (1, 1)


def test_a_part_repeated_without_a_shell(headway: Headway, engine: str) -> None:
    more = ["--ids", "t3, t1", "--limit", "1", "--repeats", "2", "--concurrency", "unlimited", "--error-budget", "1"]
    said = headway("run", "tasks.jsonl", "--engine", engine, "--journal", "run.headway", "--json", *more)
    assert (said.code, said.json["finished"]) == (0, 2)
    summary = headway("report", "run.headway", "--json").json
    chains = summary["batch"]["slowest"]
    assert sorted((chain["trajectory"], chain["group"]) for chain in chains) == [("t3#0", "t3"), ("t3#1", "t3")]
    assert summary["batch"]["actions"] == 0
    assert summary["settings"]["error_budget"] == 1


def test_a_config_file_and_flags_over_it(headway: Headway, engine: str) -> None:
    Path("headway.toml").write_text(
        f'policy = "fifo"\nconcurrency = 3\nengines = [{{ url = "{engine}", kind = "vllm" }}]\n'
        'journal = "here.headway"\nerror_budget = "5%"\ntimeouts = { turn = "90s" }\n'
        "[environments.shell]\nslots = 1\n[retry.attempts]\ntimeout = 3\n"
    )
    config = ["--config", "headway.toml"]
    said = headway("run", "tasks.jsonl", *config, "--model", "tiny", "--slots", "2", "--policy", "caas", "--json")
    assert said.code == 0
    assert (said.json["journal"], said.json["policy"]) == ("here.headway", "caas")
    summary = headway("report", "here.headway", "--json").json
    kept = summary["settings"]
    assert kept["engines"] == [
        {"url": engine, "kind": "vllm", "model": "tiny", "api_key_env": None, "ca_file": None, "insecure": False}
    ]
    assert kept["environments"]["shell"]["slots"] == 2
    assert (kept["concurrency"], kept["timeouts"]["turn"]) == (3, 90.0)
    assert summary["batch"]["environments"][0]["environment"] == "shell"


def test_a_key_is_in_no_file(headway: Headway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "open sesame")
    with engine_process() as (url, _):
        more = ["--api-key-env", "MY_KEY", "--cache-salt", "mine", "--limit", "1", "--json"]
        assert headway("run", "tasks.jsonl", "--engine", url, "--journal", "run.headway", *more).code == 0
    assert b"open sesame" not in Path("run.headway").read_bytes()
    assert b"MY_KEY" in Path("run.headway").read_bytes()


def test_a_journal_gets_a_name_of_its_own(headway: Headway, engine: str) -> None:
    said = headway("run", "tasks.jsonl", "--engine", engine, "--limit", "1", "--json")
    assert re.fullmatch(r"tasks-\d{8}-\d{6}\.headway", said.json["journal"])
    assert Path(said.json["journal"]).exists()


def test_a_run_goes_on_with_other_engines_and_slots(headway: Headway, engine: str) -> None:
    Path("tasks.jsonl").write_text('{"id": "a", "prompt": "x"}\n{"id": "b", "messages": [{"content": "no role"}]}\n')
    with engine_process() as (url, process):
        first = headway("run", "tasks.jsonl", "--engine", url, "--env", "bash=1", "--journal", "run.headway", "--json")
        assert first.code == 1
        process.kill()
        process.wait()
        gone = headway("resume", "run.headway")
        assert gone.code == 2
        assert words(gone.err) == (
            "headway: http://N:N: no engine answers: Connection refused (start it, or try `headway engine up`)"
        )
    again = headway("resume", "run.headway", "--engine", engine, "--env", "bash=3", "--json")
    assert (again.code, again.json["recalled"]) == (1, 1)
    environments = headway("report", "run.headway", "--json").json["batch"]["environments"]
    assert environments[0]["slots"] == 3


def test_the_error_budget_ends_a_run(headway: Headway, engine: str) -> None:
    lines = [json.dumps({"id": f"b{n}", "messages": [{"content": "no role"}]}) for n in range(4)]
    Path("tasks.jsonl").write_text("\n".join(lines))
    said = headway(
        "run", "tasks.jsonl", "--engine", engine, "--journal", "run.headway", "--error-budget", "0", "--json"
    )
    assert (said.code, said.out) == (1, "")
    assert words(said.err.splitlines()[-1]).startswith("headway: N samples failed, more than the error budget of N; ")
