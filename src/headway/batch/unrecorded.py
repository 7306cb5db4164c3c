"""A batch without a journal: nothing survives the process."""

from collections.abc import Sequence

from headway.core.commands import Command
from headway.core.facts import Fact
from headway.core.units import TrajectoryId


class Unrecorded:
    """Satisfies the journal's port and remembers nothing."""

    def append(self, fact: Fact, commands: Sequence[Command]) -> None:
        """Forget it."""

    def keep(self, trajectory: TrajectoryId, result: bytes) -> None:
        """Forget it."""

    async def durable(self) -> None:
        """At once."""

    async def close(self) -> None:
        """Nothing to let go of."""
