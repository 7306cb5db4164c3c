"""Writing a journal: one owner, one thread that commits in groups."""

import math
import os
import sqlite3
import threading
from collections.abc import Sequence
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import anyio
import anyio.to_thread

from headway.core.commands import Command
from headway.core.facts import Fact
from headway.core.units import TrajectoryId
from headway.errors import ConfigError, JournalError
from headway.journal.format import (
    MAGIC,
    SCHEMA,
    SUFFIX,
    Header,
    connect_writer,
    damaged,
    encode,
    header_of,
    look,
    plainly,
    write_ahead,
)
from headway.journal.ownership import disown, own

_GROUP = 2048  # rows that are worth a commit of their own
_LINGER = 0.02  # seconds that rows wait for company while nobody waits for them
_CLOSE_LIMIT = 60.0  # seconds for the last commit


def open_new(path: str | os.PathLike[str], header: Header) -> "FileJournal":
    """Start a journal where there is none yet. Raises: ``ConfigError``."""
    file = Path(path)
    if file.suffix != SUFFIX:
        raise ConfigError(f"a journal's name ends in {SUFFIX}", where=str(file))
    with ExitStack() as stack:
        owner = own(file)
        stack.callback(disown, file, owner)
        if file.exists():
            raise ConfigError(
                "exists already", where=str(file), hint="resume it, or choose another name for this batch"
            )
        with plainly(file):
            connection = stack.enter_context(closing(connect_writer(file)))
            connection.executescript(SCHEMA)
            connection.execute("INSERT INTO header VALUES (?, ?)", (MAGIC, encode(header).decode()))
            connection.execute("COMMIT")
            write_ahead(connection)
        stack.pop_all()
    return FileJournal(file, header, connection, owner, 0)


def open_resume(path: str | os.PathLike[str]) -> "FileJournal":
    """Go on with a journal; its :attr:`FileJournal.header` says with what. Raises: ``ConfigError``."""
    file = Path(path)
    look(file)
    with ExitStack() as stack:
        owner = own(file)
        stack.callback(disown, file, owner)
        with plainly(file):
            connection = stack.enter_context(closing(connect_writer(file)))
            header = header_of(file, connection)
            write_ahead(connection)
            (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            if verdict != "ok":
                raise damaged(file, str(verdict).replace("\n", " "))
            (last,) = connection.execute("SELECT coalesce(max(seq), 0) FROM facts").fetchone()
        stack.pop_all()
    return FileJournal(file, header, connection, owner, last)


class FileJournal:
    """A journal open for writing, from :func:`open_new` or :func:`open_resume`; a :class:`headway.ports.Journal`.

    Any thread may record. ``durable`` and ``close`` are for coroutines (asyncio or trio), ``flush`` and ``shut`` are
    the same for code without a loop. After a failed write every call raises ``JournalError``; what was durable stays.
    """

    def __init__(self, path: Path, header: Header, connection: sqlite3.Connection, lock: int, last: int) -> None:
        self.path, self.header = path, header
        self._connection, self._owner, self._seq = connection, lock, last
        self._lock = threading.Lock()
        self._work, self._done = threading.Condition(self._lock), threading.Condition(self._lock)
        self._facts: list[tuple[int, bytes, bytes | None]] = []
        self._results: list[tuple[int, TrajectoryId, bytes]] = []
        self._recorded = self._written = self._waiting = 0
        self._closing = self._closed = False
        self._failure: str | None = None
        self._leader, self._limiter = anyio.Lock(), anyio.CapacityLimiter(math.inf)
        self._thread = threading.Thread(target=self._write, name=f"journal {path.name}", daemon=True)
        self._thread.start()

    @property
    def backlog(self) -> int:
        """Rows that were recorded and are not durable yet; a driver faster than its disk waits when it is large."""
        return self._recorded - self._written

    def append(self, fact: Fact, commands: Sequence[Command]) -> None:
        """Record a fact and what it caused; returns at once. Raises: ``JournalError``."""
        text, caused = encode(fact), encode(commands) if commands else None
        with self._lock:
            self._check()
            self._seq += 1
            self._facts.append((self._seq, text, caused))
            self._recorded += 1
            if len(self._facts) in {1, _GROUP}:
                self._work.notify()

    def keep(self, trajectory: TrajectoryId, result: bytes) -> None:
        """Record a sample's result; a later one of the same sample replaces it. Raises: ``JournalError``."""
        with self._lock:
            self._check()
            self._results.append((self._seq, trajectory, result))
            self._recorded += 1
            self._work.notify()

    async def durable(self) -> None:
        """Return when everything recorded before the call is on disk. Raises: ``JournalError``."""
        target = self._recorded
        if self._written >= target:
            return
        async with self._leader:  # one of many waits in a thread, the others ride along
            if self._written < target:
                await anyio.to_thread.run_sync(self.flush, target, limiter=self._limiter, abandon_on_cancel=True)

    def flush(self, target: int | None = None) -> None:
        """Block until the first ``target`` rows (default: all) are on disk. Raises: ``JournalError``."""
        with self._lock:
            target = self._recorded if target is None else target
            self._waiting += 1
            self._work.notify()
            while self._written < target and self._failure is None:
                self._done.wait()
            self._waiting -= 1
            if self._written < target:
                self._check()

    async def close(self) -> None:
        """Make everything durable and let go of the file; cancellation waits. Raises: ``JournalError``."""
        with anyio.move_on_after(_CLOSE_LIMIT, shield=True) as scope:
            await anyio.to_thread.run_sync(self.shut, limiter=self._limiter, abandon_on_cancel=True)
        if scope.cancelled_caught:
            raise JournalError(f"{self.path}: the disk took no write for {_CLOSE_LIMIT:.0f} s")

    def shut(self) -> None:
        """``close`` for code without a loop. Idempotent."""
        with self._lock:
            if self._closed:
                return
            self._closing = self._closed = True
            self._work.notify()
        self._thread.join()
        with suppress(sqlite3.Error):  # a reader looks on: the file stays in two parts, which is as good
            self._connection.execute("PRAGMA busy_timeout = 0")
            self._connection.execute("PRAGMA journal_mode = DELETE")
        self._connection.close()
        disown(self.path, self._owner)
        if self._failure is not None:
            self._check()

    def _check(self) -> None:
        if self._failure is not None:
            raise JournalError(f"{self.path}: {self._failure}")
        if self._closed:
            raise JournalError(f"{self.path}: is closed")

    # -- the writer's thread --------------------------------------------------------------------------------

    def _write(self) -> None:
        failure: str | None = "the writer died"
        try:
            while self._commit_group():
                pass
            failure = None
        except sqlite3.Error as error:
            failure = f"can't be written ({error}): free some space, then resume; what was acknowledged is safe"
        finally:
            with self._lock:
                self._failure = failure
                self._done.notify_all()

    def _commit_group(self) -> bool:
        with self._lock:
            while not (self._facts or self._results or self._closing):
                self._work.wait()
            if not (self._waiting or self._closing or len(self._facts) >= _GROUP):
                self._work.wait(_LINGER)
            facts, self._facts = self._facts, []
            kept, self._results = self._results, []
        if not (facts or kept):
            return False
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany("INSERT INTO facts VALUES (?, CAST(? AS TEXT), CAST(? AS TEXT))", facts)
        connection.executemany("INSERT OR REPLACE INTO results (after, trajectory, result) VALUES (?, ?, ?)", kept)
        connection.execute("COMMIT")
        with self._lock:
            self._written += len(facts) + len(kept)
            self._done.notify_all()
        return True
