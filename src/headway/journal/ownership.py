"""Who may write a journal: the process that holds the lock file beside it. A dead process holds nothing."""

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from headway.errors import ConfigError


def owner(path: str | os.PathLike[str]) -> int | None:
    """Say which process writes this journal now; None: nobody does (0: somebody, but it did not say who)."""
    try:
        descriptor = os.open(_lock_path(Path(path)), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return int(os.read(descriptor, 32) or b"0")
    finally:
        os.close(descriptor)
    return None


def own(file: Path) -> int:
    """Become the only writer of ``file``; returns what :func:`disown` gives back. Raises: ``ConfigError``."""
    while True:
        try:
            descriptor = os.open(_lock_path(file), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise ConfigError(f"can't be written here: {error.strerror}", where=str(file)) from error
        if not _locked(descriptor):
            os.close(descriptor)
            if (pid := owner(file)) is not None:  # else somebody was only asking
                raise ConfigError(
                    f"is being written by process {pid or '(unknown)'}",
                    where=str(file),
                    hint="wait for it or stop it; reading is fine meanwhile",
                )
        elif _is_at(descriptor, _lock_path(file)):
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, str(os.getpid()).encode(), 0)
            return descriptor
        else:  # its last owner deleted it between our two steps
            os.close(descriptor)


def disown(file: Path, descriptor: int) -> None:
    """Let others write ``file``."""
    with suppress(OSError):
        _lock_path(file).unlink()
    os.close(descriptor)


def _lock_path(file: Path) -> Path:
    return file.parent / f"{file.name}-lock"


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
