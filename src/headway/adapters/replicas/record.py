"""The replicas that run on this machine, remembered in one JSON file across commands."""

from pathlib import Path

import msgspec

from headway.adapters.replicas import process
from headway.adapters.replicas.places import state


class Replica(msgspec.Struct, frozen=True):
    """One engine that Headway started here. ``start``: its process's start time in clock ticks since boot."""

    url: str
    pid: int
    start: int
    model: str
    directory: str
    core: int
    log: str
    extra_args: tuple[str, ...] = ()

    @property
    def alive(self) -> bool:
        """Does the very process still run?"""
        return process.alive(self.pid, self.start)

    def like(self, directory: Path, extra_args: tuple[str, ...]) -> bool:
        """Would starting with these settings give an equal replica?"""
        return self.directory == str(directory) and self.extra_args == extra_args


def _file() -> Path:
    return state() / "replicas.json"


def load() -> list[Replica]:
    """Return those that are alive. An unreadable file counts as empty: what it said can't be used."""
    try:
        known = msgspec.json.decode(_file().read_bytes(), type=list[Replica])
    except (OSError, msgspec.DecodeError):
        return []
    return [r for r in known if r.alive]


def save(replicas: list[Replica]) -> None:
    """Replace the file at once."""
    _file().parent.mkdir(parents=True, exist_ok=True)
    draft = _file().with_suffix(".new")
    draft.write_bytes(msgspec.json.format(msgspec.json.encode(replicas)))
    draft.replace(_file())
