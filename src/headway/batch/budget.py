"""How long a sample may be served, queues excluded."""

from collections.abc import Iterator
from contextlib import contextmanager

import anyio


class ServiceBudget:
    """How long a sample may be served. Waiting in a queue, for an engine or a slot, costs nothing.

    The clock stands still as long as any of the sample's requests is in a queue, so where streams run side by side a
    sample may be served for longer than its budget, but never for less.
    """

    def __init__(self, seconds: float) -> None:
        self.scope = anyio.CancelScope()
        self._left = seconds
        self._since: float | None = None
        self._queued = 0

    @contextmanager
    def spending(self) -> Iterator[None]:
        """Run the agent; cancelled when the budget is spent (``scope.cancelled_caught`` tells)."""
        with self.scope:
            self.count(0)
            yield

    @contextmanager
    def request(self) -> Iterator["Request"]:
        """Count one request of the agent's as queued, until it starts to be served."""
        request = Request(self)
        request.stop()
        try:
            yield request
        finally:
            request.end()

    def count(self, queued: int) -> None:
        """So many requests more are in a queue (fewer, where negative)."""
        now = anyio.current_time()
        if self._since is not None:
            self._left -= now - self._since
        self._queued += queued
        self._since = None if self._queued else now
        self.scope.deadline = float("inf") if self._queued else now + max(0.0, self._left)


class Request:
    """One request of an agent's: queued, served, perhaps queued again."""

    def __init__(self, budget: ServiceBudget) -> None:
        self._budget, self._queued, self._over = budget, False, False

    def start(self) -> None:
        """It is being served. Idempotent."""
        if self._queued:
            self._queued = False
            self._budget.count(-1)

    def stop(self) -> None:
        """It waits in a queue. Idempotent."""
        if not (self._queued or self._over):
            self._queued = True
            self._budget.count(1)

    def end(self) -> None:
        """The agent wants it no more; whoever still serves it is not listened to."""
        self.start()
        self._over = True
