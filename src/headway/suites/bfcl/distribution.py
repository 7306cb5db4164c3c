"""Where the benchmark itself comes from: the ``bfcl-eval`` wheel, without the two gigabytes it depends on.

The multi-turn data, the API simulators and their checker import nothing outside the standard library but
``mpmath``. So these two wheels, pinned by hash, go into a cache folder, and are found there when they are needed.
"""

import importlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headway.errors import BoundaryError, ConfigError

VERSION = "2026.3.23"
_PINS = (
    f"bfcl-eval=={VERSION} --hash=sha256:3bb6dfa5f0c68ad403c9ec50b00db2bb3b4cc9b38ab1ff33f48fe30d853d3a0a",
    "mpmath==1.3.0 --hash=sha256:a0b2b9fe80bbcd81a6647ff13108738cfb482d481d826cc0e02f5b35e5c88d2c",
)
_PACKAGE = "bfcl_eval"


def cache_folder() -> Path:
    """Where this version lives: below ``$XDG_CACHE_HOME``, or ``~/.cache``."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "headway" / f"bfcl-{VERSION}"


def installed() -> bool:
    """Whether the benchmark is in the cache."""
    return (cache_folder() / _PACKAGE / "__init__.py").is_file()


def install() -> Path:
    """Put the benchmark into the cache if it is not there; return the folder.

    Needs pip (or uv) and, the first time, a package index; both read their usual configuration.
    Raises: ``ConfigError`` without pip and uv, ``BoundaryError`` when they fail or a hash does not match.
    """
    target = cache_folder()
    if installed():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="bfcl-") as scratch:
        pins = Path(scratch) / "pins.txt"
        pins.write_text("\n".join(_PINS) + "\n", encoding="utf-8")
        fresh = Path(scratch) / "fresh"
        _fetch([*_client(), "--target", str(fresh), "--no-deps", "--require-hashes", "-r", str(pins)])
        shutil.rmtree(fresh / "bin", ignore_errors=True)  # programs that would need the other dependencies
        try:
            fresh.rename(target)
        except OSError as problem:
            if not installed():  # else somebody else was faster, with the same bytes
                raise BoundaryError(f"can't write {target}: {problem.strerror}; delete it and try again") from problem
    return target


def activate() -> Path:
    """Make ``bfcl_eval`` importable from the cache, installing it first if need be; return the cache folder.

    The pinned version wins over one that happens to be installed; ``mpmath`` of the environment wins over ours.
    """
    folder = install()
    if _PACKAGE not in sys.modules:
        package = folder / _PACKAGE
        spec = importlib.util.spec_from_file_location(
            _PACKAGE, package / "__init__.py", submodule_search_locations=[str(package)]
        )
        if spec is None or spec.loader is None:
            raise BoundaryError(f"{package} is damaged: delete {folder} and try again")
        module = importlib.util.module_from_spec(spec)
        sys.modules[_PACKAGE] = module
        spec.loader.exec_module(module)
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
    return folder


def official(name: str) -> Any:  # noqa: ANN401 - untyped code of others
    """Import a module of the benchmark by its name below ``bfcl_eval``."""
    activate()
    return importlib.import_module(f"{_PACKAGE}.{name}")


def _client() -> list[str]:
    options = ["install", "--quiet", "--only-binary", ":all:"]
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip", *options, "--no-compile", "--disable-pip-version-check"]
    uv = shutil.which("uv")
    if uv is not None:
        return [uv, "pip", *options, "--python", sys.executable]
    raise ConfigError(
        "there is neither pip nor uv to fetch the benchmark with",
        where="suite bfcl",
        hint="python -m ensurepip, or put uv on the PATH",
    )


def _fetch(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        cause = next((line for line in lines if line.startswith(("ERROR:", "error:"))), lines[-1] if lines else "?")
        raise BoundaryError(f"can't fetch bfcl-eval {VERSION}: {cause}")
