"""Steering a batch from another process: a Unix socket beside the journal, one JSON line each way."""

import hashlib
import logging
import os
import stat
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Literal

import anyio
import msgspec
from anyio.abc import SocketListener, SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream

from headway.errors import ConfigError, HeadwayError

Verb = Literal["pause", "resume", "cancel", "slots", "concurrency"]

_LONGEST = 64 * 1024

_log = logging.getLogger(__name__)


class Order(msgspec.Struct, frozen=True):
    """What to do: ``cancel`` takes a sample's id, ``slots`` NAME=N, ``concurrency`` a number or "none"."""

    verb: Verb
    argument: str = ""


class Reply(msgspec.Struct, frozen=True):
    """``error`` is empty when the order was carried out."""

    error: str = ""


Obey = Callable[[Order], Awaitable[None]]
"""Carries out an order. Raises: ``HeadwayError`` with what is wrong with it."""


def socket_path(journal: Path) -> Path:
    """Where the batch of a journal listens: short enough for a socket, private to the user."""
    folder = Path(os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()) / f"headway-{os.getuid()}"
    return folder / f"{hashlib.sha256(str(journal.resolve()).encode()).hexdigest()[:24]}.sock"


@asynccontextmanager
async def listening(journal: Path, obey: Obey) -> AsyncIterator[None]:
    """Take orders while the block runs. The caller owns the journal, so a socket that is left over is nobody's.

    Where no socket can be made the block runs all the same, and a warning says why nobody can steer it.
    """
    path = socket_path(journal)
    listener = await _listener(path, journal)
    if listener is None:
        yield
        return

    async def answer(stream: SocketStream) -> None:
        async with stream:
            with suppress(anyio.BrokenResourceError, anyio.EndOfStream, anyio.IncompleteRead, anyio.DelimiterNotFound):
                line = await BufferedByteReceiveStream(stream).receive_until(b"\n", _LONGEST)
                await stream.send(msgspec.json.encode(await _carried_out(line, obey)) + b"\n")

    try:
        async with listener, anyio.create_task_group() as tasks:
            tasks.start_soon(listener.serve, answer)
            yield
            tasks.cancel_scope.cancel()
    finally:
        path.unlink(missing_ok=True)


async def _listener(path: Path, journal: Path) -> SocketListener | None:
    try:
        _make_way(path)
        return await anyio.create_unix_listener(path, mode=0o600)
    except OSError as error:
        _log.warning("%s can't be steered from outside: %s: %s", journal, path, error)
        return None


def _make_way(path: Path) -> None:
    """Others may write where temporary files are: a folder that they made is not ours. Raises: ``OSError``."""
    folder = path.parent
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise PermissionError(f"{folder} is not a private folder of yours")
    path.unlink(missing_ok=True)


async def _carried_out(line: bytes, obey: Obey) -> Reply:
    try:
        await obey(msgspec.json.decode(line, type=Order))
    except (HeadwayError, msgspec.MsgspecError) as error:
        return Reply(str(error))
    return Reply()


async def send(journal: Path, order: Order) -> None:
    """Send an order to the batch that writes ``journal``. Raises: ``ConfigError`` if none runs, or it refuses."""
    try:
        stream = await anyio.connect_unix(socket_path(journal))
    except OSError as error:
        raise ConfigError("no batch is running on this journal", where=str(journal)) from error
    async with stream:
        try:
            await stream.send(msgspec.json.encode(order) + b"\n")
            reply = msgspec.json.decode(
                await BufferedByteReceiveStream(stream).receive_until(b"\n", _LONGEST), type=Reply
            )
        except (anyio.BrokenResourceError, anyio.IncompleteRead, anyio.EndOfStream, msgspec.MsgspecError) as error:
            raise ConfigError("the batch ended before it answered", where=str(journal)) from error
    if reply.error:
        raise ConfigError(reply.error)
