"""Which engine takes a stream's next turn."""

from dataclasses import dataclass
from hashlib import blake2b

from headway.core.policy import Routing
from headway.core.units import SECOND
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


PREFILL = 10_000.0
"""Prompt tokens that an engine is taken to compute per second."""


@dataclass(frozen=True, slots=True)
class CostAwareSticky(Sticky):
    """A home for life, unless waiting there costs far more than computing the context anew elsewhere.

    The wait is the mean turn so far, as often as turns must end at home before this one fits; the recompute is weighted
    by ``weight``, since it slows down every neighbour there.
    """

    weight: float = 40.0

    def choose(self, stream: Stream, world: World) -> EngineState:
        """The home; or the engine that runs fewest of those that could start the turn at once, if that pays."""
        home = stream.engine
        if home is None:
            return Sticky.choose(self, stream, world)
        need = stream.prompt + world.expected_output(stream)
        ahead = _turns_ahead(home, need)
        if not ahead or not world.answered:
            return home
        wait = ahead * world.served / world.answered / SECOND
        if wait <= self.weight * stream.prompt / PREFILL:
            return home
        free = [engine for engine in world.engines.values() if not _turns_ahead(engine, need)]
        return min(free, key=lambda e: (e.running, e.place), default=home)


def _turns_ahead(engine: EngineState, need: int) -> float:
    """How many running turns must end before one that needs so many tokens can start."""
    places = 0 if engine.max_running is None else max(0, engine.running + 1 - engine.max_running)
    if engine.kv_tokens is None or not engine.running:
        return places
    over = engine.active + need - engine.kv_tokens
    return max(places, over * engine.running / engine.active) if over > 0 else places


@dataclass(frozen=True, slots=True)
class HashedHome(Routing):
    """A home by rendezvous hashing: the engine whose hash with the name is largest; a lost engine moves only its own.

    ``by_group``: members of a group share it, and so their first prompt.
    """

    by_group: bool = False

    def choose(self, stream: Stream, world: World) -> EngineState:
        """The same engine for the same name, whatever the load, as long as it lives."""
        trajectory = stream.trajectory
        shared = self.by_group and trajectory.group.id is not None
        name = trajectory.group.id if shared else trajectory.id
        return max(world.engines.values(), key=lambda e: (blake2b(f"{name}@{e.id}".encode()).digest(), -e.place))
