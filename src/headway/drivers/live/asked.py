"""What agents have asked for and wait for."""

from dataclasses import dataclass, field
from typing import Protocol

import anyio

from headway.core.commands import GrantAction
from headway.ports import TurnAnswer, TurnRequest


class Service(Protocol):
    """Who wants to know when a turn is served, as opposed to waiting in a queue."""

    def start(self) -> None:
        """An engine has it."""
        ...

    def stop(self) -> None:
        """No engine has it any more: it is over, or waits again."""
        ...


@dataclass(slots=True, eq=False)
class AskedTurn:
    """A turn that an agent waits for. ``heard``: answers by attempt; the machine says which one counts."""

    request: TurnRequest
    service: Service | None
    done: anyio.Event = field(default_factory=anyio.Event)
    heard: dict[int, TurnAnswer] = field(default_factory=dict)
    answer: TurnAnswer | None = None
    failure: str | None = None


@dataclass(slots=True, eq=False)
class AskedAction:
    """An action that an agent waits for, or holds."""

    done: anyio.Event = field(default_factory=anyio.Event)
    grant: GrantAction | None = None
    failure: str | None = None


def deny(waiter: AskedTurn | AskedAction | None, reason: str) -> None:
    """Tell who waits, if anybody still does, that it will never come."""
    if waiter is not None:
        waiter.failure = reason
        waiter.done.set()
