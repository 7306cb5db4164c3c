"""vLLM's cache layout: one pool of equal blocks for attention and states alike.

A block holds B tokens of a group of attention layers, or one state of a group of recurrent layers; B is raised
until an attention page is as large as a state (vLLM's ``_align_hybrid_block_size``), and the state is padded to it.
Layers of one kind are cut into groups of equal size (``_get_kv_cache_groups_uniform_page_size``).
"""

import msgspec

from headway.core.units import Bytes, Tokens
from headway.errors import ConfigError
from headway.hybrid.geometry import Architecture, Dtypes, Heads, Latent
from headway.hybrid.pools import Pools

MLA_ALIGNMENT = 128
CPU_ALIGNMENT = 128


class Vllm(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="vllm"):
    """A vLLM engine's settings that decide its cache. None: vLLM's own default.

    ``alignment`` is the backend's block size (16; 128 on CPUs), ``speculative`` the number of speculative tokens,
    ``retention`` is ``--prefix-cache-retention-interval``, ``num_blocks`` is ``--num-gpu-blocks-override``.
    ``paused_slots``: checkpoints to budget for a paused trajectory; it needs 1.
    ``checkpoint_blocks``: extra blocks per state group while a prompt is computed (1 for Mamba2 in vLLM 0.32).
    """

    kv_dtype: str | None = None
    conv_dtype: str | None = None
    state_dtype: str | None = None
    prefix_caching: bool = True
    block_tokens: int | None = None
    alignment: int = 16
    retention: int = 0
    speculative: int = 0
    paused_slots: int = 1
    checkpoint_blocks: int = 0
    num_blocks: int | None = None
    max_running: int | None = None
    max_context: Tokens | None = None

    def dtypes(self, model: Architecture) -> Dtypes:
        """States as the model's dtype, except where the config says otherwise or the family keeps fp32 (KDA)."""
        kda = any(layer.family == "kda" for _, layer in model.recurrent())
        conv = self.conv_dtype or model.dtype
        state = self.state_dtype or model.state_dtype or ("float32" if kda else conv)
        return Dtypes(kv=self.kv_dtype or model.dtype, conv=conv, state=state)

    def pools(self, model: Architecture, memory: Bytes, tp: int) -> Pools:
        """The layout as slots and tokens: a slot is one block in every state group."""
        layout = self.layout(model, memory, tp)
        return Pools(
            memory=Bytes(layout.num_blocks * layout.bytes_per_block),
            slot_bytes=Bytes(layout.state_groups * layout.bytes_per_block),
            token_bytes=Bytes(layout.attention_groups * layout.bytes_per_block // layout.block_tokens),
            token_grain=Tokens(layout.block_tokens),
            reserve_bytes=Bytes(layout.bytes_per_block),
            sequence_bytes=Bytes(layout.window_blocks * layout.bytes_per_block),
            running_slots=layout.state_blocks,
            paused_slots=self.paused_slots,
            caching=self.prefix_caching,
            running_limit=self.max_running,
        )

    def layout(self, model: Architecture, memory: Bytes, tp: int) -> "Layout":
        """The block pool that vLLM makes of ``memory`` bytes.

        Raises:
            ConfigError: a model with several kinds of full attention, or nothing to cache.
        """
        dtypes = self.dtypes(model)
        kinds: list[tuple[int, Heads | Latent]] = [*model.growing(), *model.windowed()]
        if len(model.growing()) > 1 or not kinds:
            raise ConfigError("vLLM's layout is known for one kind of full attention", where=model.name)
        states = model.recurrent()
        state_page = max((layer.state_bytes(tp, dtypes, self.speculative) for _, layer in states), default=Bytes(0))
        token_page = kinds[0][1].kv_bytes(tp, dtypes)
        block = self._block(state_page, token_page, latent=isinstance(kinds[0][1], Latent))
        page = max(block * layer.kv_bytes(tp, dtypes) for _, layer in kinds)
        size = group_size([count for count, _ in kinds] + [sum(count for count, _ in states)])
        growing = sum(-(-count // size) for count, _ in model.growing())
        block = page // token_page if growing else block
        self._check_retention(block, hybrid=bool(states))
        window = sum(
            -(-count // size) * (-(-(layer.window or 0) // (page // layer.kv_bytes(tp, dtypes))) + 1)
            for count, layer in model.windowed()
        )
        per_block = page * size
        running = 2 + self.speculative + self.checkpoint_blocks if self.prefix_caching else 1 + self.speculative
        return Layout(
            block_tokens=block,
            page_bytes=Bytes(page),
            padding=page / state_page - 1 if state_page else 0.0,
            layers_per_group=size,
            attention_groups=growing,
            window_blocks=window,
            state_groups=-(-sum(count for count, _ in states) // size),
            state_blocks=running,
            bytes_per_block=Bytes(per_block),
            num_blocks=memory // per_block if self.num_blocks is None else self.num_blocks,
        )

    def _check_retention(self, block: int, *, hybrid: bool) -> None:
        if hybrid and self.retention % block:
            raise ConfigError(
                f"{self.retention} is not a multiple of the block size {block}",
                where="--prefix-cache-retention-interval",
                hint=f"use {max(1, -(-self.retention // block)) * block}",
            )

    def _block(self, state_page: int, token_page: int, *, latent: bool) -> int:
        """Tokens per block: the user's or the backend's, raised until a state fits."""
        start = max(self.alignment, self.block_tokens or 0)
        if not state_page:
            return start
        grain = max(start, MLA_ALIGNMENT) if latent else start
        return grain * -(-state_page // (grain * token_page))


def group_size(counts: list[int]) -> int:
    """Layers per group: the least numerous kind's, or the most numerous kind's when they hardly differ."""
    present = [count for count in counts if count]
    return max(present) if max(present) < min(present) * 1.5 else min(present)


class Layout(msgspec.Struct, frozen=True):
    """vLLM's block pool. One block is ``bytes_per_block`` on each rank; block 0 is never given out."""

    block_tokens: int
    page_bytes: Bytes
    padding: float
    layers_per_group: int
    attention_groups: int
    window_blocks: int
    state_groups: int
    state_blocks: int
    bytes_per_block: Bytes
    num_blocks: int

    def sequence_blocks(self, tokens: Tokens, *, running: bool = True) -> int:
        """Blocks of a sequence of that length: its KV, its windows and its states."""
        kv = -(-tokens // self.block_tokens) * self.attention_groups
        return kv + self.window_blocks + self.state_groups * (self.state_blocks if running else 1)

    def max_concurrency(self, tokens: Tokens) -> float:
        """What vLLM logs as its maximum concurrency for requests of that length."""
        return self.num_blocks / self.sequence_blocks(tokens)

    def blocks_for(self, slots: int, tokens: Tokens) -> int:
        """Blocks that hold exactly so many state slots and KV tokens: the value for ``--num-gpu-blocks-override``."""
        return 1 + slots * self.state_groups + -(-tokens // self.block_tokens) * self.attention_groups

    def tokens_beside(self, slots: int) -> Tokens:
        """KV tokens that the pool holds beside so many state slots: the inverse of `blocks_for`."""
        if not self.attention_groups:
            return Tokens(0)
        left = max(0, self.num_blocks - 1 - slots * self.state_groups)
        return Tokens(left // self.attention_groups * self.block_tokens)


def cached_tokens(prompt: Tokens, output: Tokens, block: int, *, hybrid: bool, retention: int = 0) -> Tokens:
    """Tokens of a turn that the next turn finds in the cache, given that turn's prompt and output.

    A hybrid model keeps the state at the prompt's last block boundary; with a retention interval also at its
    multiples, those crossed while it decodes included. Attention alone keeps every whole block it computed.
    """
    length = max(0, prompt + output - 1)
    if not hybrid:
        return Tokens(length // block * block)
    kept = max(0, prompt - 1) // block * block
    return Tokens(max(kept, length // retention * retention) if retention else kept)
