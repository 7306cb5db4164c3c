"""Where local replicas keep their things, and the lock that keeps two of us from making them at once."""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

Announce = Callable[[str], None]
"""Takes one line for a person to read."""


def cache() -> Path:
    """What can be made again: the engine's Python environment and its models."""
    return _home("XDG_CACHE_HOME", ".cache")


def state() -> Path:
    """What must be remembered: which replicas run, and their logs."""
    return _home("XDG_STATE_HOME", ".local/state")


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock on ``path`` against every other process of this machine; waits as long as it takes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _home(variable: str, default: str) -> Path:
    named = Path(os.environ.get(variable, ""))
    return (named if named.is_absolute() else Path.home() / default) / "headway"
