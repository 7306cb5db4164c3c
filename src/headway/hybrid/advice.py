"""What users of hybrid models get wrong, checked against the user's own numbers. One function per trap."""

import math
from collections.abc import Callable

import msgspec

from headway.core.units import Tokens
from headway.hybrid.capacity import Loop
from headway.hybrid.engines import Engine
from headway.hybrid.geometry import Architecture, Latent
from headway.hybrid.pools import Pools
from headway.hybrid.sglang import DEFAULT_RATIO, Sglang, host_split, max_running
from headway.hybrid.vllm import Layout, Vllm
from headway.hybrid.workload import Workload

VLLM_MAX_NUM_SEQS = 256
"""vLLM's default ``--max-num-seqs`` (more on large devices)."""

_NEAR = 0.9


class Warning(msgspec.Struct, frozen=True):  # noqa: A001 - it is what the plan's JSON calls it
    """A trap that this plan is in, or near. ``see``: a public issue where others were."""

    name: str
    text: str
    see: str = ""


class Case(msgspec.Struct, frozen=True):
    """What the checks look at: the plan's inputs and its numbers. None: not known."""

    model: Architecture
    engine: Engine
    pools: Pools
    layout: Layout | None
    slots: int
    tokens: Tokens
    workload: Workload | None
    live: int | None
    loop: Loop | None
    running: int | None
    default_live: int | None

    @property
    def hybrid(self) -> bool:
        """Whether the model has states at all."""
        return self.pools.slot_bytes > 0

    @property
    def longest_allowed(self) -> Tokens | None:
        """The engine's longest sequence, or the model's."""
        own = self.engine.max_context if isinstance(self.engine, Vllm | Sglang) else None
        return own or self.model.max_context


def _running_limit(case: Case) -> Warning | None:
    if not isinstance(case.engine, Vllm) or case.layout is None or not case.hybrid:
        return None
    wanted = case.engine.max_running or case.running or VLLM_MAX_NUM_SEQS
    blocks = case.layout.num_blocks
    if wanted > blocks:
        text = f"max_num_seqs {wanted} exceeds the pool's {blocks} blocks: vLLM refuses to start. Pass {blocks} or less"
        return Warning("max-num-seqs", text, "vllm#49064")
    if case.workload is None:
        return None
    mean = Tokens(math.ceil(case.workload.context.mean))
    holds = (blocks - 1) // case.layout.sequence_blocks(mean)
    if wanted <= holds:
        return None
    text = (
        f"max_num_seqs {wanted} exceeds the {holds} running sequences of your mean {mean:,} tokens that the "
        f"pool's {blocks} blocks hold: the rest are preempted and start over"
    )
    return Warning("max-num-seqs", text, "vllm#49064")


def _block_too_long(case: Case) -> Warning | None:
    if case.layout is None or not case.hybrid:
        return None
    block, longest = case.layout.block_tokens, case.longest_allowed
    if longest is not None and block > longest:
        text = f"a block of {block:,} tokens is longer than the {longest:,} of a sequence: nothing is ever cached"
        return Warning("block-size", text, "vllm#48401")
    if case.workload is None or case.workload.first_prompt.mean >= block:
        return None
    first = case.workload.first_prompt.mean
    text = (
        f"a block of {block:,} tokens is longer than your first prompts ({first:,.0f}): the first turns cache nothing"
    )
    return Warning("block-size", text, "vllm#48401")


