"""Runs one fenced-in command: time, output and death. It knows nothing of folders, instances or slots."""

import subprocess
import time
from collections.abc import Sequence

import anyio
import anyio.abc
import msgspec

from headway.adapters.environments.isolation import Isolation
from headway.adapters.environments.limits import Completed
from headway.core.units import Bytes
from headway.errors import SandboxError

_LAST_WORDS = 2.0  # seconds to read what a killed command had printed


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """A command ready to start, and its bounds. ``seconds`` of wall-clock time, ``output`` bytes per stream."""

    argv: Sequence[str]
    cwd: str
    env: dict[str, str]
    user: int | None
    seconds: float
    output: Bytes
    stdin: bytes = b""


class _Kept:
    """The first bytes of a stream; what comes after them is read and forgotten."""

    def __init__(self, room: int) -> None:
        self._room, self._bytes, self.truncated = room, bytearray(), False

    async def read(self, stream: anyio.abc.ByteReceiveStream | None) -> None:
        """Read to the end."""
        if stream is None:
            return
        async for chunk in stream:
            free = self._room - len(self._bytes)
            self._bytes += chunk[:free]
            self.truncated = self.truncated or len(chunk) > free

    @property
    def text(self) -> str:
        """What was kept; bytes that are no UTF-8 are replaced."""
        return self._bytes.decode(errors="replace")


async def run_to_end(launch: Launch, isolation: Isolation) -> Completed:
    """Run a command; when this returns or is cancelled, no process of it is left.

    Raises: ``SandboxError`` when it can't be started.
    """
    out, err = _Kept(launch.output), _Kept(launch.output)
    started = time.monotonic()
    process = await _start(launch)
    try:
        with anyio.move_on_after(launch.seconds) as limit:
            async with anyio.create_task_group() as streams:
                streams.start_soon(out.read, process.stdout)
                streams.start_soon(err.read, process.stderr)
                streams.start_soon(_feed, process.stdin, launch.stdin)
                await process.wait()
        if limit.cancelled_caught:
            with anyio.CancelScope(shield=True):
                await isolation.stop(process)
            with anyio.move_on_after(_LAST_WORDS):
                await out.read(process.stdout)
                await err.read(process.stderr)
    finally:
        with anyio.CancelScope(shield=True):
            await isolation.stop(process)
            await process.aclose()
    code = process.returncode
    return Completed(
        exit_code=None if limit.cancelled_caught or code is None else code if code >= 0 else 128 - code,
        stdout=out.text,
        stderr=err.text,
        timed_out=limit.cancelled_caught,
        truncated=out.truncated or err.truncated,
        seconds=time.monotonic() - started,
    )


async def _start(launch: Launch) -> anyio.abc.Process:
    try:
        with anyio.CancelScope(shield=True):  # half a start would leave a process that nobody knows
            process = await anyio.open_process(
                list(launch.argv),
                stdin=subprocess.PIPE if launch.stdin else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=launch.cwd,
                env=launch.env,
                start_new_session=True,
                user=launch.user,
                group=launch.user,
                extra_groups=None if launch.user is None else (),
            )
    except OSError as problem:
        raise SandboxError(f"can't start {launch.argv[0]}: {problem.strerror or problem}") from problem
    return process


async def _feed(stream: anyio.abc.ByteSendStream | None, data: bytes) -> None:
    if stream is None:
        return
    try:
        await stream.send(data)
        await stream.aclose()
    except anyio.BrokenResourceError:
        pass  # the command does not want to hear it all
