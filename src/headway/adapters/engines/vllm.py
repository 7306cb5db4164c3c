"""vLLM: what it says of itself, and how its one block pool becomes KV tokens and recurrent states."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from headway.adapters.engines.dialect import Geometry, Load, cached_by_usage, whole
from headway.adapters.engines.exposition import Exposition
from headway.adapters.engines.wire import Wire
from headway.core.units import MILLISECOND, Nanos, Tokens
from headway.errors import EngineError

STATE_SHARE = 3
"""One block in so many is set aside for recurrent states when a pool serves both."""

_USUAL_STATE_BLOCKS = 6  # three recurrent groups, two blocks each, where the engine does not tell


class Pool(msgspec.Struct, frozen=True):
    """The block pool of one engine, as ``vllm:cache_config_info`` describes it.

    ``concurrency`` is the engine's own figure: how many requests of ``max_context`` tokens the pool holds.
    """

    blocks: int
    block: int
    hybrid: bool
    max_context: int | None
    concurrency: float | None

    @property
    def state_blocks(self) -> int:
        """Blocks that the recurrent state of one running request takes, all layer groups together.

        What one longest request takes (blocks / concurrency) less its attention blocks.
        """
        if self.concurrency and self.max_context:
            rest = round(self.blocks / self.concurrency) - -(-self.max_context // self.block)
            return max(1, rest)
        return _USUAL_STATE_BLOCKS

    def split(self) -> tuple[int, int | None]:
        """Return KV tokens and recurrent states that are safe *together*.

        Attention only: every block but vLLM's null block holds KV. Hybrid: KV and states come from one pool, and
        which mix fits depends on the length of contexts. One third of the blocks is counted as states, each
        the price of a *running* request plus one block for the context's last, part-filled one; the rest
        as KV. Contexts twice as long as their states are then placed exactly; longer ones reach at least two
        thirds of what would fit. Never less KV than one longest request, if the pool holds that.
        """
        usable = self.blocks - 1
        if not self.hybrid:
            return usable * self.block, None
        price = self.state_blocks + 1
        states = max(1, usable // STATE_SHARE // price)
        alone = (usable - self.state_blocks) * self.block
        shared = (usable - states * price) * self.block
        return max(shared, min(alone, self.max_context or 0), self.block), states


class Vllm:
    """Needs ``--enable-prompt-tokens-details`` to report cached tokens, ``--scheduling-policy priority`` to use ranks.

    With ``--enable-per-request-metrics`` it also tells how long a request waited inside the engine.
    """

    kind = "vllm"

    async def geometry(self, wire: Wire, model: Mapping[str, Any]) -> Geometry:
        """Read the pool from ``/metrics`` and the context length from ``/v1/models``."""
        longest = whole(model.get("max_model_len"))
        context = None if longest is None else Tokens(longest)
        pools = await self.pools(wire, longest)
        if not pools:
            return Geometry(max_context=context, ranks=1)
        splits = [pool.split() for pool in pools]
        states = [s for _, s in splits if s is not None]
        return Geometry(
            kv_tokens=Tokens(sum(kv for kv, _ in splits)),
            state_slots=sum(states) if states else None,
            block_tokens=Tokens(pools[0].block),
            max_context=context,
            ranks=1,
        )

    async def pools(self, wire: Wire, max_context: int | None) -> list[Pool]:
        """One pool per data-parallel rank behind the URL; empty when ``/metrics`` does not tell."""
        try:
            page = Exposition((await wire.get("/metrics")).decode("utf-8", "replace"))
        except EngineError as error:
            if error.kind in ("lost", "timeout", "overloaded"):
                raise
            return []
        found = (_pool(labels, max_context) for labels in page.labels("vllm:cache_config_info"))
        return [pool for pool in found if pool is not None]

    async def load(self, wire: Wire) -> Load | None:
        """Read running, waiting, usage and preemptions from ``/metrics``."""
        page = Exposition((await wire.get("/metrics")).decode("utf-8", "replace"))
        return Load(
            running=page.count("vllm:num_requests_running"),
            waiting=page.count("vllm:num_requests_waiting"),
            kv_usage=page.mean("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
            preemptions=page.count("vllm:num_preemptions_total"),
        )

    def cached(self, answer: Mapping[str, Any]) -> Tokens | None:
        """Where OpenAI puts it."""
        return cached_by_usage(answer)

    def queued(self, answer: Mapping[str, Any]) -> Nanos | None:
        """Read ``metrics.queue_time_ms``."""
        value = (answer.get("metrics") or {}).get("queue_time_ms")
        return Nanos(round(value * MILLISECOND)) if isinstance(value, int | float) else None

    async def tokens(self, wire: Wire, model: str, prompt: str | Sequence[Mapping[str, Any]]) -> Tokens | None:
        """Ask ``/tokenize``, which applies the chat template to a conversation."""
        body = {"model": model, ("prompt" if isinstance(prompt, str) else "messages"): prompt}
        reply = await wire.post("/tokenize", body, limit=60.0)
        count = whole(wire.decode(reply.body, "/tokenize").get("count"))
        return None if count is None else Tokens(count)


def _pool(labels: Mapping[str, str], max_context: int | None) -> Pool | None:
    blocks, block = whole(labels.get("num_gpu_blocks")), whole(labels.get("block_size"))
    if blocks is None or block is None or blocks < 2:
        return None
    concurrency = labels.get("kv_cache_max_concurrency", "")
    try:
        concurrent = float(concurrency)
    except ValueError:
        concurrent = 0.0
    return Pool(
        blocks=blocks,
        block=block,
        hybrid=labels.get("mamba_cache_mode", "none") != "none",
        max_context=max_context,
        concurrency=concurrent or None,
    )
