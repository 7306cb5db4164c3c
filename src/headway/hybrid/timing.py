"""How long an engine's steps take: one model for the planner, the simulator and what-if.

A model is fitted from an engine's own turns, or assumed from a device's data sheet and labelled so.
"""

from math import isqrt
from typing import Protocol

import msgspec

from headway.errors import ConfigError
from headway.hybrid.geometry import Architecture, Dtypes, Heads, Parameters, Recurrent, dtype_bytes

_MLA_DIMS = 2 * 128
"""Key and value dimensions of a head of latent attention, without its rotary part, in the models we know."""


class Timing(Protocol):
    """What the planner asks of a time model. Seconds, and numbers that need not be whole."""

    @property
    def label(self) -> str:
        """Where the constants come from, as a report should say it."""
        ...

    def step(self, sequences: float, context: float) -> float:
        """One decode step of so many sequences that hold ``context`` tokens each."""
        ...

    def prefill(self, new: float, cached: float) -> float:
        """Computing ``new`` prompt tokens on top of ``cached`` ones."""
        ...


class Fitted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Constants fitted from an engine's own turns: step = base + per_sequence·n + per_context·Σcontext.

    ``per_pair`` is the time per new token and token before it. ``error`` is the fit's relative error.
    """

    base: float
    per_sequence: float
    per_context: float
    per_new: float
    per_pair: float = 0.0
    error: float | None = None
    run: str = ""

    @property
    def label(self) -> str:
        """The run it was fitted from, and how well it fits."""
        error = "" if self.error is None else f", error {self.error:.0%}"
        return f"fitted from {self.run or 'a run'}{error}"

    def step(self, sequences: float, context: float) -> float:
        """One decode step."""
        return self.base + sequences * (self.per_sequence + self.per_context * context)

    def prefill(self, new: float, cached: float) -> float:
        """One prompt."""
        return new * (self.per_new + self.per_pair * (cached + new / 2))


class Device(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A device by its data sheet: bytes per second, dense bf16 operations per second, bytes of memory.

    ``memory_share`` and ``compute_share`` of these are reached in practice; ``step_base`` seconds pass in every step.
    """

    name: str
    bandwidth: float
    flops: float
    memory: int
    memory_share: float = 0.7
    compute_share: float = 0.5
    step_base: float = 0.004


DEVICES = {
    device.name.lower(): device
    for device in (
        Device("A100", 2.039e12, 312e12, 80 << 30),
        Device("H100", 3.35e12, 989e12, 80 << 30),
        Device("H200", 4.8e12, 989e12, 141 * 10**9),
        Device("B200", 8.0e12, 2250e12, 180 * 10**9),
        Device("L40S", 864e9, 362e12, 48 << 30),
        Device("MI300X", 5.3e12, 1307e12, 192 * 10**9),
    )
}
"""SXM or OAM data-sheet figures: dense bf16, no sparsity."""


def device(name: str) -> Device:
    """A device of the table, in any case."""
    try:
        return DEVICES[name.lower()]
    except KeyError:
        known = ", ".join(d.name for d in DEVICES.values())
        raise ConfigError(f"unknown device {name!r}", where="--device", hint=f"use one of {known}") from None


class Assumed(msgspec.Struct, frozen=True):
    """A roofline: a step waits for memory or for arithmetic, whichever takes longer.

    Bytes are per rank; operations are the whole model's: ``pair_flops`` per new token and token before it,
    ``scan_flops`` per new token in the recurrent layers.
    """

    device: Device
    tp: int
    parameters: Parameters
    weight_bytes: float
    kv_bytes: int
    state_bytes: int
    pair_flops: float
    scan_flops: float

    @property
    def label(self) -> str:
        """Says that nothing was measured."""
        return f"assumed from the data sheet of {self.device.name}"

    def step(self, sequences: float, context: float) -> float:
        """One decode step: weights once, KV once, states read and written."""
        weights = self.parameters.touched(sequences) * self.weight_bytes / self.tp
        moved = weights + sequences * (self.kv_bytes * context + 2 * self.state_bytes)
        flops = sequences * (2 * self.parameters.active + self.pair_flops * context) / self.tp
        seconds = moved / (self.device.memory_share * self.device.bandwidth)
        return self.device.step_base + max(seconds, self._compute(flops))

    def prefill(self, new: float, cached: float) -> float:
        """One prompt: the projections, attention on everything before, and the scans of the recurrent layers."""
        attention = self.pair_flops * (cached + new / 2)
        return self._compute(new * (2 * self.parameters.active + attention + self.scan_flops) / self.tp)

    def _compute(self, flops: float) -> float:
        return flops / (self.device.compute_share * self.device.flops)


def _pair_flops(model: Architecture) -> float:
    """2·H·(d_qk + d_v) in each full-attention layer."""
    total = 0
    for count, layer in model.growing():
        dims = layer.key_dim + layer.value_dim if isinstance(layer, Heads) else _MLA_DIMS + layer.rope_dim
        total += count * 2 * layer.query_heads * dims
    return float(total)


def _scan_flops(layer: Recurrent) -> float:
    """H·(6·dk·dv + 2·64·(dk + dv)) per token: a chunked scan with chunks of 64."""
    return layer.units * (6 * layer.unit_elements + 2 * 64 * 2 * isqrt(layer.unit_elements))


def assumed(name: str, model: Architecture, tp: int, dtypes: Dtypes, *, weights: str | None = None) -> Assumed:
    """A time model from a device's data sheet. ``weights`` is their dtype; None: the model's own.

    Raises:
        ConfigError: an unknown device, or a model whose number of weights is not known.
    """
    if model.parameters is None:
        raise ConfigError(
            "a time model needs the number of weights, which its config doesn't give",
            where=model.name,
            hint="add hidden_size and intermediate_size, or fit a run with --fit",
        )
    return Assumed(
        device=device(name),
        tp=tp,
        parameters=model.parameters,
        weight_bytes=float(dtype_bytes(weights or model.dtype, where="weights")),
        kv_bytes=model.kv_bytes_per_token(tp, dtypes),
        state_bytes=model.state_bytes_per_sequence(tp, dtypes),
        pair_flops=_pair_flops(model),
        scan_flops=sum(count * _scan_flops(layer) for count, layer in model.recurrent()),
    )