def _unique_checkpoint(case: Case) -> Warning | None:
    work = case.workload
    if case.layout is None or not case.hybrid or work is None or not work.shared_prefix:
        return None
    block = case.layout.block_tokens
    kept = int(max(0, work.first_prompt.mean - 1) // block * block)
    if 0 < kept <= work.shared_prefix:
        return None
    place = "none is kept" if not kept else "in tokens that no other sample has"
    text = (
        f"your samples share {work.shared_prefix:,} prompt tokens, but the one state that is kept lies at token "
        f"{kept:,}: {place}. Only a vLLM that keeps junctions of shared prefixes reuses them"
    )
    return Warning("unique-checkpoint", text, "vllm#45238")


def _near_the_limit(case: Case) -> Warning | None:
    work = case.workload
    if work is None:
        return None
    longest = Tokens(math.ceil(work.longest.most))
    if case.layout is not None:
        need, have, what = case.layout.sequence_blocks(longest), case.layout.num_blocks - 1, "blocks"
    else:
        need, have, what = int(longest), int(case.tokens), "KV tokens"
    if need <= _NEAR * have:
        return None
    text = (
        f"your longest trajectory ({longest:,} tokens) needs {need:,} of {have:,} {what}: alone it fills the "
        f"cache, and beside any other it is preempted and computed again, over and over"
    )
    return Warning("longest-trajectory", text, "vllm#52520")


def _logged_size(case: Case) -> Warning | None:
    longest = case.longest_allowed
    if case.layout is None or not case.hybrid or longest is None:
        return None
    logged = int(case.layout.max_concurrency(longest) * longest)
    text = (
        f"vLLM will log a KV cache size of {logged:,} tokens: that is its concurrency at {longest:,} tokens "
        f"each, states included. Beside {case.slots} states the pool holds {case.tokens:,} tokens"
    )
    return Warning("logged-size", text, "vllm#40691")


def _default_ratio(case: Case) -> Warning | None:
    if case.default_live is None or case.live is None or case.workload is None:
        return None
    if case.default_live >= 0.95 * case.live:
        return None
    text = (
        f"the default ratio {DEFAULT_RATIO} would keep {case.default_live} trajectories live instead of {case.live} "
        f"at your mean context of {case.workload.context.mean:,.0f} tokens"
    )
    return Warning("default-ratio", text, "sglang#25993")


def _reserved_slots(case: Case) -> Warning | None:
    engine, loop = case.engine, case.loop
    if not isinstance(engine, Sglang) or not case.hybrid or case.running is None or loop is None:
        return None
    allowed = max_running(case.slots, engine.strategy)
    if case.running <= allowed:
        return None
    each = case.pools.running_slots
    text = (
        f"SGLang reserves {each} state slots per running request, so {case.slots} slots run {allowed} at once; "
        f"you need {loop.running:.0f} on average and {case.running} at times: turns queue while slots are free"
    )
    return Warning("reserved-slots", text)


def _host_tier(case: Case) -> Warning | None:
    engine, loop = case.engine, case.loop
    if not isinstance(engine, Sglang) or engine.host_bytes is None or not case.hybrid or loop is None:
        return None
    states, tokens = host_split(engine.host_bytes, case.slots, case.tokens, case.pools)
    paused = loop.live - loop.running
    if states >= paused * case.pools.paused_slots:
        return None
    text = (
        f"the host tier gets {states} states beside {tokens:,} KV tokens, fewer than your {paused:.0f} paused "
        f"trajectories: their KV is kept in vain once the state is gone"
    )
    return Warning("host-tier", text, "sglang#39436")


def _prefill_chunk(case: Case) -> Warning | None:
    engine, work = case.engine, case.workload
    if not isinstance(engine, Sglang) or engine.chunk_tokens is None or not case.hybrid or work is None:
        return None
    starts = int(engine.chunk_tokens // max(1.0, work.new_tokens))
    need = starts * case.pools.running_slots
    if need <= case.slots:
        return None
    text = (
        f"a prefill chunk of {engine.chunk_tokens:,} tokens can start {starts} turns of {work.new_tokens:,.0f} new "
        f"tokens, which need {need} state slots; there are {case.slots}"
    )
    return Warning("prefill-chunk", text, "sglang#36935")


def _unified_latent(case: Case) -> Warning | None:
    latent = any(isinstance(layer, Latent) for _, layer in case.model.growing())
    if not isinstance(case.engine, Sglang) or not case.engine.unified or not latent:
        return None
    return Warning("unified-memory", "some SGLang versions refuse unified memory for models with latent attention")


def _rewritten(case: Case) -> Warning | None:
    if case.workload is None or not case.workload.shrunk:
        return None
    text = (
        f"{case.workload.shrunk} recorded turns have a shorter prompt than the turn before left behind: their "
        f"history was rewritten, so little of it is in the cache"
    )
    return Warning("rewritten-history", text)


def _too_long(case: Case) -> Warning | None:
    longest = case.longest_allowed
    if case.workload is None or longest is None or case.workload.longest.most <= longest:
        return None
    text = f"your longest trajectory ({case.workload.longest.most:,.0f} tokens) exceeds the {longest:,} of a sequence"
    return Warning("context-length", text)


def _assumed(case: Case) -> Warning | None:
    return Warning("assumed-geometry", case.model.note) if case.model.note else None


_CHECKS: tuple[Callable[[Case], Warning | None], ...] = (
    _running_limit,
    _block_too_long,
    _unique_checkpoint,
    _near_the_limit,
    _logged_size,
    _default_ratio,
    _reserved_slots,
    _host_tier,
    _prefill_chunk,
    _unified_latent,
    _rewritten,
    _too_long,
    _assumed,
)


def warnings(case: Case) -> tuple[Warning, ...]:
    """Every trap that this plan is in, in a fixed order."""
    return tuple(found for check in _CHECKS if (found := check(case)) is not None)
