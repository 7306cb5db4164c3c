"""CONCUR (arXiv 2601.22705): a congestion window of active agents, as TCP has one of packets.

Published: with U the usage of the cache and H its hit rate, the window W grows by a constant while U is low, and is
multiplied by a factor below 1 when U is high and the hit rate low. Guessed: all constants, per engine and per report of
it, a window of 8 to start with, at least 1; and that an agent beyond a shrunken window loses its place in the order in
which the cache evicts, the next turn waiting for a place.
"""

from dataclasses import dataclass, field, replace

from headway.core.facts import EngineSampled, Fact, TurnFinished
from headway.core.policy import Observer, Policies, Residency
from headway.core.units import EngineId
from headway.core.world import UNLIMITED, EngineState, World
from headway.policies.admission import Unlimited
from headway.policies.priority import Fifo
from headway.policies.routing import Sticky

START = 8.0
LOW, HIGH = 0.7, 0.9
HIT = 0.8
ALPHA, BETA = 2.0, 0.5


@dataclass(slots=True)
class _Window:
    size: float = START
    cached: int = 0
    prompts: int = 0


@dataclass(slots=True)
class Windows(Residency, Observer):
    """One window per engine."""

    windows: dict[EngineId, _Window] = field(default_factory=dict[EngineId, _Window])

    def observe(self, fact: Fact, world: World) -> None:
        """Count hits of later turns; at each report of an engine move its window."""
        if isinstance(fact, TurnFinished):
            engine = world.trajectories[fact.trajectory].streams[fact.stream].engine
            if engine is not None and fact.turn and fact.cached_tokens is not None:
                window = self._of(engine)
                window.cached += fact.cached_tokens
                window.prompts += fact.prompt_tokens
        elif isinstance(fact, EngineSampled):
            engine = world.engines[fact.engine]
            self._adjust(self._of(engine), _usage(engine, fact))

    def _of(self, engine: EngineState) -> _Window:
        return self.windows.setdefault(engine.id, _Window())

    def _adjust(self, window: _Window, usage: float) -> None:
        hit = window.cached / window.prompts if window.prompts else 1.0
        if usage < LOW:
            window.size += ALPHA
        elif usage > HIGH and hit < HIT:
            window.size = max(1.0, window.size * BETA)
        window.cached = window.prompts = 0

    def room(self, engine: EngineState) -> int:
        """All of it, while the window is not full."""
        return -1 if engine.held + 1 > self._of(engine).size else UNLIMITED

    def crowded(self, engine: EngineState) -> bool:
        """More agents than the window holds."""
        return engine.held > self._of(engine).size


def _usage(engine: EngineState, report: EngineSampled) -> float:
    """The share of the cache that is in use, idle contexts included; as the engine says where its size isn't known."""
    if engine.kv_tokens is None:
        return report.kv_usage or 0.0
    return (engine.active + engine.idle) / engine.kv_tokens


def _begin(policies: Policies, world: World) -> Policies:  # noqa: ARG001 - nothing of the past matters
    windows = Windows()
    return replace(policies, residency=windows, observers=(windows,))


CONCUR = Policies("concur", Unlimited(), Fifo(), Fifo(), Sticky(), Windows(), begin=_begin)
