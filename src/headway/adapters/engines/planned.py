"""An engine that holds what a plan says, whatever it reports: the coordinator is to count on no more."""

from headway.core.commands import StartTurn
from headway.core.facts import EngineJoined, EngineSampled
from headway.core.units import EngineId, Nanos
from headway.hybrid.residency import Capacity
from headway.ports import Engine, TurnAnswer, TurnRequest


class Planned:
    """Another engine with the plan's capacity; it joins like this each time it comes back, too."""

    def __init__(self, engine: Engine, capacity: Capacity) -> None:
        self.engine, self.capacity = engine, capacity

    @property
    def id(self) -> EngineId:
        """The engine's own."""
        return self.engine.id

    async def join(self, at: Nanos) -> EngineJoined:
        """What it says of itself, but for its capacity. Raises: as the engine does."""
        return self.capacity.joined(await self.engine.join(at))

    async def turn(self, start: StartTurn, request: TurnRequest) -> TurnAnswer:
        """As the engine does it."""
        return await self.engine.turn(start, request)

    async def sample(self, at: Nanos) -> EngineSampled | None:
        """As the engine says."""
        return await self.engine.sample(at)

    async def close(self) -> None:
        """Let go of the engine."""
        await self.engine.close()
