"""Bytes for the cache: what is left of a device beside the weights, with the subtraction spelled out."""

import re

import msgspec

from headway.core.units import Bytes
from headway.errors import ConfigError

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?i?)b?\s*", re.IGNORECASE)


def parse_bytes(text: str, *, where: str) -> Bytes:
    """Bytes from ``80GiB``, ``80 GB``, ``1.5g`` or a plain number. GiB is 2³⁰, GB is 10⁹."""
    match = _SIZE.fullmatch(text)
    unit = None if match is None else _UNITS.get(match[2].lower())
    if match is None or unit is None:
        raise ConfigError(f"{text!r} is no size", where=where, hint="write it like 80GiB")
    return Bytes(int(float(match[1]) * unit))


def show_bytes(size: float) -> str:
    """Bytes for people: three digits and a binary unit."""
    for unit, name in ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if abs(size) >= unit:
            return f"{size / unit:.4g} {name}"
    return f"{size:.0f} B"


class Budget(msgspec.Struct, frozen=True):
    """Cache bytes per rank: device · utilization - weights - overhead.

    ``weights`` are this rank's; ``overhead`` is what activations, graphs and the runtime take.
    """

    device: Bytes
    utilization: float
    weights: Bytes
    overhead: Bytes = Bytes(0)

    @property
    def left(self) -> Bytes:
        """Bytes for the cache.

        Raises:
            ConfigError: nothing is left, or the utilization is not a share.
        """
        if not 0 < self.utilization <= 1:
            raise ConfigError(f"{self.utilization} is not a share", where="--utilization", hint="use 0.9, say")
        left = int(self.device * self.utilization) - self.weights - self.overhead
        if left <= 0:
            raise ConfigError(
                f"nothing is left for the cache: {self.text(left)}", where="--device-memory", hint="use more ranks"
            )
        return Bytes(left)

    def text(self, left: int) -> str:
        """The subtraction, for people."""
        return (
            f"{show_bytes(self.device)} x {self.utilization:g} - {show_bytes(self.weights)} weights"
            f" - {show_bytes(self.overhead)} overhead = {show_bytes(left)}"
        )
