"""How much may live in one engine's cache at once."""

from dataclasses import dataclass

from headway.core.policy import Residency
from headway.core.world import UNLIMITED, EngineState, Stream


@dataclass(frozen=True, slots=True)
class Uncontrolled(Residency):
    """Whatever comes: the engine evicts as it likes."""

    def room(self, engine: EngineState) -> int:  # noqa: ARG002 - the protocol's signature
        """No end of it."""
        return UNLIMITED

    def crowded(self, engine: EngineState) -> bool:  # noqa: ARG002 - the protocol's signature
        """Never."""
        return False

    def worth(self, stream: Stream, score: float) -> float:  # noqa: ARG002 - the protocol's signature
        """The more urgent its trajectory, the more."""
        return -score


@dataclass(frozen=True, slots=True)
class WithinCache(Residency):
    """Running turns and the idle contexts of live trajectories together stay within the cache.

    ``headroom`` is the share of KV tokens left free for growth that was not foreseen when somebody new comes in.
    """

    headroom: float = 0.08

    def room(self, engine: EngineState) -> int:
        """What is free but for the headroom, if one more recurrent state is."""
        if engine.state_slots is not None and engine.held >= engine.state_slots:
            return -1
        kv = engine.kv_tokens
        return UNLIMITED if kv is None else int(kv - self.headroom * kv) - engine.active - engine.idle

    def crowded(self, engine: EngineState) -> bool:
        """More tokens or states than the engine has."""
        if engine.state_slots is not None and engine.held > engine.state_slots:
            return True
        return engine.kv_tokens is not None and engine.active + engine.idle > engine.kv_tokens

    def worth(self, stream: Stream, score: float) -> float:  # noqa: ARG002 - the protocol's signature
        """The more urgent its trajectory, the more."""
        return -score
