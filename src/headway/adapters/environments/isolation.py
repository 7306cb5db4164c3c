"""Two ways to fence a command in: a bubblewrap sandbox, or rlimits under a supervisor.

Both start the command in a session of its own, in the private folder, with nothing of our environment, and both
end it so that nothing of it is left when ``stop`` returns. They know nothing of trajectories or slots.
"""

import os
import shutil
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import anyio
import anyio.abc
import msgspec

from headway.adapters.environments.limits import Limits

_PATIENCE = 2.0  # seconds for a killed process to be gone before its whole group is shot
_HIDDEN = ("/home", "/root", "/run", "/media", "/mnt", "/srv", "/var/tmp")  # noqa: S108 - hidden, not used
_TMP, _SHM = "/tmp", "/dev/shm"  # noqa: S108 - covered by private folders
_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_SUPERVISOR = Path(__file__).with_name("supervisor.py")

# The shell stays the first process of the sandbox's pid namespace: when it ends, the kernel ends all the others
# before anyone outside learns of it. Memory in KiB, files in blocks of 512 bytes; dash and bash differ on processes.
_INSIDE = """ulimit -c 0; ulimit -d "$1"; ulimit -f "$2"; { ulimit -u "$3" || ulimit -p "$3"; } 2>/dev/null
shift 3; "$@"; exit $?"""


class Room(msgspec.Struct, frozen=True):
    """The private folders of one instance. ``user``: who runs there when we are root, else None (we do)."""

    folder: Path
    user: int | None = None

    @property
    def work(self) -> Path:
        """Where commands run and keep files between them; the same path inside and outside."""
        return self.folder / "work"

    @property
    def scratch(self) -> Path:
        """What is ``/tmp`` inside."""
        return self.folder / "tmp"

    @property
    def shared(self) -> Path:
        """What is ``/dev/shm`` inside."""
        return self.folder / "shm"

    def make(self) -> None:
        """Create the folders, for this user's eyes only."""
        for path in (self.folder, self.work, self.scratch, self.shared):
            path.mkdir(mode=0o700)
            if self.user is not None:
                os.chown(path, self.user, self.user)


class Isolation(Protocol):
    """How a command is fenced in."""

    missing: str
    """What this way can't keep a command from doing, for the warning; empty when nothing."""

    def argv(self, room: Room, command: Sequence[str], limits: Limits, *, network: bool) -> list[str]:
        """Wrap a command."""
        ...

    def environment(self, room: Room) -> dict[str, str]:
        """The variables that a command starts with."""
        ...

    def user(self, room: Room) -> int | None:
        """Whom to become before the wrapped command starts; None: nobody else."""
        ...

    async def stop(self, process: anyio.abc.Process) -> None:
        """End the process and everything under it; return when they are gone. Idempotent."""
        ...


class Bubblewrap:
    """Namespaces of its own for every command: no network, no other process, a read-only root.

    Args:
        program: path of ``bwrap``.
        base: the folder that holds all private folders; hidden but for the command's own.
        readable: paths to show, read-only, although they lie in a hidden place.
    """

    missing = ""

    def __init__(self, program: str, base: Path, readable: Sequence[Path] = ()) -> None:
        self._program, self._base, self._readable = program, base, readable

    def argv(self, room: Room, command: Sequence[str], limits: Limits, *, network: bool) -> list[str]:
        """Build the ``bwrap`` command line around a command."""
        hidden = [path for path in (*_HIDDEN, str(self._base)) if _is_real_folder(path)]
        return [
            *(self._program, "--unshare-all", *(["--share-net"] if network else [])),
            *("--die-with-parent", "--new-session", "--as-pid-1", "--ro-bind", "/", "/"),
            *("--proc", "/proc", "--dev", "/dev", "--bind", str(room.shared), _SHM),
            *_each("--tmpfs", [path for path in hidden if not _below(_TMP, path)]),
            *("--bind", str(room.scratch), _TMP),
            *_each("--tmpfs", [path for path in hidden if path != _TMP and _below(_TMP, path)]),
            *(part for path in self._readable for part in ("--ro-bind", str(path), str(path))),
            *("--bind", str(room.work), str(room.work)),
            *_each("--remount-ro", ["/dev", *(path for path in hidden if path != _TMP)]),
            *("--chdir", str(room.work), "--", "/bin/sh", "-c", _INSIDE, "sandbox"),
            *(str(limits.memory // 1024), str(-(-limits.file // 512)), str(limits.processes + 1)),
            *command,
        ]

    def environment(self, room: Room) -> dict[str, str]:
        """A bare environment whose home is the work folder."""
        return _bare(room, _TMP)

    def user(self, room: Room) -> int | None:
        """The room's own user: root's sandboxes could ignore the limit on processes."""
        return room.user

    async def stop(self, process: anyio.abc.Process) -> None:
        """Kill the first process of the namespace, and wait for the one that waits for it."""
        if process.returncode is not None:
            return
        inside = _children(process.pid)
        for pid in inside:
            _signal(pid, signal.SIGKILL)
        await _see_off(process, patience=_PATIENCE if inside else 0.0)


class Rlimits:
    """Limits on resources, a session and a reaper of its own; no fence around files and network."""

    missing = "commands can see the network, other processes and every file that their user can read"

    def argv(self, room: Room, command: Sequence[str], limits: Limits, *, network: bool) -> list[str]:  # noqa: ARG002 - it can't be cut off here
        """Put the supervisor in front of a command."""
        return [
            *(sys.executable, "-I", "-S", str(_SUPERVISOR), str(os.getpid())),
            *(str(limits.memory), str(limits.file), str(limits.processes)),
            *("-" if room.user is None else str(room.user), *command),
        ]

    def environment(self, room: Room) -> dict[str, str]:
        """A bare environment whose home is the work folder."""
        return _bare(room, str(room.scratch))

    def user(self, room: Room) -> int | None:  # noqa: ARG002 - the supervisor changes it for the command alone
        """Nobody else: the supervisor must outrank its command."""
        return None

    async def stop(self, process: anyio.abc.Process) -> None:
        """Tell the supervisor to kill the tree, and wait for it."""
        if process.returncode is not None:
            return
        _signal(process.pid, signal.SIGTERM)
        await _see_off(process, patience=_PATIENCE)


def find_bubblewrap() -> str | None:
    """Path of ``bwrap``, None where it is not installed."""
    return shutil.which("bwrap")


async def _see_off(process: anyio.abc.Process, *, patience: float) -> None:
    with anyio.move_on_after(patience):
        await process.wait()
        return
    with suppress(ProcessLookupError):  # it may have gone by itself, just now
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()


def _signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):  # what should end may have ended
        os.kill(pid, number)


def _children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii").split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def _bare(room: Room, scratch: str) -> dict[str, str]:
    return {
        "PATH": _visible_path(),
        "HOME": str(room.work),
        "TMPDIR": scratch,
        "LANG": "C.UTF-8",
    }


def _visible_path() -> str:
    """Our search path without the places that are hidden inside."""
    entries = os.environ.get("PATH", "").split(":")
    seen = [entry for entry in entries if entry.startswith("/") and not any(_below(top, entry) for top in _HIDDEN)]
    return ":".join(seen) or _SYSTEM_PATH


def _is_real_folder(path: str) -> bool:
    return os.path.isdir(path) and not os.path.islink(path)


def _below(top: str, path: str) -> bool:
    return os.path.commonpath((top, path)) == top


def _each(flag: str, paths: Sequence[str]) -> list[str]:
    return [part for path in paths for part in (flag, path)]
