"""Replicas go up, are found again, and go down whole; with played servers in real processes."""

import itertools
import os
import select
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from headway.adapters.replicas import fleet, process, record, server
from headway.adapters.replicas.fleet import down, listed, up
from headway.adapters.replicas.places import state
from headway.errors import BoundaryError, ConfigError


@pytest.fixture
def base_port(stage):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def healthy(replica):
    with urllib.request.urlopen(f"{replica.url}/health", timeout=5) as answer:
        return answer.status == 200


def test_up_reused_more_and_down(base_port):
    said = []
    first = up(1, base_port=base_port, announce=said.append)
    assert healthy(first[0])
    assert said[-1].startswith("ready after")
    assert listed() == first
    assert up(1, base_port=base_port, announce=said.append) == first
    assert said[-1] == f"already up: {first[0].url}"
    both = up(2, base_port=base_port)
    assert both[0] == first[0]
    assert healthy(both[1])
    assert len({r.url for r in both}) == 2
    assert {r.core for r in both} == set(sorted(os.sched_getaffinity(0))[:2])
    assert down() == 2
    assert listed() == []
    assert down() == 0
    assert not any(r.alive for r in both)


def test_other_settings_are_other_replicas(base_port):
    said = []
    plain = up(1, base_port=base_port)
    small = up(1, extra_args=["--num-gpu-blocks-override", "48"], base_port=base_port, announce=said.append)
    assert plain != small
    assert any("1 other replica" in line for line in said)
    assert down(small) == 1
    assert listed() == plain


def test_what_the_server_is_told(base_port):
    [replica] = up(1, extra_args=["--max-model-len", "32768"], base_port=base_port)
    core, *args = Path(replica.log).read_text().split()
    assert core == str(replica.core)
    assert args[args.index("--served-model-name") + 1] == replica.model == "tiny-qwen3-next"
    assert args[args.index("--block-size") + 1] == "256"
    lengths = [value for flag, value in itertools.pairwise(args) if flag == "--max-model-len"]
    assert lengths == ["8192", "32768"]
    assert args[args.index("--port") + 1] == replica.url.rpartition(":")[2]


def test_a_model_of_your_own(base_port, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "config.json").touch()
    [replica] = up(1, str(tmp_path / "mine"), base_port=base_port)
    assert (replica.model, replica.directory) == ("mine", str(tmp_path / "mine"))


def test_an_early_death_shows_the_log_and_a_hint(base_port):
    with pytest.raises(BoundaryError, match=r"(?s)died while starting \(exit code 2\).*--die.*whole log.*extra arg"):
        up(1, extra_args=["--die"], base_port=base_port)
    assert listed() == []


def test_one_that_never_gets_ready_is_stopped(base_port, monkeypatch):
    monkeypatch.setattr(fleet, "_PATIENCE", 2.0)
    monkeypatch.setattr(fleet, "_SAY", 0.0)
    said = []
    with pytest.raises(BoundaryError, match="not ready after"):
        up(1, extra_args=["--hang"], base_port=base_port, announce=said.append)
    assert any("still starting" in line for line in said)
    assert listed() == []


def test_at_least_one(base_port):
    with pytest.raises(ConfigError, match="--replicas"):
        up(0)


def test_an_unreadable_record_counts_as_empty(stage):
    state().mkdir(parents=True)
    (state() / "replicas.json").write_text("{half")
    assert listed() == []


def test_a_recycled_pid_is_left_alone(stage):
    stranger = subprocess.Popen([sys.executable, *SLEEP], start_new_session=True)
    try:
        began = process.started(stranger.pid)
        record.save([record.Replica("http://h:1", stranger.pid, began - 1, "m", "d", 0, "log")])
        assert listed() == []
        assert down() == 0
        assert not process.stop(stranger.pid, began - 1, 0.1)
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


SLEEP = ["-c", "import signal; signal.pause()"]
FAMILY = """
import os, signal, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = os.fork()
if child: print(child, flush=True)
while True: signal.pause()
"""


@pytest.fixture
def real_python(stage):
    return str(Path(sys.prefix) / "bin" / "python")


def test_a_stubborn_group_is_killed_whole(real_python):
    with subprocess.Popen([real_python, "-c", FAMILY], start_new_session=True, stdout=subprocess.PIPE) as leader:
        child = int(leader.stdout.readline())
        watch = os.pidfd_open(child)
        assert process.stop(leader.pid, process.started(leader.pid), 0.2)
        assert select.select([watch], [], [], 10)[0]
        os.close(watch)


def test_a_polite_one_ends_at_once(real_python, stage):
    pid = process.spawn([real_python, *SLEEP], os.environ, stage / "log")
    assert process.ended(pid, 0.0) is None
    assert process.stop(pid, process.started(pid), 30.0)
    assert process.started(pid) is None
    assert not process.stop(pid, 1, 1.0)


def test_how_a_child_ended(real_python, stage):
    pid = process.spawn([real_python, "-c", "print('out'); raise SystemExit('err')"], os.environ, stage / "a" / "log")
    assert process.ended(pid, 30.0) == 1
    assert (stage / "a" / "log").read_text() == "out\nerr\n"
    pid = process.spawn([real_python, *SLEEP], os.environ, stage / "log")
    os.kill(pid, signal.SIGKILL)
    assert process.ended(pid, 30.0) == -9


def test_taken_ports_are_passed_over():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        if port < 65000:
            assert server.free_port(port, {port + 1}) >= port + 2
    with pytest.raises(ConfigError, match="no free port"):
        server.free_port(65535, {65535})


def test_the_environment_of_a_server():
    ours = {"PATH": "/bin", "PYTHONPATH": "x", "VIRTUAL_ENV": "y", "VLLM_CPU_KVCACHE_SPACE": "4"}
    assert "VLLM_CPU_KVCACHE_SPACE" not in server.environment(ours, 3, ["--kv-cache-memory-bytes", "1000"])
    theirs = server.environment(ours, 3, ["--seed", "1"])
    assert theirs["VLLM_CPU_KVCACHE_SPACE"] == "4"
    assert theirs["VLLM_CPU_OMP_THREADS_BIND"] == "3"
    assert theirs["HF_HUB_OFFLINE"] == "1"
    assert theirs.keys().isdisjoint({"PYTHONPATH", "VIRTUAL_ENV"})


@pytest.mark.parametrize(
    ("log", "hint"),
    [
        ("OSError: Address already in use", "port is taken"),
        ("ValueError: max_num_seqs (32) exceeds", "--max-num-seqs"),
        ("No available memory for the cache blocks", "VLLM_CPU_KVCACHE_SPACE"),
        ("something else", ""),
    ],
)
def test_hints(log, hint):
    assert hint in server._hint(log)
    assert bool(server._hint(log)) == bool(hint)


def test_deaths_by_signal_are_named():
    assert server._ending(-9) == "signal 9"
