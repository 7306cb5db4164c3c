import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from headway.core.commands import GrantAction
from headway.core.units import MAIN, EnvironmentId, TrajectoryId


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def base() -> Iterator[Path]:
    """Where a sandbox keeps its folders: a place that other users can pass through. Nothing may stay in it."""
    folder = Path(tempfile.mkdtemp(prefix="environments-"))
    folder.chmod(0o755)
    yield folder
    left = list(folder.iterdir())
    shutil.rmtree(folder)
    assert left == []


@pytest.fixture
def grant():
    def make(trajectory: str = "a", action: int = 0, *, create: bool = False, attempt: int = 1) -> GrantAction:
        return GrantAction(
            trajectory=TrajectoryId(trajectory),
            stream=MAIN,
            action=action,
            attempt=attempt,
            environment=EnvironmentId("bash"),
            create=create,
        )

    return make


@pytest.fixture
def processes():
    """Pids of all processes whose command line holds a word."""

    def find(word: str) -> list[int]:
        found = []
        for entry in os.scandir("/proc"):
            try:
                if entry.name.isdecimal() and word.encode() in Path(entry.path, "cmdline").read_bytes():
                    found.append(int(entry.name))
            except (FileNotFoundError, ProcessLookupError):
                continue
        return found

    return find
