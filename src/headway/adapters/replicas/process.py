"""Processes by identity: a pid together with its start time, which no recycled pid shares.

They outlive the command that started them, so nothing here owns one: each is spawned, watched by pid, ended by pid.
"""

import os
import select
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

_GONE_STATES = ("Z", "X", "x")


def spawn(command: Sequence[str], env: Mapping[str, str], log: Path) -> int:
    """Start a process in a session and group of its own, its output in ``log``; return its pid."""
    log.parent.mkdir(parents=True, exist_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    return os.posix_spawn(
        command[0],
        list(command),
        env,
        setsid=True,
        setsigdef=(signal.SIGPIPE,),  # Python ignores it, and children would inherit that
        file_actions=(
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(log), flags, 0o644),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ),
    )


def ended(pid: int, patience: float) -> int | None:
    """Wait up to ``patience`` seconds for a child of ours to end; its exit code (negative: signal), None: it runs."""
    watch = os.pidfd_open(pid)
    try:
        if not select.select([watch], [], [], patience)[0]:
            return None
    finally:
        os.close(watch)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def started(pid: int) -> int | None:
    """Start time of a living process in clock ticks since boot; None: there is none (a zombie is none)."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in _GONE_STATES else int(fields[19])


def alive(pid: int, start: int) -> bool:
    """Is it still the process that was started then?"""
    return started(pid) == start


def stop(pid: int, start: int, grace: float) -> bool:
    """End the process group led by ``pid``: politely, after ``grace`` seconds by force. False: it was gone.

    The group gets the final blow in any case, so that no child outlives its leader.
    """
    if not alive(pid, start):
        _reap(pid)
        return False
    with suppress(ProcessLookupError):
        watch = os.pidfd_open(pid)
        try:
            os.killpg(pid, signal.SIGTERM)
            select.select([watch], [], [], grace)
            os.killpg(pid, signal.SIGKILL)
            select.select([watch], [], [], grace)
        finally:
            os.close(watch)
    _reap(pid)
    return True


def _reap(pid: int) -> None:
    """Let go of a dead child, if it was one of ours."""
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
