"""One tree of errors. The class says whose fault it is, the message what to do next.

::

    HeadwayError
    |- ConfigError      yours: a setting, a flag, a file. Exit code 2.
    |- BoundaryError    outside: an engine, an environment, a disk. Exit code 1.
    |  |- EngineError
    |  |- SandboxError
    |  `- JournalError
    `- BugError         ours: please report it.
"""

from typing import Literal

FailureKind = Literal[
    "lost",  # the engine or slot went away: it did not happen, or its answer is gone
    "overloaded",  # the engine asked us to come back later (429, 503)
    "timeout",  # no answer within the service time allowed
    "invalid",  # the engine refused the request itself (400, 404, 422): trying again is useless
    "auth",  # the engine refused us (401, 403)
    "error",  # the environment, or the engine in an unknown way, reported an error
]


class HeadwayError(Exception):
    """Base of everything that Headway raises on purpose."""


class ConfigError(HeadwayError):
    """Something you wrote can't be used as it is: what, where, and what to do.

    Args:
        what: one sentence on what is wrong.
        where: file and line, flag or key; empty when obvious.
        hint: what to do about it; empty when obvious.
    """

    def __init__(self, what: str, *, where: str = "", hint: str = "") -> None:
        super().__init__(": ".join(p for p in (where, what) if p) + (f" ({hint})" if hint else ""))
        self.what, self.where, self.hint = what, where, hint


class BoundaryError(HeadwayError):
    """Something outside did not do what it should."""


class EngineError(BoundaryError):
    """A turn got no answer. ``kind`` decides whether trying again makes sense; ``retry_after`` in nanoseconds."""

    def __init__(self, message: str, *, kind: FailureKind, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.kind, self.retry_after = kind, retry_after


class SandboxError(BoundaryError):
    """An environment could not run an action. ``lost``: the place died under it, elsewhere it may work."""

    def __init__(self, message: str, *, lost: bool = False) -> None:
        super().__init__(message)
        self.lost = lost


class JournalError(BoundaryError):
    """A journal can't be written."""


class Rejected(HeadwayError):  # noqa: N818 - it is an answer, not an error of anyone
    """A turn, action or sample that the batch will never run; the reason says why."""


class BugError(HeadwayError):
    """Headway broke one of its own rules. Please report it with the journal."""


class RefusedFact(HeadwayError):  # noqa: N818 - it names what happened to the fact
    """A driver reported something that can't be true, or is no longer: nothing was changed."""


def sole(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The error that a group of task groups is about: the first of ours in it, else the only one, else the group."""
    leaves: list[BaseException] = []
    todo: list[BaseException] = [group]
    while todo:
        error = todo.pop(0)
        if isinstance(error, BaseExceptionGroup):
            todo = [*error.exceptions, *todo]
        else:
            leaves.append(error)
    ours = [leaf for leaf in leaves if isinstance(leaf, HeadwayError)]
    if ours:
        return ours[0]
    return leaves[0] if len(leaves) == 1 else group
