"""ThunderAgent (arXiv 2602.13692): programs are paused and resumed so that their contexts fit into the caches.

Published: a capacity in tokens per engine; every 5 s, while an engine is over it, the smallest program that acts is
paused, or else the smallest that reasons is marked to pause at the end of its turn; paused programs are resumed
smallest first as far as they fit; new ones go where fewest tokens are active, if they fit, or wait. Guessed: the
capacity is the whole cache. A paused program is resumed as soon as it fits instead of at the next tick, which can only
help it, on the engine that was emptiest when it asked ("largest first on the emptiest" places several at once). A tick
is the first fact after 5 s.
"""

from dataclasses import dataclass, replace

from headway.core.facts import Fact
from headway.core.policy import Admission, Observer, Policies, Residency, Routing
from headway.core.units import SECOND, EngineId
from headway.core.world import UNLIMITED, EngineState, Stream, Trajectory, Use, World
from headway.policies.priority import Fifo, SmallestContextFirst

TICK = 5 * SECOND


class Pausing(Residency, Observer):
    """Within capacity after every tick, perhaps above it between them."""

    def __init__(self) -> None:
        self._over: set[EngineId] = set()
        self._next = TICK

    def observe(self, fact: Fact, world: World) -> None:
        """See at each tick which engines are over their capacity: they pause until they are not."""
        if fact.at >= self._next:
            self._over = {engine.id for engine in world.engines.values() if _free(engine) < 0}
            self._next = fact.at + TICK

    def room(self, engine: EngineState) -> int:
        """What is free."""
        return _free(engine)

    def crowded(self, engine: EngineState) -> bool:
        """Over its capacity since the last tick."""
        return engine.id in self._over and _free(engine) < 0

    def victim(self, engine: EngineState) -> Stream:
        """The smallest that acts."""
        acting = (kept for kept in engine.kept if kept.use is Use.IDLE)
        return min(acting, key=lambda kept: kept.tokens).stream


@dataclass(frozen=True, slots=True)
class WhereItFits(Admission):
    """A program is new until some engine has room for its prompt."""

    def admits(self, trajectory: Trajectory, world: World) -> bool:
        """Does it fit beside what is active, those just let in included?"""
        if not world.live:
            return True
        total = sum(UNLIMITED if e.kv_tokens is None else e.kv_tokens for e in world.engines.values())
        return world.live_tokens + trajectory.prompt <= total


@dataclass(frozen=True, slots=True)
class FewestActiveTokens(Routing):
    """New and resumed programs go where fewest tokens are active; those that act stay where their context is."""

    def choose(self, stream: Stream, world: World) -> EngineState:
        """The home of a resident stream, else the emptiest engine."""
        if stream.engine is not None and stream.resident:
            return stream.engine
        return min(world.engines.values(), key=lambda e: (e.active + e.idle, e.homed, e.place))


def _free(engine: EngineState) -> int:
    return UNLIMITED if engine.kv_tokens is None else engine.kv_tokens - engine.active - engine.idle


def _begin(policies: Policies, world: World) -> Policies:  # noqa: ARG001 - nothing of the past matters
    pausing = Pausing()
    return replace(policies, residency=pausing, observers=(pausing,))


THUNDERAGENT = Policies(
    "thunderagent",
    WhereItFits(),
    Fifo(),
    SmallestContextFirst(),
    FewestActiveTokens(),
    Pausing(),
    acting=Fifo(),
    begin=_begin,
)
