"""What a journal's file looks like, and one clear line for each way in which a file can fail to be one."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from headway.core.commands import Command
from headway.core.facts import Fact
from headway.errors import ConfigError

SUFFIX = ".headway"
FORMAT = 1
APPLICATION_ID = 0x48647779  # "Hdwy"
MAGIC = "headway journal"
SCHEMA = f"""
BEGIN IMMEDIATE;
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {FORMAT};
CREATE TABLE header (magic TEXT NOT NULL, batch TEXT NOT NULL);
CREATE TABLE facts (seq INTEGER PRIMARY KEY, fact TEXT NOT NULL, commands TEXT);
CREATE TABLE results (id INTEGER PRIMARY KEY, after INTEGER NOT NULL, trajectory TEXT NOT NULL UNIQUE,
                      result BLOB NOT NULL);
"""

encode = msgspec.json.Encoder().encode
decode_fact = msgspec.json.Decoder(Fact).decode
decode_commands = msgspec.json.Decoder(list[Command]).decode


class Header(msgspec.Struct, frozen=True):
    """What the batch was started with: enough to resume it, and to reproduce it.

    ``settings`` holds no secret; ``source`` says where the samples come from; ``versions`` of what took part.
    """

    settings: dict[str, object]
    policy: str
    source: dict[str, object]
    versions: dict[str, str]


def look(file: Path) -> None:
    """Refuse what can't be a journal, without opening it: closing it would drop SQLite's locks."""
    try:
        size = file.stat().st_size
    except FileNotFoundError as error:
        raise ConfigError("there is no such journal", where=str(file)) from error
    except OSError as error:
        raise ConfigError(f"can't be read: {error.strerror}", where=str(file)) from error
    if not file.is_file():
        raise ConfigError(f"is not a file; a journal is one file, NAME{SUFFIX}", where=str(file))
    if not os.access(file, os.R_OK):
        raise ConfigError("may not be read by you", where=str(file), hint="see its permissions")
    if size == 0:
        raise ConfigError("is empty: its batch never began", where=str(file), hint="delete it")


def connect_writer(file: Path) -> sqlite3.Connection:
    """Open for writing, by any thread; waits for others up to a minute."""
    return sqlite3.connect(file, timeout=60, isolation_level=None, check_same_thread=False)


def write_ahead(connection: sqlite3.Connection) -> None:
    """Every commit survives a power cut, and readers don't disturb."""
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")


def connect_reader(file: Path) -> sqlite3.Connection:
    """Open for reading only."""
    return sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None)


def header_of(file: Path, connection: sqlite3.Connection) -> Header:
    """Read the header of an open journal. Raises: ``ConfigError`` where it is none, or not of this format."""
    (program,) = connection.execute("PRAGMA application_id").fetchone()
    if program != APPLICATION_ID:
        raise ConfigError("is an SQLite database, but not a Headway journal", where=str(file))
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version != FORMAT:
        raise ConfigError(
            f"is a journal of format {version}; this Headway reads format {FORMAT}",
            where=str(file),
            hint="use the version of Headway that wrote it",
        )
    _refuse_cut(file, connection)
    row = connection.execute("SELECT batch FROM header WHERE magic = ?", (MAGIC,)).fetchone()
    if row is None:
        raise damaged(file, "its header is missing")
    try:
        return msgspec.json.decode(row[0], type=Header)
    except msgspec.MsgspecError as error:
        raise damaged(file, f"its header: {error}") from error


def _refuse_cut(file: Path, connection: sqlite3.Connection) -> None:
    """Refuse a file that lost its end; while there is a write-ahead log, a part of it may be in there."""
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    (size,) = connection.execute("PRAGMA page_size").fetchone()
    log = file.with_name(file.name + "-wal")
    if log.exists() and log.stat().st_size:
        return
    if (lost := pages * size - file.stat().st_size) > 0:
        raise damaged(file, f"its last {lost} bytes are gone")


def damaged(file: Path, how: str) -> ConfigError:
    """Say that a journal can't be trusted any more."""
    return ConfigError(f"is damaged: {how}", where=str(file), hint="restore a copy, or start the batch again")


@contextmanager
def plainly(file: Path) -> Iterator[None]:
    """Turn SQLite's errors into one clear line about ``file``."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code == sqlite3.SQLITE_NOTADB:
            raise ConfigError("is not a Headway journal", where=str(file)) from error
        if code == sqlite3.SQLITE_CORRUPT:
            raise damaged(file, str(error)) from error
        raise ConfigError(f"can't be opened: {error}", where=str(file)) from error
