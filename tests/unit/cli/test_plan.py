"""`headway plan`: what it prints, what it refuses, and that the numbers are the planner's."""

import json
import re
from pathlib import Path

import anyio
import pytest

from headway import journal
from headway.cli.main import _outcome
from headway.core.commands import Admit, Command, GrantAction, StartTurn
from headway.core.facts import (
    ActionFinished,
    ActionRequested,
    CoordinatorStarted,
    EngineJoined,
    Fact,
    Resumed,
    SampleSubmitted,
    SlotsChanged,
    TrajectoryFinished,
    TurnFinished,
    TurnRequested,
)
from headway.core.units import MAIN, EngineId, EnvironmentId, Nanos, Tokens, TrajectoryId, nanos

HAND = [
    *("--turns", "30~12", "--first-prompt", "6000~1500", "--growth", "900±500"),
    *("--output", "250+-150", "--action", "12~20"),
]
LING = ["plan", "Ling-3.0-flash", "--engine-kind", "sglang", "--tp", "4", "--memory", "80GiB"]
HEADER = journal.Header({}, "default", {}, {"headway": "0"})


@pytest.fixture
def say(capsys):
    """Run a command; what it returned, printed and complained about."""

    def run(*arguments):
        code = _outcome([str(a) for a in arguments])
        return (code, *capsys.readouterr())

    return run


@pytest.fixture
def config(tmp_path):
    """A model of our own in a folder."""
    known = {
        "model_type": "qwen3",
        "num_hidden_layers": 4,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "hidden_size": 512,
    }
    (tmp_path / "config.json").write_text(json.dumps(known))
    return tmp_path


def write(path, rows):
    """Make a journal."""

    async def record():
        file = journal.open_new(path, HEADER)
        for fact, commands in rows:
            file.append(fact, commands)
        await file.close()

    anyio.run(record)
    return path


@pytest.fixture
def recording(tmp_path):
    """A journal: ten samples of three turns each, one second of inference and two seconds of waiting and acting."""
    path = tmp_path / "run.headway"
    place, engine = EnvironmentId("bash"), EngineId("e")
    rows: list[tuple[Fact, list[Command]]] = [
        (CoordinatorStarted(Nanos(0), 0, "0"), []),
        (SlotsChanged(Nanos(0), place, 4), []),
        (EngineJoined(Nanos(0), engine), []),
        (Resumed(Nanos(0)), []),
    ]
    for n in range(10):
        who, at = TrajectoryId(f"s{n}"), 100 * n
        rows.append((SampleSubmitted(nanos(at), who, n), [Admit(who, 1)]))
        for turn, prompt in enumerate((1000, 1300, 1600)):
            asked, answered = at + 3 * turn, at + 3 * turn + 1
            start = StartTurn(who, MAIN, turn, 1, engine)
            rows.append((TurnRequested(nanos(asked), who, MAIN, turn, Tokens(prompt)), [start]))
            done = TurnFinished(
                nanos(answered), who, MAIN, turn, 1, Tokens(prompt), Tokens(100 + n), nanos(1), Tokens(0)
            )
            rows.append((done, []))
            act = ActionRequested(nanos(answered), who, MAIN, turn, place)
            rows.append((act, [GrantAction(who, MAIN, turn, 1, place)]))
            rows.append((ActionFinished(nanos(answered + 2), who, MAIN, turn, 1, nanos(1)), []))
        rows.append((TrajectoryFinished(nanos(at + 9), who), []))
    return write(path, rows)


def test_the_page_shows_workload_split_concurrency_and_command(say):
    code, page, _ = say(*LING, *HAND, "--device", "H200")
    assert code == 0
    for line in (
        "Workload: by hand",
        "8,064 B in bfloat16",
        "live trajectories           262 (at most 276 fit)",
        "the default ratio 0.9       163 live",
        "--max-mamba-cache-size 846 --max-total-tokens 8657045 --max-running-requests 124",
    ):
        assert line in page


def test_json_has_the_keys_that_scripts_read(say):
    code, out, _ = say(*LING, *HAND, "--device", "H200", "--json")
    found = json.loads(out)
    assert code == 0
    assert (found["kv_bytes_per_token"], found["state_bytes_per_sequence"]) == (8064, 18_995_200)
    assert found["state_slots"] == 846
    assert found["kv_tokens"] == 8_657_045
    assert found["reference_concurrency"] == 262
    assert found["binding"] == "memory"
    assert found["flags"][:2] == ["--max-mamba-cache-size", "846"]
    assert [warning["name"] for warning in found["warnings"]] == ["default-ratio"]


