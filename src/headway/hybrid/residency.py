"""What a plan means for a coordinator: how many trajectories to keep live, how much of each cache to count on.

A coordinator counts whole trajectories and their tokens, not slots and blocks: a slot is not a trajectory.
"""

import msgspec

from headway.core.facts import EngineJoined
from headway.core.units import Tokens
from headway.hybrid.plan import Plan


class Capacity(msgspec.Struct, frozen=True):
    """Per engine. ``live``: the reference concurrency, None where the plan knows none.

    ``kv_tokens`` and ``states`` (trajectories that may have a state there, running or paused) are believed at first
    and never exceeded. None: not limited by the plan.
    """

    live: int | None
    kv_tokens: Tokens | None
    states: int | None

    def joined(self, fact: EngineJoined) -> EngineJoined:
        """An engine's own word, but for its capacity."""
        return msgspec.structs.replace(
            fact,
            kv_tokens=fact.kv_tokens if self.kv_tokens is None else self.kv_tokens,
            state_slots=fact.state_slots if self.states is None else self.states,
        )


def capacity_of(plan: Plan) -> Capacity:
    """The capacity of an engine that was started as planned.

    States go by what a trajectory holds on average: the reference concurrency has the margin for chance, and one is
    enough. The last block of each context is half empty on average, so that much is taken off the tokens.
    """
    states = None
    if plan.state_bytes_per_sequence:
        states = max(plan.largest_concurrency or 1, int(plan.state_slots / _slots_per_trajectory(plan)))
    if not plan.kv_bytes_per_token:
        return Capacity(plan.reference_concurrency, None, states)
    held = plan.largest_concurrency or states or 0
    waste = held * plan.block_tokens // 2 if plan.block_tokens > 1 else 0
    return Capacity(plan.reference_concurrency, Tokens(max(plan.block_tokens, plan.kv_tokens - waste)), states)


def _slots_per_trajectory(plan: Plan) -> float:
    """Between the one of a paused trajectory and those of a running one, as it divides its time; else the latter."""
    share = 1.0 if plan.prediction is None else plan.prediction.inference_share
    return 1 + (plan.slots_per_running_request - 1) * share
