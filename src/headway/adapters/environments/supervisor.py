"""Runs one command under rlimits and leaves nothing of it behind. A program of its own, not to be imported.

Arguments: the pid that must stay our parent, bytes of memory, bytes of a file, number of processes, user id or
``-``, then the command. It is started with ``python -I -S`` and must import nothing but the standard library.

The supervisor adopts every orphan below it (``PR_SET_CHILD_SUBREAPER``), so a command can't escape by forking
twice. It kills them all when the command is over, when it gets SIGTERM, and when its parent dies, of which the
kernel tells it by SIGTERM (``PR_SET_PDEATHSIG``). Exit status: the command's, or 128 + n for signal n.
"""

import ctypes
import os
import resource
import signal
import sys
import warnings  # noqa: F401 - os.execvp wants it when our own files may be out of reach for the new user

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 1, 36, 38
_CANNOT_RUN = 127


class _Stop(BaseException):
    pass


def _prctl(option: int, value: int) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl {option}")


def _children() -> list[int]:
    pid = os.getpid()
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as children:
        return [int(child) for child in children.read().split()]


def _kill_all() -> None:
    """Kill generation after generation: the children of a killed process become ours."""
    while children := _children():
        for child in children:
            os.kill(child, signal.SIGKILL)
        for child in children:
            os.waitpid(child, 0)


def _tasks(user: int) -> int:
    """Processes and threads of a user: the kernel counts them together, wherever they run."""
    total = 0
    for entry in os.scandir("/proc"):
        try:
            if entry.name.isdecimal() and entry.stat().st_uid == user:
                total += len(os.listdir(f"/proc/{entry.name}/task"))
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended while we counted
    return total


def _lower(what: int, value: int) -> None:
    hard = resource.getrlimit(what)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(what, (value, value))


def _run(command: list[str], memory: int, file: int, processes: int, user: int | None) -> None:
    """In the child: become the command. Never returns."""
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        os.setsid()
        if user is not None:
            os.setgroups([])
            os.setgid(user)
            os.setuid(user)
        _prctl(_PR_SET_NO_NEW_PRIVS, 1)  # or a set-user-id program could outrank us
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        _lower(resource.RLIMIT_CORE, 0)
        _lower(resource.RLIMIT_DATA, memory)
        _lower(resource.RLIMIT_FSIZE, file)
        _lower(resource.RLIMIT_NPROC, processes + (_tasks(os.getuid()) if user is None else 0))
        os.execvp(command[0], command)  # noqa: S606 - the whole point
    except OSError as problem:
        print(f"{command[0]}: {problem.strerror}", file=sys.stderr, flush=True)  # noqa: T201 - its standard error
    finally:
        os._exit(_CANNOT_RUN)


def _stop(number: int, frame: object) -> None:  # noqa: ARG001 - the signature of a signal handler
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise _Stop


def main() -> int:
    """Run the command that the arguments describe and return its exit status."""
    parent, memory, file, processes = (int(word) for word in sys.argv[1:5])
    user = None if sys.argv[5] == "-" else int(sys.argv[5])
    status = 128 + signal.SIGTERM
    signal.signal(signal.SIGTERM, _stop)
    try:
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)
        _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # it died before we asked to be told
            return status
        child = os.fork()
        if child == 0:
            _run(sys.argv[6:], memory, file, processes, user)
        os.close(1)  # so that the command alone holds its output open
        while True:
            pid, raw = os.wait()
            if pid == child:
                code = os.waitstatus_to_exitcode(raw)
                status = code if code >= 0 else 128 - code
                break
    except _Stop:
        pass  # the end is the same
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        _kill_all()
    return status


if __name__ == "__main__":
    sys.exit(main())
