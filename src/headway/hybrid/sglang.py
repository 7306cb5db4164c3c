"""SGLang's cache layout: a pool of state slots and a pool of KV tokens, split when it starts.

With M bytes, a slot of σ bytes, a token of κ bytes and ``--mamba-full-memory-ratio`` ρ, SGLang gives states
Mρ/(1+ρ) bytes, keeps one slot for itself and leaves the rest to KV: S = ⌊(Mρ/(1+ρ) - σ)/σ⌋ and
T = ⌊(M - (S+1)σ)/κ⌋ in pages. ``--max-mamba-cache-size`` sets S outright.
"""

from decimal import Decimal
from fractions import Fraction
from math import lcm
from typing import Literal

import msgspec

from headway.core.units import Bytes, Tokens
from headway.errors import ConfigError
from headway.hybrid.geometry import Architecture, Dtypes
from headway.hybrid.pools import Pools

Strategy = Literal["off", "no_buffer", "extra_buffer_lazy", "extra_buffer"]

DEFAULT_RATIO = 0.9
SLOTS_PER_REQUEST: dict[Strategy, int] = {
    "off": 1,
    "no_buffer": 3,
    "extra_buffer_lazy": 4,
    "extra_buffer": 5,
}
"""State slots that SGLang sets aside per running request (it admits S // this many)."""


class Sglang(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="sglang"):
    """An SGLang engine's settings that decide its cache. None: SGLang's own default.

    ``paused_slots``: checkpoints to budget for a paused trajectory; it needs 1.
    ``strategy`` is ``--mamba-radix-cache-strategy``, ``off`` standing for ``--disable-radix-cache``. ``ratio`` or
    ``slots`` fix the split; with neither, the plan chooses it. ``host_bytes`` is ``--hicache-size`` in bytes.
    """

    kv_dtype: str | None = None
    conv_dtype: str | None = None
    state_dtype: str | None = None
    strategy: Strategy = "extra_buffer"
    ratio: float | None = None
    slots: int | None = None
    max_running: int | None = None
    max_context: Tokens | None = None
    page_tokens: int = 1
    track_interval: int = 256
    unified: bool = False
    speculative: int = 0
    paused_slots: int = 1
    window_share: float = 0.8
    chunk_tokens: int | None = None
    host_bytes: Bytes | None = None

    def dtypes(self, model: Architecture) -> Dtypes:
        """KV and convolution as the model, states in fp32 unless the config or a flag says otherwise."""
        return Dtypes(
            kv=self.kv_dtype or model.dtype,
            conv=self.conv_dtype or model.dtype,
            state=self.state_dtype or model.state_dtype or "float32",
        )

    @property
    def grid(self) -> int:
        """Tokens between two checkpoints that a later turn can resume from."""
        return lcm(self.page_tokens, self.track_interval)

    def pools(self, model: Architecture, memory: Bytes, tp: int) -> Pools:
        """The layout for a model, and the split where the settings fix it."""
        dtypes = self.dtypes(model)
        slot = model.state_bytes_per_sequence(tp, dtypes, self.speculative)
        window = model.window_bytes_per_token(tp, dtypes)
        token = model.kv_bytes_per_token(tp, dtypes) + round(window * self.window_share)
        pools = Pools(
            memory=memory,
            slot_bytes=slot,
            token_bytes=Bytes(token),
            token_grain=Tokens(self.page_tokens),
            reserve_bytes=slot,
            sequence_bytes=Bytes(0),
            running_slots=SLOTS_PER_REQUEST[self.strategy],
            paused_slots=self.paused_slots,
            caching=self.strategy != "off",
            running_limit=self.max_running,
        )
        if not slot or (self.ratio is None and self.slots is None):
            return pools
        slots = self.slots
        if slots is None:
            slots = slots_of_ratio(memory, slot, self.ratio or DEFAULT_RATIO)
        if slots < pools.running_slots:
            raise ConfigError(
                f"{slots} state slots can't run one request, which takes {pools.running_slots}",
                where="--max-mamba-cache-size" if self.slots is not None else "--mamba-full-memory-ratio",
                hint="raise it or give the engine more memory",
            )
        limit = max_running(slots, self.strategy, self.max_running)
        if self.unified:
            return msgspec.structs.replace(pools, running_limit=limit)
        fixed = (slots, pools.tokens_beside(slots))
        return msgspec.structs.replace(pools, fixed=fixed, running_limit=limit)


def slots_of_ratio(memory: Bytes, slot_bytes: Bytes, ratio: float) -> int:
    """S that SGLang makes of ``--mamba-full-memory-ratio``. Exact: the ratio is taken as it is written."""
    share = Fraction(Decimal(str(ratio)))
    budget = memory * share / (1 + share)
    return max(0, int((budget - slot_bytes) // slot_bytes))


def ratio_of_slots(memory: Bytes, slot_bytes: Bytes, slots: int) -> float:
    """A ratio from which SGLang makes exactly ``slots``: the shortest decimal that does.

    Raises:
        ConfigError: no ratio does, because the slots don't fit.
    """
    share = Fraction((2 * slots + 3) * slot_bytes, 2 * memory)
    if share < 1:
        exact = share / (1 - share)
        for digits in range(2, 16):
            ratio = float(f"{float(exact):.{digits}g}")
            if slots_of_ratio(memory, slot_bytes, ratio) == slots:
                return ratio
    raise ConfigError(
        f"{slots} state slots of {slot_bytes} bytes don't fit in {memory} bytes", where="--mamba-full-memory-ratio"
    )


def max_running(slots: int, strategy: Strategy, wanted: int | None = None) -> int:
    """Requests that SGLang runs at once: what the user allows, and what the slots allow."""
    limit = slots // SLOTS_PER_REQUEST[strategy]
    return limit if wanted is None else min(wanted, limit)


def recomputed(prefix_tokens: Tokens, grid: int) -> Tokens:
    """Tokens of a resident prefix that are computed again: those after its last checkpoint."""
    return Tokens(prefix_tokens % grid)


def host_split(host_bytes: Bytes, slots: int, tokens: Tokens, pools: Pools) -> tuple[int, Tokens]:
    """State slots and KV tokens of HiCache's host tier, which is split in proportion to the device pools."""
    states, kv = slots * pools.slot_bytes, tokens * pools.token_bytes
    if not states + kv:
        return 0, Tokens(0)
    share = host_bytes * states // (states + kv)
    host_slots = share // pools.slot_bytes if pools.slot_bytes else 0
    return host_slots, Tokens((host_bytes - share) // pools.token_bytes if pools.token_bytes else 0)
