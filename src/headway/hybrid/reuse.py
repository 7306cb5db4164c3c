"""What a resident trajectory still computes again each turn, by engine: the price of coarse checkpoints."""

from typing import assert_never

import msgspec

from headway.hybrid.engines import Engine
from headway.hybrid.geometry import Architecture
from headway.hybrid.llamacpp import LlamaCpp
from headway.hybrid.pools import Pools
from headway.hybrid.sglang import Sglang
from headway.hybrid.vllm import Vllm
from headway.hybrid.workload import Workload


class Reuse(msgspec.Struct, frozen=True):
    """Means over later turns: tokens computed again, share of the prompt cached, share of prefill that is repeated."""

    recomputed: float
    hit_rate: float
    recompute_share: float


def recomputed(engine: Engine, model: Architecture, pools: Pools, workload: Workload) -> float:
    """Tokens of a resident history that a turn computes again, on average over where the boundaries fall."""
    history = max(0.0, workload.context.mean)
    if not pools.caching:
        return history
    return min(history, _behind_checkpoint(engine, pools, workload.output.mean, hybrid=bool(model.recurrent())))


def _behind_checkpoint(engine: Engine, pools: Pools, output: float, *, hybrid: bool) -> float:
    match engine:
        case Sglang():
            return ((engine.grid if hybrid else engine.page_tokens) - 1) / 2
        case Vllm():
            prompt_end = (pools.token_grain + 1) / 2 + (output if hybrid else 0.0)
            return min(prompt_end, (engine.retention + 1) / 2) if hybrid and engine.retention else prompt_end
        case LlamaCpp():
            return output if hybrid else 1.0
        case _:
            assert_never(engine)


def reuse(again: float, workload: Workload) -> Reuse:
    """Hit rate and repeated work when each later turn computes ``again`` tokens of its history once more."""
    growth = workload.growth.mean
    prompt = workload.context.mean + growth
    fresh = growth + again
    return Reuse(
        recomputed=again,
        hit_rate=max(0.0, 1 - fresh / prompt) if prompt else 0.0,
        recompute_share=again / fresh if fresh else 0.0,
    )
