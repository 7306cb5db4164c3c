"""Private folders on disk, named after the process that owns them.

A folder's name carries its owner's pid namespace, pid and start time. So whoever comes next can tell a folder
that is in use from one whose owner was killed, without a lock file and without trusting a pid that may have
been given to another process since.
"""

import os
import shutil
import stat
import tempfile
from pathlib import Path

_PREFIX = "headway"


def start_time(pid: int) -> int | None:
    """When the process started, in clock ticks since boot; None when there is no such process."""
    try:
        line = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The second field is the command in parentheses and may hold anything; the 22nd is the start time.
    return int(line.rpartition(")")[2].split()[19])


def claim(base: Path) -> Path:
    """Make a folder below ``base`` that this process owns; others may pass through it, not list it."""
    pid = os.getpid()
    folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}-{_namespace()}-{pid}-{start_time(pid)}-", dir=base))
    folder.chmod(0o711)
    return folder


def sweep(base: Path) -> list[Path]:
    """Remove the folders below ``base`` whose owner is gone; return them.

    Folders of other users, of other pid namespaces and of living owners stay.
    """
    left = [path for path in base.glob(f"{_PREFIX}-*") if _abandoned(path)]
    for path in left:
        remove(path)
    return left


def remove(folder: Path) -> None:
    """Delete a tree, also one whose folders forbid it. A tree that is not there is fine.

    Raises: ``OSError`` when something in it can't be deleted.
    """
    try:
        shutil.rmtree(folder)
    except FileNotFoundError:
        return
    except OSError:
        _open_up(folder)
        shutil.rmtree(folder)


def _open_up(folder: Path) -> None:
    for path, folders, _ in os.walk(folder):
        for name in folders:
            inner = os.path.join(path, name)
            if not os.path.islink(inner):
                os.chmod(inner, stat.S_IRWXU)


def _namespace() -> int:
    return os.stat("/proc/self/ns/pid").st_ino


def _abandoned(path: Path) -> bool:
    try:
        _, namespace, pid, started, _ = path.name.split("-", 4)
        owner = (int(namespace), int(pid), int(started))
        entry = path.lstat()
    except (ValueError, FileNotFoundError):
        return False  # not ours by name, or gone since
    if not stat.S_ISDIR(entry.st_mode) or entry.st_uid != os.geteuid() or owner[0] != _namespace():
        return False
    return start_time(owner[1]) != owner[2]
