"""The named policies, as they stand in commands, JSON and reports."""

from dataclasses import replace

from headway.core.policy import Policies, Priority
from headway.errors import ConfigError
from headway.policies.admission import Unlimited, WithinMemory
from headway.policies.priority import Fifo, LongestHintFirst, MostActionsFirst, MostServiceFirst, Random
from headway.policies.residency import Uncontrolled, WithinCache
from headway.policies.routing import LeastLoaded, RoundRobin, Sticky


def _headway(name: str, priority: Priority, order: Priority | None = None) -> Policies:
    return Policies(name, WithinMemory(), order or Fifo(), priority, Sticky(), WithinCache())


_PRESETS = {
    p.name: p
    for p in (
        Policies("coupled-fifo", Unlimited(), Fifo(), Fifo(), Sticky(), Uncontrolled(), coupled=True),
        _headway("fifo", Fifo()),
        _headway("random", Random()),
        _headway("caas", MostActionsFirst()),
        _headway("caas-service", MostServiceFirst()),
        _headway("default", MostActionsFirst()),
        _headway("longest-first", LongestHintFirst(), LongestHintFirst()),
        Policies("round-robin", WithinMemory(), Fifo(), Fifo(), RoundRobin(), WithinCache()),
        Policies("least-loaded", WithinMemory(), Fifo(), Fifo(), LeastLoaded(), WithinCache()),
    )
}

NAMES = (*_PRESETS, "static-N")
"""Every name that :func:`preset` takes; N stands for a number."""


def preset(name: str) -> tuple[Policies, int | None]:
    """The policies of a name, and the limit on live trajectories that it brings (``static-N``), if any.

    Raises: ``ConfigError`` for a name that is not one of ``NAMES``.
    """
    if name in _PRESETS:
        return _PRESETS[name], None
    head, _, number = name.rpartition("-")
    if head == "static" and number.isdecimal() and int(number) > 0:
        static = Policies(name, Unlimited(), Fifo(), Fifo(), Sticky(), Uncontrolled())
        return static, int(number)
    raise ConfigError(f"unknown policy {name!r}", hint=f"one of: {', '.join(NAMES)}")


def with_seed(policies: Policies, seed: int) -> Policies:
    """The same policies, their lottery (if they have one) seeded."""
    return replace(policies, priority=Random(seed)) if isinstance(policies.priority, Random) else policies
