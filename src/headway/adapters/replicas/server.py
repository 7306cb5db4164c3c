"""One vLLM server as a process: how it is started, and how it shows that it is ready or dead."""

import os
import socket
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from headway.adapters.replicas import models, process, venv
from headway.adapters.replicas.record import Replica
from headway.errors import BoundaryError, ConfigError

HOST: Final = "127.0.0.1"
_PORTS = 200

FLAGS: Final = (
    *("--max-model-len", "8192"),
    *("--max-num-seqs", "32"),
    *("--scheduling-policy", "priority"),
    "--enforce-eager",
    "--enable-prefix-caching",
    "--enable-prompt-tokens-details",
    "--enable-per-request-metrics",
    "--enable-auto-tool-choice",
    *("--tool-call-parser", "hermes"),
    *("--structured-outputs-config", '{"backend":"xgrammar","disable_any_whitespace":true}'),
    "--disable-uvicorn-access-log",
)
"""Before the caller's own arguments, which win."""

_SPACE: Final = "VLLM_CPU_KVCACHE_SPACE"
_OURS = ("VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP")


class Starting:
    """A server between its start and its first healthy answer."""

    def __init__(self, replica: Replica) -> None:
        self.replica = replica

    def ready(self, patience: float) -> bool:
        """Wait up to ``patience`` seconds for news. Raises: ``BoundaryError`` when it died."""
        code = process.ended(self.replica.pid, patience)
        if code is None:
            return _healthy(self.replica.url)
        raise BoundaryError(f"{self.replica.url} died while starting ({_ending(code)}):\n{self.last_words()}")

    def last_words(self, count: int = 12) -> str:
        """Return the end of its log and where the rest is."""
        text = Path(self.replica.log).read_text("utf-8", "replace")
        tail = venv.last_lines(text, count) or "(it said nothing)"
        return f"{tail}\nThe whole log: {self.replica.log}{_hint(text)}"


def start(root: Path, model: str, directory: Path, port: int, core: int, args: Sequence[str], log: Path) -> Starting:
    """Start a server in a process group of its own, its threads bound to one core.

    ``model`` is one of ``models.MODELS`` or a path; the name it is served under is its last part.
    """
    command = [str(venv.python(root)), "-m", "vllm.entrypoints.openai.api_server", "--model", str(directory)]
    command += ["--served-model-name", Path(model).name, *FLAGS, *models.flags(model), *args]
    command += ["--host", HOST, "--port", str(port)]
    pid = process.spawn(command, environment(os.environ, core, args), log)
    began = process.started(pid) or 0
    url = f"http://{HOST}:{port}"
    return Starting(Replica(url, pid, began, Path(model).name, str(directory), core, str(log), tuple(args)))


def environment(ours: Mapping[str, str], core: int, args: Sequence[str] = ()) -> dict[str, str]:
    """Return the server's environment: ours without what leads Python astray. Settings of yours for vLLM win.

    A cache in bytes among the arguments wins over one in GiB in the environment, which vLLM would rather take.
    """
    theirs = {k: v for k, v in ours.items() if k not in _OURS}
    defaults = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", _SPACE: "1"}
    found = {**defaults, **theirs, "VLLM_CPU_OMP_THREADS_BIND": str(core)}
    if any(arg.partition("=")[0] == "--kv-cache-memory-bytes" for arg in args):
        del found[_SPACE]
    return found


def free_port(first: int, taken: set[int]) -> int:
    """Find the first port from ``first`` on that nobody listens on. Raises: ``ConfigError``."""
    for port in range(first, min(first + _PORTS, 65536)):
        if port not in taken and _bindable(port):
            return port
    raise ConfigError(f"no free port from {first} on", where="--port", hint="name another one")


def _bindable(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def _healthy(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=2.0) as answer:  # noqa: S310 - our own server
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _ending(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"


def _hint(log: str) -> str:
    """Name the usual cause where the log shows one."""
    for sign, hint in (
        ("address already in use", "the port is taken: name another one"),
        ("max_num_seqs", "--max-num-seqs must not exceed the number of blocks"),
        ("unrecognized arguments", "vLLM doesn't know one of the extra arguments"),
        ("No available memory", "set VLLM_CPU_KVCACHE_SPACE (GiB) to less, or free memory"),
        ("Cannot allocate memory", "set VLLM_CPU_KVCACHE_SPACE (GiB) to less, or free memory"),
    ):
        if sign.lower() in log.lower():
            return f"\nHint: {hint}"
    return ""
