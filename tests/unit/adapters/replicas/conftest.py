"""A Python that plays the engine's environment: makes itself, installs, makes models, serves `/health`."""

import os
import stat
import sys
from pathlib import Path

import pytest

from headway.adapters.replicas import down

PLAYER = """
import http.server, os, pathlib, shutil, sys

def fail(name):
    if os.environ.get("FAIL") == name:
        print("ordinary line"); print(name + " went wrong", file=sys.stderr)
        sys.exit(3)

def venv(root):
    fail("venv")
    root = pathlib.Path(root)
    (root / "bin").mkdir(parents=True, exist_ok=True)
    (root / "lib" / "python3.11" / "site-packages").mkdir(parents=True)
    shutil.copy(os.environ["PLAYED_PYTHON"], root / "bin" / "python")

def pip(args):
    with open(os.environ["PIP_LOG"], "a") as log: log.write(" ".join(args) + "\\n")
    if "--extra-index-url" not in args: fail("pip")
    fail("pip always")

def serve(args):
    if "--die" in args:
        print("error: unrecognized arguments: --die", flush=True)
        sys.exit(2)
    class Health(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200 if self.path == "/health" else 404)
            self.send_header("Content-Length", "0"); self.end_headers()
        def log_message(self, *args): pass
    print(os.environ["VLLM_CPU_OMP_THREADS_BIND"], " ".join(args), flush=True)
    if "--hang" in args: import signal; signal.pause()
    http.server.HTTPServer(("127.0.0.1", int(args[args.index("--port") + 1])), Health).serve_forever()

match sys.argv[1:]:
    case ["-m", "venv", root]: venv(root)
    case ["-m", "pip", *args]: pip(args)
    case ["-m", "vllm.entrypoints.openai.api_server", *args]: serve(args)
    case ["-I", "-c", _]: fail("check")
    case ["-I", script, model, directory]:
        fail("model")
        pathlib.Path(directory).mkdir(parents=True)
        (pathlib.Path(directory) / "config.json").write_text(model)
    case other: sys.exit(f"not in the play: {other}")
"""


@pytest.fixture
def stage(tmp_path, monkeypatch):
    """Homes of our own, and the played Python in place of the real one."""
    player, python = tmp_path / "player.py", tmp_path / "python"
    player.write_text(PLAYER)
    python.write_text(f'#!/bin/sh\nexec {sys.executable} {player} "$@"\n')
    python.chmod(python.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("PLAYED_PYTHON", str(python))
    monkeypatch.setenv("PIP_LOG", str(tmp_path / "pip.log"))
    monkeypatch.setattr(sys, "executable", str(python))
    yield tmp_path
    down()


@pytest.fixture
def pip_log(stage):
    log = Path(os.environ["PIP_LOG"])
    return lambda: log.read_text().splitlines() if log.exists() else []
