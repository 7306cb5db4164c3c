"""Believed capacity: what an engine said it holds, or was planned to hold, until facts say less.

Three facts say that a cache holds less than was believed: a turn did not find what should have been there, the engine
preempted somebody, or it reports that its cache is full. Each shrinks the believed share of that engine's capacity at
once, and then not again until as many turns have ended there as it held: whoever was evicted by the same mistake says
the same. Every turn that finds what it should lets the share grow a little, up to 1: never above the plan. Thrash does
not end by itself, so shrinking must be fast; a share that is too small costs little, so growing may be slow.

A miss counts only where the cache was more than half full by what is believed: prompts that change at their beginning
find nothing in any cache, and no capacity would help them.
"""

from dataclasses import replace

from headway.core.facts import EngineLost, EngineSampled, Fact, TurnFinished
from headway.core.policy import Observer, Policies, Residency
from headway.core.units import EngineId
from headway.core.world import EngineState, Stream, Use, World
from headway.policies.residency import WithinCache

SHRINK = 0.8
GROW = 0.02
"""By how much the share grows while as many turns end as the engine holds."""

LEAST = 0.3
FULL = 0.97
"""Usage from which an engine counts as full."""

_QUIET = 4
"""Turns at least that must end between two cuts."""


class Believed(Residency, Observer):
    """`WithinCache`, with the capacity that is believed at the moment."""

    def __init__(self, within: WithinCache) -> None:
        self._within = within
        self._shares: dict[EngineId, float] = {}
        self._quiet: dict[EngineId, int] = {}

    def share(self, engine: EngineId) -> float:
        """The share of an engine's capacity that is believed in, at most 1."""
        return self._shares.get(engine, 1.0)

    # -- residency --------------------------------------------------------------------------------------------

    def room(self, engine: EngineState) -> int:
        """As `WithinCache`, within the believed share."""
        return self._within.room(engine, self.share(engine.id))

    def crowded(self, engine: EngineState) -> bool:
        """As `WithinCache`, within the believed share."""
        return self._within.crowded(engine, self.share(engine.id))

    # -- facts ------------------------------------------------------------------------------------------------

    def observe(self, fact: Fact, world: World) -> None:
        """Learn from turns that ended and from what engines say of themselves."""
        match fact:
            case TurnFinished():
                stream = world.trajectories[fact.trajectory].streams[fact.stream]
                assert stream.engine is not None  # noqa: S101 - a turn that ended had a home
                self._turn(fact, stream, stream.engine)
            case EngineSampled():
                engine = world.engines[fact.engine]
                if _overrun(fact, engine.sample):
                    self._shrink(engine)
            case EngineLost():
                self._shares.pop(fact.engine, None)
                self._quiet.pop(fact.engine, None)
            case _:
                pass

    def _turn(self, fact: TurnFinished, stream: Stream, engine: EngineState) -> None:
        self._quiet[engine.id] = self._quiet.get(engine.id, 0) - 1
        kept = stream.kept
        if fact.cached_tokens is None or kept is None or kept.use is not Use.TAKEN or stream.tries > 1:
            return
        expected = min(stream.context, fact.prompt_tokens)
        if _missed(fact.cached_tokens, expected, engine):
            if fact.prompt_tokens >= stream.context and _half_full(engine, self.share(engine.id)):
                self._shrink(engine)
        elif engine.id in self._shares:
            share = self._shares[engine.id] + GROW / max(1, engine.held)
            self._shares[engine.id] = min(1.0, share)

    def _shrink(self, engine: EngineState) -> None:
        if self._quiet.get(engine.id, 0) <= 0:
            self._shares[engine.id] = max(LEAST, self.share(engine.id) * SHRINK)
            self._quiet[engine.id] = max(_QUIET, engine.held)


def _missed(cached: int, expected: int, engine: EngineState) -> bool:
    """Less than half of it was there, and more than blocks and an answer's end would explain."""
    return cached < expected / 2 and expected - cached > 2 * engine.block_tokens


def _half_full(engine: EngineState, share: float) -> bool:
    states, kv = engine.state_slots, engine.kv_tokens
    if states is not None and engine.held + engine.stale_states > share * states / 2:
        return True
    return kv is not None and engine.active + engine.idle + engine.stale > share * kv / 2


def _overrun(now: EngineSampled, before: EngineSampled | None) -> bool:
    """It preempted somebody since it was last asked, or its cache is full while somebody waits."""
    earlier = None if before is None else before.preemptions
    if earlier is not None and now.preemptions is not None and now.preemptions > earlier:
        return True
    return now.kv_usage is not None and now.kv_usage >= FULL and bool(now.waiting)


def corrected(policies: Policies) -> Policies:
    """The same policies; where they keep within caches, what is believed of those is corrected by facts."""
    before = policies.begin

    def begin(own: Policies, world: World) -> Policies:
        begun = own if before is None else before(own, world)
        if not isinstance(begun.residency, WithinCache):
            return begun
        believed = Believed(begun.residency)
        return replace(begun, residency=believed, observers=(*begun.observers, believed))

    return replace(policies, begin=begin)
