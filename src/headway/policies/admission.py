"""How many trajectories may be live at once."""

from dataclasses import dataclass

from headway.core.policy import Admission
from headway.core.world import Trajectory, World

OVER = 1.3
"""Admit this much more than fits in the caches: some trajectories are always about to end."""

UNKNOWN_ENGINE = 64
"""Live trajectories per engine, beside one for each slot, where an engine says nothing of its cache."""

AHEAD = 4
"""Turns of growth to leave room for."""


@dataclass(frozen=True, slots=True)
class Unlimited(Admission):
    """Everybody at once; a limit on live trajectories and coupled slots still hold."""

    def admits(self, trajectory: Trajectory, world: World) -> bool:  # noqa: ARG002 - the protocol's signature
        """Always."""
        return True


@dataclass(frozen=True, slots=True)
class WithinMemory(Admission):
    """As many as the engines' caches should hold, a little over.

    n + 1 <= 1.3 S and sum(context + 4 g) + prompt <= 1.3 T over all engines, where S counts recurrent states, T KV
    tokens, and g is the growth of a context per turn. One is always let in.
    """

    def admits(self, trajectory: Trajectory, world: World) -> bool:
        """Does one more fit?"""
        live = world.live + 1
        if live == 1:
            return True
        engines = world.engines.values()
        states = [e.state_slots for e in engines if e.state_slots is not None]
        tokens = [e.kv_tokens for e in engines if e.kv_tokens is not None]
        if max(len(states), len(tokens)) < len(engines):
            return live <= UNKNOWN_ENGINE * len(engines) + sum(e.slots for e in world.environments.values())
        if states and live > OVER * sum(states):
            return False
        need = world.live_tokens + trajectory.prompt + AHEAD * world.expected_growth() * live
        return not tokens or need <= OVER * sum(tokens)
