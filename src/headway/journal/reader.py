"""Reading a journal, finished or still being written, in bounded memory."""

import os
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import msgspec

from headway.core.commands import Command
from headway.core.facts import Fact
from headway.core.units import TrajectoryId
from headway.journal.format import (
    Header,
    connect_reader,
    damaged,
    decode_commands,
    decode_fact,
    header_of,
    look,
    plainly,
)

_CHUNK = 1024  # rows that a reader holds at once


class Row(NamedTuple):
    """One fact with its place in the journal (from 1, without gaps) and the commands it caused."""

    seq: int
    fact: Fact
    commands: Sequence[Command]


class Recording(NamedTuple):
    """A journal as a reader sees it. ``rows`` streams: memory does not grow with the file."""

    header: Header
    rows: Iterator[Row]


def read(path: str | os.PathLike[str], *, after: int = 0) -> Recording:
    """Read what is durable so far, from the fact behind ``after``; also while the batch runs.

    Raises: ``ConfigError``, here or from ``rows`` where the file turns out to be damaged further on.
    """
    file = Path(path)
    look(file)
    with plainly(file), closing(connect_reader(file)) as connection:
        header = header_of(file, connection)
    return Recording(header, _rows(file, after))


def results(path: str | os.PathLike[str]) -> Iterator[tuple[TrajectoryId, bytes]]:
    """Read the results kept so far, in the order in which they were kept. Raises: ``ConfigError``."""
    file = Path(path)
    look(file)
    with plainly(file), closing(connect_reader(file)) as connection:
        header_of(file, connection)
        query = "SELECT id, trajectory, result FROM results WHERE id > ? ORDER BY id LIMIT 64"
        last = 0
        while chunk := connection.execute(query, (last,)).fetchall():
            for place, trajectory, result in chunk:
                if place <= last:  # seen in torn files: the same rows for ever
                    raise damaged(file, "its results are out of order")
                last = place
                yield TrajectoryId(trajectory), result


def _rows(file: Path, after: int) -> Iterator[Row]:
    query = f"SELECT seq, fact, commands FROM facts WHERE seq > ? ORDER BY seq LIMIT {_CHUNK}"  # noqa: S608
    with plainly(file), closing(connect_reader(file)) as connection:
        while chunk := connection.execute(query, (after,)).fetchall():
            for seq, fact, commands in chunk:
                after += 1
                if seq != after:
                    raise damaged(file, f"facts {after} to {seq - 1} are missing")
                try:
                    row = Row(seq, decode_fact(fact), decode_commands(commands) if commands else ())
                except msgspec.MsgspecError as error:
                    raise damaged(file, f"fact {seq}: {error}") from error
                yield row
