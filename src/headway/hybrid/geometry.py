"""Layers and the bytes their caches take, per tensor-parallel rank. Knows nothing of configs or engines.

Three kinds of layer keep something per sequence: `Heads` (grouped-query attention, with or without a sliding
window), `Latent` (multi-head latent attention) and `Recurrent` (everything with a state of fixed size).
"""

from typing import Literal

import msgspec

from headway.core.units import Bytes, Tokens
from headway.errors import ConfigError

DTYPE_BYTES = {
    "float32": 4,
    "bfloat16": 2,
    "float16": 2,
    "fp8": 1,
    "fp8_e4m3": 1,
    "fp8_e5m2": 1,
    "int8": 1,
}
MAX_TP = 16

RecurrentKind = Literal["gdn", "kda", "lightning", "mamba2", "mamba1", "shortconv"]


def dtype_bytes(name: str, *, where: str) -> int:
    """Bytes per element of a dtype name, or a `ConfigError` that lists the known ones."""
    try:
        return DTYPE_BYTES[name.removeprefix("torch.")]
    except KeyError:
        raise ConfigError(f"unknown dtype {name!r}", where=where, hint=f"use one of {', '.join(DTYPE_BYTES)}") from None


def check_tp(tp: int) -> None:
    """Refuse a tensor-parallel size outside 1 to 16."""
    if not 1 <= tp <= MAX_TP:
        raise ConfigError(f"{tp} is not a tensor-parallel size", where="--tp", hint=f"use 1 to {MAX_TP}")


def _share(what: str, amount: int, tp: int) -> int:
    if amount % tp:
        raise ConfigError(f"{amount} {what} can't be split over {tp} ranks", where="--tp", hint="use a divisor of it")
    return amount // tp


class Dtypes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Element types of the caches: KV, convolution state, recurrent state."""

    kv: str = "bfloat16"
    conv: str = "bfloat16"
    state: str = "float32"


class Heads(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="gqa"):
    """Grouped-query attention. ``window`` None: keeps every token; else the last ``window`` only."""

    query_heads: int
    kv_heads: int
    key_dim: int
    value_dim: int
    window: Tokens | None = None

    def kv_bytes(self, tp: int, dtypes: Dtypes) -> Bytes:
        """KV bytes per cached token on one rank: heads are sharded, and replicated once each rank has one."""
        _share("attention heads", self.query_heads, tp)
        heads = 1 if tp >= self.kv_heads and tp % self.kv_heads == 0 else _share("KV heads", self.kv_heads, tp)
        return Bytes(heads * (self.key_dim + self.value_dim) * dtype_bytes(dtypes.kv, where="KV dtype"))


class Latent(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="mla"):
    """Multi-head latent attention: one latent vector per token, the same on every rank.

    ``index_bytes``: bytes per token of a sparse-attention index stored beside it, whatever the KV dtype.
    """

    query_heads: int
    rank: int
    rope_dim: int
    index_bytes: int = 0

    def kv_bytes(self, tp: int, dtypes: Dtypes) -> Bytes:
        """KV bytes per cached token on one rank; tensor parallelism does not shrink it."""
        _share("attention heads", self.query_heads, tp)
        return Bytes((self.rank + self.rope_dim) * dtype_bytes(dtypes.kv, where="KV dtype") + self.index_bytes)


class Recurrent(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="recurrent"):
    """A layer whose state has a fixed size, however long the sequence.

    The recurrent part holds ``units * unit_elements`` elements, sharded by unit (a head, or a channel of
    Mamba1). The convolution keeps its last ``taps`` inputs: ``channels`` of them, sharded, plus
    ``group_channels`` for each of ``groups`` (Mamba2), which are padded so that every rank has its groups.
    """

    family: RecurrentKind
    units: int = 0
    unit_elements: int = 0
    channels: int = 0
    taps: int = 0
    groups: int = 0
    group_channels: int = 0

    def conv_elements(self, tp: int, speculative: int = 0) -> int:
        """Convolution elements on one rank; speculative tokens widen it, except in Mamba1."""
        padding = tp - self.groups if self.groups % tp else 0
        channels = self.channels + (self.groups + padding) * self.group_channels
        taps = self.taps + (0 if self.family == "mamba1" else speculative)
        return _share("convolution channels", channels, tp) * taps

    def state_elements(self, tp: int) -> int:
        """Elements of the recurrence itself on one rank."""
        return _share("state heads", self.units, tp) * self.unit_elements

    def state_bytes(self, tp: int, dtypes: Dtypes, speculative: int = 0) -> Bytes:
        """Bytes that one sequence's state takes in this layer on one rank."""
        conv = self.conv_elements(tp, speculative) * dtype_bytes(dtypes.conv, where="conv dtype")
        return Bytes(conv + self.state_elements(tp) * dtype_bytes(dtypes.state, where="state dtype"))


