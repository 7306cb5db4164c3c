"""The wall clock as a port."""

import time

import anyio

from headway.core.units import SECOND, Nanos


class WallClock:
    """Real time since the batch began; a resumed batch goes on from where its journal ends."""

    def __init__(self, began_at: Nanos = Nanos(0)) -> None:
        self._zero = time.monotonic_ns() - began_at

    def now(self) -> Nanos:
        """Nanoseconds since the batch began, downtime excluded."""
        return Nanos(time.monotonic_ns() - self._zero)

    async def sleep_until(self, at: Nanos) -> None:
        """Return at ``at`` or at once if it is past."""
        await anyio.sleep(max(0, at - self.now()) / SECOND)
