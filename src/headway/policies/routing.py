"""Which engine takes a stream's next turn."""

from dataclasses import dataclass

from headway.core.policy import Routing
from headway.core.world import EngineState, Stream, World


@dataclass(frozen=True, slots=True)
class RoundRobin(Routing):
    """Each turn to the next engine, blind to caches: what a plain load balancer does."""

    def choose(self, stream: Stream, world: World) -> EngineState:
        """The place in the batch plus the turn, modulo the engines."""
        engines = list(world.engines.values())
        return engines[(stream.trajectory.index + stream.turn) % len(engines)]


@dataclass(frozen=True, slots=True)
class LeastLoaded(Routing):
    """Each turn to the engine that runs the fewest, blind to caches."""

    def choose(self, stream: Stream, world: World) -> EngineState:  # noqa: ARG002 - the protocol's signature
        """Fewest running turns, then least reserved memory, then the first to join."""
        return min(world.engines.values(), key=lambda e: (e.running, e.active, e.place))


@dataclass(frozen=True, slots=True)
class Sticky(Routing):
    """A home for life: the engine that fewest streams call theirs when the first turn comes."""

    def choose(self, stream: Stream, world: World) -> EngineState:
        """The home if there is one; it changes only when the engine is lost."""
        if stream.engine is not None:
            return stream.engine
        return min(world.engines.values(), key=lambda e: (e.homed, e.running, e.place))