@pytest.mark.parametrize(("extra", "reason"), [([], "no workload"), (HAND, "no time model")])
def test_without_workload_or_constants_there_are_bytes_and_a_reason(say, extra, reason):
    _, out, _ = say(*LING, *extra, "--json")
    found = json.loads(out)
    assert found["reference_concurrency"] is None
    assert found["reason"].startswith(reason)
    assert found["state_slots"] > 0


def test_memory_is_derived_and_the_subtraction_printed(say):
    given = ["--device-memory", "80GiB", "--weights", "20GiB", "--utilization", "0.5", "--overhead", "2GiB"]
    code, page, _ = say("plan", "Qwen3-8B", "--engine-kind", "vllm", *given)
    assert code == 0
    assert page.startswith("Cache per rank: 80 GiB x 0.5 - 20 GiB weights - 2 GiB overhead = 18 GiB\n")


def test_weights_are_estimated_where_they_are_not_given(say):
    code, page, _ = say("plan", "Qwen3-8B", "--engine-kind", "vllm", "--device", "H100")
    assert code == 0
    assert re.search(r"weights estimated from the config: 8(\.\d+)?B in bfloat16", page)


def test_a_folder_a_file_and_a_local_model_are_found(say, config):
    for name in (config, config / "config.json", "tiny-granite-hybrid"):
        code, out, _ = say("plan", name, "--engine-kind", "vllm", "--memory", "1GiB", "--json")
        assert code == 0
    assert json.loads(out)["block_tokens"] == 256
    assert json.loads(out)["family"] == "mamba2"


def test_a_recorded_run_gives_workload_and_time_model(say, recording):
    model = ["plan", "Qwen3-8B", "--engine-kind", "vllm", "--memory", "20GiB"]
    _, out, _ = say(*model, "--workload", recording, "--fit", recording, "--json")
    found = json.loads(out)
    assert found["workload"]["trajectories"] == 10
    assert found["workload"]["turns"]["mean"] == 3
    assert found["workload"]["action"] == {"mean": 2.0, "sd": 0.0, "p50": 2.0, "p95": 2.0, "most": 2.0}
    assert found["constants"].startswith("fitted from run.headway, error ")
    assert found["reference_concurrency"] > 0


def test_a_trace_gives_a_workload_and_says_what_it_assumes(say, tmp_path):
    act = {"name": "bash", "seconds": 2}
    turns = [
        {"prompt_tokens": 100, "output_tokens": 10, "action": act},
        {"prompt_tokens": 150, "output_tokens": 10, "action": {"name": "bash"}},
        {"prompt_tokens": 200, "output_tokens": 10},
    ]
    trace = tmp_path / "trace.jsonl"
    trace.write_text(json.dumps({"sample_id": "a", "turns": turns}) + "\n")
    _, out, _ = say(*LING, "--workload", trace, "--device", "H200", "--json")
    work = json.loads(out)["workload"]
    assert work["source"] == f"{trace}, 1 of 2 action times assumed"
    assert work["growth"]["mean"] == 40
    _, out, _ = say(*LING, "--workload", trace, "--action", "7", "--shared-prefix", "50", "--json")
    work = json.loads(out)["workload"]
    assert work["action"]["mean"] == 7
    assert work["shared_prefix"] == 50


def test_settings_of_the_engine_can_be_named(say):
    _, out, _ = say(*LING, "--set", "strategy=no_buffer", "--set", "slots=300", "--kv-dtype", "fp8", "--json")
    found = json.loads(out)
    assert found["slots_per_running_request"] == 3
    assert found["state_slots"] == 300
    assert found["dtypes"]["kv"] == "fp8"


def test_blocks_stand_for_memory(say):
    _, out, _ = say("plan", "tiny-qwen3-next", "--engine-kind", "vllm", "--set", "num_blocks=48", "--json")
    found = json.loads(out)
    assert found["num_blocks"] == 48
    assert "--num-gpu-blocks-override" in found["flags"]


def test_the_plan_is_written_too(say, tmp_path):
    out = tmp_path / "plan.json"
    code, page, told = say(*LING, "-o", out)
    assert code == 0
    assert page.startswith("inclusionAI/Ling-3.0-flash")
    assert told == f"written: {out}\n"
    assert json.loads(out.read_bytes())["tp"] == 4


