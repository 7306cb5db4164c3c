"""How much may live in one engine's cache at once."""

from dataclasses import dataclass

from headway.core.policy import Residency
from headway.core.world import UNLIMITED, EngineState


@dataclass(frozen=True, slots=True)
class Uncontrolled(Residency):
    """Whatever comes: the engine evicts as it likes."""

    def room(self, engine: EngineState) -> int:  # noqa: ARG002 - the protocol's signature
        """No end of it."""
        return UNLIMITED

    def crowded(self, engine: EngineState) -> bool:  # noqa: ARG002 - the protocol's signature
        """Never."""
        return False


@dataclass(frozen=True, slots=True)
class WithinCache(Residency):
    """Running turns and the idle contexts of live trajectories together stay within the cache.

    An engine evicts what was used least recently, so contexts of trajectories that are over stay longer than some that
    will be needed again. They count as well until whatever is older is gone, or the idle ones would be lost to them.

    ``headroom`` is the share of KV tokens left free for growth that was not foreseen when somebody new comes in.
    """

    headroom: float = 0.08

    def room(self, engine: EngineState, share: float = 1.0) -> int:
        """What is free but for the headroom, if one more recurrent state is; ``share``: of what the engine has."""
        if engine.state_slots is not None and engine.held + engine.stale_states >= _part(engine.state_slots, share):
            return -1
        if engine.kv_tokens is None:
            return UNLIMITED
        return int(share * (1 - self.headroom) * engine.kv_tokens) - engine.active - engine.idle - engine.stale

    def crowded(self, engine: EngineState, share: float = 1.0) -> bool:
        """More tokens or states than that share of what the engine has."""
        if engine.state_slots is not None and engine.held + engine.stale_states > _part(engine.state_slots, share):
            return True
        kv = engine.kv_tokens
        return kv is not None and engine.active + engine.idle + engine.stale > _part(kv, share)


def _part(whole: int, share: float) -> int:
    return max(1, int(share * whole))
