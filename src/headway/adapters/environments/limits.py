"""What a command may use, and what came of it."""

from collections.abc import Sequence

import msgspec

from headway.core.units import Bytes
from headway.errors import ConfigError

Command = str | Sequence[str]
"""A shell line, or a program and its arguments."""

MIB = 1024 * 1024


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What one command of a sandbox may use.

    ``seconds``: wall-clock time. ``memory``: private memory of each of its processes. ``processes``: processes
    and threads at once. ``file``: size of each file it writes. ``output``: what is kept of each of its two output
    streams; the rest is read and thrown away. Raises: ``ConfigError`` for a limit that is not positive.
    """

    seconds: float = 600.0
    memory: Bytes = Bytes(2048 * MIB)
    processes: int = 128
    file: Bytes = Bytes(1024 * MIB)
    output: Bytes = Bytes(MIB)

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if not getattr(self, name) > 0:
                raise ConfigError(f"must be greater than zero, not {getattr(self, name)}", where=f"limit {name}")


class Completed(msgspec.Struct, frozen=True):
    """A command that is over.

    ``exit_code`` is None when it was killed at its time limit, 128 + n when signal n killed it. ``truncated``:
    it printed more than was kept. ``seconds`` runs from the start of its process to the death of its last one.
    """

    exit_code: int | None
    stdout: str
    stderr: str
    timed_out: bool
    truncated: bool
    seconds: float


def words(command: Command) -> list[str]:
    """Turn a command into a program and its arguments; a line goes to the shell."""
    return ["/bin/sh", "-c", command] if isinstance(command, str) else list(command)
