"""A plan beside a live engine, and engines started from a plan."""

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from headway.adapters import replicas
from headway.adapters.replicas import Replica
from headway.cli.main import _outcome

METRICS = """\
vllm:num_requests_running{engine="0"} 0.0
vllm:cache_config_info{block_size="256",enable_prefix_caching="True",engine="0",kv_cache_max_concurrency="%s",\
mamba_block_size="256",mamba_cache_mode="align",num_gpu_blocks="%d"} 1.0
"""


class _Engine(BaseHTTPRequestHandler):
    metrics = METRICS % (48 / 38, 48)
    kind = "vllm"
    info = ""

    def do_GET(self):
        model = {"id": "tiny-qwen3-next", "owned_by": self.kind, "max_model_len": 8192}
        pages = {"/v1/models": json.dumps({"data": [model]}), "/metrics": self.metrics, "/server_info": self.info}
        body = pages.get(self.path, "").encode()
        self.send_response(200 if body else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def engine():
    """Serve a class like `_Engine`; its URL."""
    servers = []

    def serve(handler=_Engine):
        server = HTTPServer(("127.0.0.1", 0), handler)
        servers.append(server)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        return f"http://127.0.0.1:{server.server_port}"

    yield serve
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture
def say(capsys):
    def run(*arguments):
        code = _outcome([str(a) for a in arguments])
        return (code, *capsys.readouterr())

    return run


def test_a_live_engine_is_planned_for_as_it_is(say, engine):
    code, page, _ = say("plan", "tiny-qwen3-next", "--engine-url", engine())
    assert code == 0
    assert "block pool                  48 blocks of 256 tokens" in page
    assert page.count("as planned") == 3


def test_a_plan_that_the_engine_does_not_follow_says_so(say, engine):
    arguments = ("plan", "tiny-qwen3-next", "--engine-url", engine(), "--set", "num_blocks=96")
    code, page, _ = say(*arguments)
    assert code == 1
    assert page.count("DIFFERS") == 2
    code, out, _ = say(*arguments, "--json")
    checks = {check["name"]: check["agrees"] for check in json.loads(out)["checks"]}
    assert checks == {"tokens per block": True, "blocks": False, "requests of 8,192 tokens": False}


def test_what_an_engine_does_not_report_is_neither_right_nor_wrong(say, engine):
    class Silent(_Engine):
        metrics = "vllm:num_requests_running 0\n"

    code, page, _ = say("plan", "tiny-qwen3-next", "--engine-url", engine(Silent), "--memory", "1GiB")
    assert code == 0
    assert page.count("not reported") == 3


def test_sglang_is_compared_by_slots_and_tokens(say, engine):
    class Sglang(_Engine):
        kind = "sglang"
        info = json.dumps(
            {
                "max_total_num_tokens": 4000,
                "context_length": 8192,
                "page_size": 1,
                "internal_states": [{"max_mamba_cache_size": 20}],
            }
        )

    arguments = ("plan", "tiny-qwen3-next", "--engine-url", engine(Sglang), "--set", "slots=20", "--memory")
    code, out, _ = say(*arguments, "1GiB", "--json")
    assert code == 1
    found = json.loads(out)["checks"]
    assert [(check["name"], check["measured"], check["agrees"]) for check in found] == [
        ("state slots", 20, True),
        ("KV tokens", 4000, False),
    ]


def test_without_memory_only_vllm_tells_enough(say, engine):
    class Sglang(_Engine):
        kind = "sglang"
        info = "{}"

    code, _, error = say("plan", "tiny-qwen3-next", "--engine-url", engine(Sglang))
    assert code == 2
    assert "--memory" in error


@pytest.fixture
def started(engine, monkeypatch):
    """`up` played: what it was asked for, and one replica."""
    asked = []
    replica = Replica(engine(), 1, 1, "tiny-qwen3-next", "/m", 0, "/log")

    def up(count, model, extra_args, *, announce):
        announce("starting")
        asked.append((count, model, extra_args))
        return [replica]

    monkeypatch.setattr(replicas, "up", up)
    return asked


def test_an_engine_starts_as_planned_and_is_measured(say, started, tmp_path):
    file = tmp_path / "plan.json"
    say("plan", "tiny-qwen3-next", "--engine-kind", "vllm", "--set", "num_blocks=48", "-o", file)
    code, page, _ = say("engine", "up", "--replicas", "1", "--plan", file, "--", "--seed", "1")
    assert code == 0
    ((count, model, flags),) = started
    assert (count, model) == (1, "tiny-qwen3-next")
    assert flags[:2] == ("--num-gpu-blocks-override", "48")
    assert flags[-2:] == ("--seed", "1")
    assert page.count("as planned") == 3
    _, out, _ = say("engine", "up", "--plan", file, "--json")
    (found,) = json.loads(out)
    assert found["measured"]["num_blocks"] == 48


def test_an_engine_that_differs_from_its_plan_is_told(say, started, tmp_path):
    file = tmp_path / "plan.json"
    say("plan", "tiny-qwen3-next", "--engine-kind", "vllm", "--set", "num_blocks=50", "-o", file)
    assert say("engine", "up", "--plan", file)[0] == 1


def test_without_a_plan_the_urls_are_printed(say, started):
    code, out, _ = say("engine", "up", "--replicas", "1")
    assert code == 0
    assert started == [(1, "tiny-qwen3-next", ())]
    assert out.startswith("http://127.0.0.1:")
    assert json.loads(say("engine", "up", "--json")[1])[0]["model"] == "tiny-qwen3-next"


@pytest.mark.parametrize(("written", "expected"), [(None, "can't be read"), ("{}", "not a plan"), (b"\xff", "not a")])
def test_a_file_that_is_no_plan_is_one_line(say, tmp_path, written, expected):
    file = tmp_path / "plan.json"
    if written is not None:
        file.write_bytes(written if isinstance(written, bytes) else written.encode())
    code, _, error = say("engine", "up", "--plan", file)
    assert code == 2
    assert expected in error


def test_a_plan_for_something_else_is_refused(say, tmp_path):
    file = tmp_path / "plan.json"
    say("plan", "Ling-3.0-flash", "--engine-kind", "sglang", "--memory", "80GiB", "-o", file)
    code, _, error = say("engine", "up", "--plan", file)
    assert code == 2
    assert "start it yourself: python -m sglang.launch_server" in error


def test_down_stops_the_named_ones_only(say, monkeypatch):
    running = [Replica(f"http://127.0.0.1:{n}", n, 1, "m", "/m", 0, "/log") for n in (1, 2)]
    stopped = []

    def down(which):
        stopped.append(which)
        return 2 if which is None else len(which)

    monkeypatch.setattr(replicas, "listed", lambda: running)
    monkeypatch.setattr(replicas, "down", down)
    assert say("engine", "down", "http://127.0.0.1:2/")[1] == "stopped 1 replica(s)\n"
    assert say("engine", "down", "--json")[1] == '{\n  "stopped": 2\n}\n'
    assert stopped == [[running[1]], None]
    code, _, error = say("engine", "down", "http://127.0.0.1:3")
    assert code == 2
    assert "no replica of yours runs at http://127.0.0.1:3" in error
    assert len(stopped) == 2


@pytest.fixture
def tasks(tmp_path):
    file = tmp_path / "tasks.jsonl"
    file.write_text(json.dumps({"id": "a", "prompt": "Go."}) + "\n")
    return file


@pytest.mark.parametrize(
    ("model", "extra", "expected"),
    [
        ("tiny-qwen3-next", ["--engine-kind", "vllm", "--set", "num_blocks=96"], "has 48 blocks, the plan 96"),
        ("Ling-3.0-flash", ["--engine-kind", "sglang", "--memory", "8GiB"], "is for sglang"),
    ],
)
def test_a_run_refuses_a_plan_that_its_engines_do_not_follow(say, engine, tasks, tmp_path, model, extra, expected):
    file = tmp_path / "plan.json"
    say("plan", model, *extra, "-o", file)
    code, _, error = say("run", tasks, "--engine", engine(), "--plan", file)
    assert code == 2
    assert expected in error