BASE = ["plan", "Ling-3.0-flash", "--engine-kind", "sglang"]
REFUSED = {
    "no such model": (["plan", "Lign", "--engine-kind", "vllm"], "neither a file nor a built-in model"),
    "no engine": (["plan", "Qwen3-8B", "--memory", "1GiB"], "--engine-kind"),
    "unknown engine": (["plan", "Qwen3-8B", "--engine-kind", "tgi", "--memory", "1GiB"], "use vllm, sglang or"),
    "no memory": (BASE, "--memory"),
    "memory in words": ([*BASE, "--memory", "much"], "'much' is no size"),
    "both memories": ([*BASE, "--memory", "1GiB", "--device-memory", "2GiB"], "exclude each other"),
    "nothing left": ([*BASE, "--device-memory", "1GiB", "--weights", "2GiB"], "nothing is left"),
    "tp": ([*BASE, "--memory", "1GiB", "--tp", "17"], "not a tensor-parallel size"),
    "a number in words": ([*BASE, "--memory", "80GiB", "--turns", "many"], "--turns: 'many' is no number"),
    "half a workload": ([*BASE, "--memory", "80GiB", "--turns", "3"], "--first-prompt and --growth"),
    "both workloads": ([*BASE, "--memory", "80GiB", "--workload", "x", "--turns", "3"], "exclude each other"),
    "no such run": ([*BASE, "--memory", "80GiB", "--workload", "none.headway"], "none.headway"),
    "no such trace": ([*BASE, "--memory", "80GiB", "--workload", "none.jsonl"], "can't be read"),
    "both constants": ([*BASE, "--memory", "80GiB", "--fit", "x", "--device", "H100"], "exclude each other"),
    "unknown device": ([*BASE, "--memory", "80GiB", "--device", "H1"], "unknown device"),
    "unknown setting": ([*BASE, "--memory", "80GiB", "--set", "x=1"], "sglang has kv_dtype"),
    "a setting of the wrong kind": ([*BASE, "--memory", "80GiB", "--set", "ratio=x"], "--set"),
    "a choice it lacks": (["plan", "Qwen3-8B", "--engine-kind", "llamacpp", "--state-dtype", "fp8"], "--state-dtype"),
    "unwritable": ([*BASE, "--memory", "80GiB", "-o", "/nowhere/plan.json"], "/nowhere/plan.json"),
    "nobody there": ([*BASE, "--engine-url", "http://127.0.0.1:9"], "no engine answers"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_can_not_be_used_is_one_line(say, case):
    arguments, expected = REFUSED[case]
    code, out, error = say(*arguments)
    assert (code, out) == (2, "")
    assert error.count("\n") == 1
    assert expected in error


def test_a_run_with_too_few_turns_fits_nothing(say, tmp_path):
    path = write(tmp_path / "short.headway", [(CoordinatorStarted(Nanos(0), 0, "0"), [])])
    assert "0 finished turns are too few" in say(*LING, "--fit", path)[2]
    assert "no turns in it" in say(*LING, "--workload", path)[2]


def test_a_model_without_sizes_needs_its_weights(say, tmp_path):
    layer = {"kind": "gqa", "query_heads": 8, "kv_heads": 2, "key_dim": 64, "value_dim": 64}
    file = tmp_path / "own.json"
    file.write_text(json.dumps({"name": "own", "family": "dense", "layers": [{"count": 4, "layer": layer}]}))
    assert "--weights" in say("plan", file, "--engine-kind", "vllm", "--device-memory", "8GiB")[2]


def test_an_unreadable_config_is_one_line(say, tmp_path):
    assert "config.json: can't be read" in say("plan", tmp_path, "--engine-kind", "vllm", "--memory", "1GiB")[2]


def test_the_configs_of_local_models_are_what_is_made(config: Path) -> None:
    """Kept apart from the recipes by hand, so held together by a test."""
    from headway.adapters import replicas
    from headway.hybrid.architecture import from_config

    found = {name: from_config(replicas.config(name)) for name in replicas.MODELS}
    assert [sum(n for n, _ in a.recurrent()) for a in found.values()] == [3, 6, 3]
    assert [sum(n for n, _ in a.growing()) for a in found.values()] == [1, 2, 1]
