"""A file of outcomes, so that a long comparison can be interrupted and goes on where it stopped.

One JSON object a line: a digest of everything that the batch was drawn from, and the outcome. An outcome
counts only for the very version of Headway that wrote it, since another one may decide otherwise.
"""

import os
from hashlib import sha256
from pathlib import Path

import msgspec

from headway.analysis.outcome import Outcome
from headway.errors import ConfigError
from headway.version import __version__


class _Line(msgspec.Struct, frozen=True):
    version: str
    source: str
    outcome: Outcome


class Kept:
    """What is known already. Raises: ``ConfigError`` for a file that holds something else."""

    def __init__(self, file: str | os.PathLike[str]) -> None:
        self._file = Path(file)
        self._known: dict[tuple[str, str, int], Outcome] = {}
        for number, text in enumerate(self._lines(), 1):
            try:
                line = msgspec.json.decode(text, type=_Line)
            except msgspec.MsgspecError as error:
                what = f"is not an outcome that was kept: {error}"
                hint = "name another file, or remove this line"
                raise ConfigError(what, where=f"{self._file}, line {number}", hint=hint) from error
            if line.version == __version__:
                self._known[line.source, line.outcome.policy, line.outcome.seed] = line.outcome

    def _lines(self) -> list[bytes]:
        """Whole lines; one that was cut short by a crash is cut off the file."""
        if not self._file.exists():
            return []
        try:
            content = self._file.read_bytes()
        except OSError as error:
            raise ConfigError(f"can't be read: {error.strerror}", where=str(self._file)) from error
        whole = content[: content.rfind(b"\n") + 1]
        if whole != content:
            self._file.write_bytes(whole)
        return whole.splitlines()

    def find(self, source: str, policy: str, seed: int) -> Outcome | None:
        """The outcome of one batch of a source (by its :func:`digest`) under one policy, if it was kept."""
        return self._known.get((source, policy, seed))

    def add(self, source: str, outcomes: list[Outcome]) -> None:
        """Keep outcomes of one source. Raises: ``ConfigError`` where the file can't be written."""
        lines = [msgspec.json.encode(_Line(__version__, source, outcome)) + b"\n" for outcome in outcomes]
        try:
            with self._file.open("ab") as file:
                file.write(b"".join(lines))
        except OSError as error:
            raise ConfigError(f"can't be written: {error.strerror}", where=str(self._file)) from error


def digest(source: object) -> str:
    """What tells a source of batches from every other: all that it is made of (frozen values print in full)."""
    return sha256(repr(source).encode()).hexdigest()[:20]
