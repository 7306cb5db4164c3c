"""Continuum (arXiv 2511.02230): first come, first served by program, and contexts pinned while a short tool runs.

Published: turns go by the first arrival of their program, those whose context is resident before others; the context is
pinned for a time to live of 2 s where the tool takes 2 s or less on average, and not at all otherwise. Guessed: pinned
contexts count as used, all others can be had by any turn that comes in.
"""

from dataclasses import dataclass, replace

from headway.core.facts import ActionFinished, Fact
from headway.core.policy import Observer, Policies, Residency
from headway.core.units import SECOND
from headway.core.world import UNLIMITED, EngineState, World
from headway.policies.admission import Unlimited
from headway.policies.priority import Fifo, FirstArrivalFirst
from headway.policies.routing import Sticky

TTL = 2 * SECOND


@dataclass(slots=True)
class Pinned(Residency, Observer):
    """Idle contexts count while tools are short. ``spent``: time of ``actions`` so far, in nanoseconds."""

    spent: int = 0
    actions: int = 0

    def observe(self, fact: Fact, world: World) -> None:  # noqa: ARG002 - the protocol's signature
        """Learn how long tools take."""
        if isinstance(fact, ActionFinished):
            self.spent += fact.service
            self.actions += 1

    def room(self, engine: EngineState) -> int:
        """What neither runs nor is pinned."""
        if engine.kv_tokens is None:
            return UNLIMITED
        pinned = engine.idle if self.spent <= TTL * self.actions else 0
        return engine.kv_tokens - engine.active - pinned

    def crowded(self, engine: EngineState) -> bool:
        """More than the cache holds."""
        return engine.kv_tokens is not None and engine.active + engine.idle > engine.kv_tokens


def _begin(policies: Policies, world: World) -> Policies:  # noqa: ARG001 - nothing of the past matters
    pinned = Pinned()
    return replace(policies, residency=pinned, observers=(pinned,))


CONTINUUM = Policies(
    "continuum", Unlimited(), Fifo(), FirstArrivalFirst(), Sticky(), Pinned(), acting=Fifo(), begin=_begin
)
