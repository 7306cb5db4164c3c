"""Processes by identity: a pid together with its start time, which no recycled pid shares."""

import os
import select
import signal
from contextlib import suppress
from pathlib import Path

_GONE_STATES = ("Z", "X", "x")


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
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
    return True
