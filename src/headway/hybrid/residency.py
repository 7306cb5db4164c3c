"""What a plan means for a coordinator: how many trajectories to keep live, how much of each cache to count on.

A coordinator counts whole trajectories and their tokens, not slots and blocks: a slot is not a trajectory.
"""

import msgspec

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


def capacity_of(plan: Plan) -> Capacity:
    """The capacity of an engine that was started as planned.

    The last block of each context is half empty on average, so that much is taken off the tokens.
    """
    held = plan.largest_concurrency or plan.state_slots // plan.slots_per_running_request or 1
    states = held if plan.state_bytes_per_sequence else None
    if not plan.kv_bytes_per_token:
        return Capacity(plan.reference_concurrency, None, states)
    waste = held * plan.block_tokens // 2 if plan.block_tokens > 1 else 0
    return Capacity(plan.reference_concurrency, Tokens(max(plan.block_tokens, plan.kv_tokens - waste)), states)
