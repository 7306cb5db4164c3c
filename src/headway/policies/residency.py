"""How much may live in one engine's cache at once."""

from dataclasses import dataclass

from headway.core.policy import Residency
from headway.core.world import EngineState


@dataclass(frozen=True, slots=True)
class Uncontrolled(Residency):
    """Whatever comes: the engine evicts as it likes."""

    def fits(self, engine: EngineState, need: int) -> bool:  # noqa: ARG002 - the protocol's signature
        """Always."""
        return True

    def crowded(self, engine: EngineState) -> bool:  # noqa: ARG002 - the protocol's signature
        """Never."""
        return False


@dataclass(frozen=True, slots=True)
class WithinCache(Residency):
    """Running turns and the idle contexts of live trajectories together stay within the cache.

    ``headroom`` is the share of KV tokens left free for growth that was not foreseen when somebody new comes in.
    """

    headroom: float = 0.08

    def fits(self, engine: EngineState, need: int) -> bool:
        """Room for ``need`` more tokens, and for one more recurrent state."""
        if engine.state_slots is not None and engine.held >= engine.state_slots:
            return False
        kv = engine.kv_tokens
        return kv is None or engine.active + engine.idle + need + self.headroom * kv <= kv

    def crowded(self, engine: EngineState) -> bool:
        """More tokens or states than the engine has."""
        if engine.state_slots is not None and engine.held > engine.state_slots:
            return True
        return engine.kv_tokens is not None and engine.active + engine.idle > engine.kv_tokens