Layer = Heads | Latent | Recurrent


class Layers(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``count`` equal layers; how they interleave does not matter to memory."""

    count: int
    layer: Layer


class Parameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Weights, in parameters: what every token reads, and what lies in routed experts. Estimates from geometry."""

    dense: int
    routed: int = 0
    experts: int = 1
    experts_per_token: int = 1

    @property
    def total(self) -> int:
        """All parameters."""
        return self.dense + self.routed

    @property
    def active(self) -> int:
        """Parameters that one token passes through."""
        return self.dense + self.routed * self.experts_per_token // self.experts

    def touched(self, sequences: float) -> float:
        """Parameters that a decode step of ``sequences`` tokens is expected to read: E(1-(1-k/E)^N) experts."""
        missed: float = (1 - self.experts_per_token / self.experts) ** sequences
        return self.dense + self.routed * (1 - missed)


class Architecture(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A model as memory sees it. ``state_dtype`` is what its config asks for, None where it is silent."""

    name: str
    family: str
    layers: tuple[Layers, ...]
    dtype: str = "bfloat16"
    state_dtype: str | None = None
    max_context: Tokens | None = None
    parameters: Parameters | None = None
    source: str = ""
    note: str = ""

    def growing(self) -> tuple[tuple[int, Heads | Latent], ...]:
        """Attention layers that keep every token, with their number."""
        return tuple(
            (g.count, g.layer)
            for g in self.layers
            if not isinstance(g.layer, Recurrent) and not (isinstance(g.layer, Heads) and g.layer.window)
        )

    def windowed(self) -> tuple[tuple[int, Heads], ...]:
        """Sliding-window layers, with their number."""
        return tuple((g.count, g.layer) for g in self.layers if isinstance(g.layer, Heads) and g.layer.window)

    def recurrent(self) -> tuple[tuple[int, Recurrent], ...]:
        """Layers with a state of fixed size, with their number."""
        return tuple((g.count, g.layer) for g in self.layers if isinstance(g.layer, Recurrent))

    def kv_bytes_per_token(self, tp: int, dtypes: Dtypes) -> Bytes:
        """Bytes per token and rank over the layers whose KV grows without bound."""
        check_tp(tp)
        return Bytes(sum(n * layer.kv_bytes(tp, dtypes) for n, layer in self.growing()))

    def window_bytes_per_token(self, tp: int, dtypes: Dtypes) -> Bytes:
        """Bytes per token and rank over the sliding-window layers, for tokens inside the window."""
        check_tp(tp)
        return Bytes(sum(n * layer.kv_bytes(tp, dtypes) for n, layer in self.windowed()))

    def window_bytes_per_sequence(self, tp: int, dtypes: Dtypes) -> Bytes:
        """The most that the sliding-window layers of one sequence take on one rank."""
        check_tp(tp)
        return Bytes(sum(n * layer.kv_bytes(tp, dtypes) * (layer.window or 0) for n, layer in self.windowed()))

    def state_bytes_per_sequence(self, tp: int, dtypes: Dtypes, speculative: int = 0) -> Bytes:
        """Bytes per sequence and rank over the recurrent layers: one state slot."""
        check_tp(tp)
        return Bytes(sum(n * layer.state_bytes(tp, dtypes, speculative) for n, layer in self.recurrent()))
