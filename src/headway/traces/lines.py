"""Traces as JSON lines: the header first, then a trajectory a line. Packed with gzip where the name ends in ``.gz``."""

import gzip
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, cast

import msgspec

from headway.errors import ConfigError
from headway.traces.format import Recorded, Trace

_header = msgspec.json.Decoder(Trace).decode
_trajectory = msgspec.json.Decoder(Recorded).decode
_encode = msgspec.json.Encoder().encode

LONGEST = 1 << 30
"""Bytes of one line. More is no line of a trace, and must not fill the memory."""


def head(file: Path) -> Trace:
    """Read the header. Raises: ``ConfigError`` where it can't be read; ``msgspec.MsgspecError`` where it is none."""
    with _opened(file) as stream:
        return _header(_line(file, stream))


def trajectories(file: Path) -> Iterator[tuple[str, Recorded]]:
    """Read the trajectories, each with where it stands. Raises: ``ConfigError``."""
    with _opened(file) as stream:
        _line(file, stream)
        number = 1
        while line := _line(file, stream):
            number += 1
            if line.isspace():
                continue
            where = f"{file}, line {number}"
            try:
                yield where, _trajectory(line)
            except msgspec.MsgspecError as error:
                cut = not line.endswith(b"\n")
                hint = "the file was cut off: make it again" if cut else "make it again, or delete this line"
                raise ConfigError(f"is no trajectory: {error}", where=where, hint=hint) from error


def write(file: Path, trajectories: Iterable[Recorded], header: Callable[[], Trace]) -> None:
    """Write a file; ``header`` is asked for when all trajectories are known, and yet stands first."""
    body = file.with_name("body")
    with body.open("wb") as stream:
        for trajectory in trajectories:
            stream.write(_encode(trajectory) + b"\n")
    with body.open("rb") as stream, gzip.open(file, "wb", 6) if file.suffix == ".gz" else file.open("wb") as out:
        out.write(_encode(header()) + b"\n")
        shutil.copyfileobj(stream, out, 1 << 20)
    body.unlink()


def _line(file: Path, stream: IO[bytes]) -> bytes:
    try:
        return stream.readline(LONGEST)
    except (EOFError, gzip.BadGzipFile, OSError) as error:
        raise ConfigError(f"is damaged: {error}", where=str(file), hint="make it again") from error


def _opened(file: Path) -> IO[bytes]:
    try:
        return cast("IO[bytes]", gzip.open(file, "rb")) if file.suffix == ".gz" else file.open("rb")
    except OSError as error:
        raise ConfigError(f"can't be read: {error.strerror}", where=str(file)) from error


def is_ours(file: Path) -> bool:
    """Does the first line at least call itself a trace?"""
    with _opened(file) as stream:
        return b'"headway-trace"' in _line(file, stream)[: 1 << 16]
