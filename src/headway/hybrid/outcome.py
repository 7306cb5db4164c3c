"""What a plan foretells, as values: the steady state, and what another choice would give."""

import msgspec

from headway.core.units import Tokens


class Prediction(msgspec.Struct, frozen=True):
    """The steady state at the reference concurrency, per engine. ``inference_share``: of a trajectory's time."""

    running: float
    inference_share: float
    turn_seconds: float
    turns_per_second: float
    output_tokens_per_second: float
    hit_rate: float
    recompute_share: float
    recomputed_per_turn: float


class Outcome(msgspec.Struct, frozen=True):
    """What another choice would give, beside the plan."""

    change: str
    state_slots: int
    kv_tokens: Tokens
    reference_concurrency: int
    output_tokens_per_second: float
