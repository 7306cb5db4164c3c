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
    """A roofline: a step waits for memory or for arithmetic, whichever takes longer."""

    device: Device
    model: Architecture
    tp: int
    dtypes: Dtypes
    weight_bytes: float

    @property
    def label(self) -> str:
        """Says that nothing was measured."""
        return f"assumed from the data sheet of {self.device.name}"

    def step(self, sequences: float, context: float) -> float:
        """One decode step: weights once, KV once, states read and written."""
        weights = self._parameters.touched(sequences) * self.weight_bytes / self.tp
        kv = self.model.kv_bytes_per_token(self.tp, self.dtypes) * context
        states = 2 * self.model.state_bytes_per_sequence(self.tp, self.dtypes)
        flops = sequences * self._token_flops(context) / self.tp
        seconds = (weights + sequences * (kv + states)) / (self.device.memory_share * self.device.bandwidth)
        return self.device.step_base + max(seconds, self._compute(flops))

    def prefill(self, new: float, cached: float) -> float:
        """One prompt: the projections, attention on everything before, and the scans of the recurrent layers."""
        attention = self._pair_flops() * (cached + new / 2)
        scans = sum(count * _scan_flops(layer) for count, layer in self.model.recurrent())
        return self._compute(new * (2 * self._parameters.active + attention + scans) / self.tp)

    @property
    def _parameters(self) -> Parameters:
        found = self.model.parameters
        if found is None:
            raise ConfigError(
                "a time model needs the number of weights, which its config doesn't give",
                where=self.model.name,
                hint="add hidden_size and intermediate_size, or fit a run with --fit",
            )
        return found

    def _token_flops(self, context: float) -> float:
        return 2 * self._parameters.active + self._pair_flops() * context

    def _pair_flops(self) -> float:
        """Operations per new token and token before it: 2·H·(d_qk + d_v) in each full-attention layer."""
        total = 0
        for count, layer in self.model.growing():
            dims = layer.key_dim + layer.value_dim if isinstance(layer, Heads) else _MLA_DIMS + layer.rope_dim
            total += count * 2 * layer.query_heads * dims
        return float(total)

    def _compute(self, flops: float) -> float:
        return flops / (self.device.compute_share * self.device.flops)


def _scan_flops(layer: Recurrent) -> float:
    """H·(6·dk·dv + 2·64·(dk + dv)) per token: a chunked scan with chunks of 64."""
    side = isqrt(layer.unit_elements)
    return layer.units * (6 * layer.unit_elements + 2 * 64 * 2 * side)


def assumed(name: str, model: Architecture, tp: int, dtypes: Dtypes, *, weights: str | None = None) -> Assumed:
    """A time model from a device's data sheet. ``weights`` is their dtype; None: the model's own."""
    size = dtype_bytes(weights or model.dtype, where="weights")
    return Assumed(device(name), model, tp, dtypes, float(size))
