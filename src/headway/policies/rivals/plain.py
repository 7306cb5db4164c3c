"""What needs no paper: today's harnesses, and routers without a scheduler behind them.

``coupled-fifo`` holds a slot from admission to finish. ``static-N`` lets N live and decouples. ``sticky-least-loaded``
and ``consistent-hash`` are how common routers keep a session on one engine; they admit everybody and control no cache.
"""

from dataclasses import dataclass

from headway.core.policy import Policies, Routing
from headway.core.world import EngineState, Stream, World
from headway.policies.admission import Unlimited
from headway.policies.priority import Fifo
from headway.policies.residency import Uncontrolled
from headway.policies.routing import HashedHome, Sticky


@dataclass(frozen=True, slots=True)
class StickyLeastLoaded(Routing):
    """A home for life: the engine with fewest tokens when the session's first turn comes."""

    def choose(self, stream: Stream, world: World) -> EngineState:
        """The home if there is one."""
        if stream.engine is not None:
            return stream.engine
        return min(world.engines.values(), key=lambda e: (e.active + e.idle, e.running, e.place))


def _plain(name: str, routing: Routing, *, coupled: bool = False) -> Policies:
    return Policies(name, Unlimited(), Fifo(), Fifo(), routing, Uncontrolled(), coupled=coupled)


COUPLED_FIFO = _plain("coupled-fifo", Sticky(), coupled=True)
STICKY_LEAST_LOADED = _plain("sticky-least-loaded", StickyLeastLoaded())
CONSISTENT_HASH = _plain("consistent-hash", HashedHome())


def static(limit: int) -> Policies:
    """At most ``limit`` live; the limit itself is the batch's."""
    return _plain(f"static-{limit}", Sticky())
