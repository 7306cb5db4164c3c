"""The named policies, as they stand in commands, JSON and reports."""

from dataclasses import replace

from headway.core.policy import Policies, Priority, Routing
from headway.core.world import World
from headway.errors import ConfigError
from headway.policies.admission import WithinMemory
from headway.policies.correction import corrected
from headway.policies.forecast import Forecast
from headway.policies.group import LongestGroupFirst
from headway.policies.guard import HazardGuard
from headway.policies.priority import Fifo, LongestHintFirst, MostActionsFirst, MostServiceFirst, Random
from headway.policies.remaining import LongestRemainingFirst, ProbeThenLongest
from headway.policies.residency import WithinCache
from headway.policies.rivals.concur import CONCUR
from headway.policies.rivals.continuum import CONTINUUM
from headway.policies.rivals.plain import CONSISTENT_HASH, COUPLED_FIFO, STICKY_LEAST_LOADED, static
from headway.policies.rivals.prime_rl import PRIME_RL
from headway.policies.rivals.thunderagent import THUNDERAGENT
from headway.policies.routing import CostAwareSticky, LeastLoaded, RoundRobin, Sticky

PATIENCE = 4096
"""Later arrivals that may pass an entry under policies that look ahead. Those that can wait should: a bound as low as
that of the others would make them first come, first served where most of a batch waits."""


def _headway(
    name: str, priority: Priority, order: Priority | None = None, routing: Routing | None = None, overtakes: int = 512
) -> Policies:
    return Policies(
        name, WithinMemory(), order or Fifo(), priority, routing or Sticky(), WithinCache(), overtakes=overtakes
    )


def _grouped(policies: Policies, world: World) -> Policies:  # noqa: ARG001 - the guard starts from nothing
    guard = HazardGuard()
    index = LongestGroupFirst(guard)
    return replace(policies, priority=index, order=index, observers=(guard,))


def _forecasting(policies: Policies, world: World) -> Policies:
    forecast = Forecast(world)
    return replace(
        policies,
        priority=LongestRemainingFirst(forecast),
        order=ProbeThenLongest(forecast),
        observers=(forecast,),
    )


_LOOKING_AHEAD = _headway("", Fifo(), routing=CostAwareSticky(), overtakes=PATIENCE)

_PRESETS = {
    p.name: p
    for p in (
        COUPLED_FIFO,
        _headway("fifo", Fifo()),
        _headway("random", Random()),
        _headway("caas", MostActionsFirst()),
        _headway("caas-service", MostServiceFirst()),
        replace(_LOOKING_AHEAD, name="group", begin=_grouped),
        replace(_LOOKING_AHEAD, name="history", begin=_forecasting),
        replace(_LOOKING_AHEAD, name="oracle", order=LongestHintFirst(), priority=LongestHintFirst()),
        replace(_LOOKING_AHEAD, name="default", begin=_forecasting),
        _headway("longest-first", LongestHintFirst(), LongestHintFirst()),
        _headway("round-robin", Fifo(), routing=RoundRobin()),
        _headway("least-loaded", Fifo(), routing=LeastLoaded()),
        THUNDERAGENT,
        CONCUR,
        CONTINUUM,
        PRIME_RL,
        STICKY_LEAST_LOADED,
        CONSISTENT_HASH,
    )
}

NAMES = (*_PRESETS, "static-N")
"""Every name that :func:`preset` takes; N stands for a number."""


def preset(name: str) -> tuple[Policies, int | None]:
    """The policies of a name, and the limit on live trajectories that it brings (``static-N``), if any.

    Raises: ``ConfigError`` for a name that is not one of ``NAMES``.
    """
    if name in _PRESETS:
        return corrected(_PRESETS[name]), None
    head, _, number = name.rpartition("-")
    if head == "static" and number.isdecimal() and int(number) > 0:
        return static(int(number)), int(number)
    raise ConfigError(f"unknown policy {name!r}", hint=f"one of: {', '.join(NAMES)}")


def with_seed(policies: Policies, seed: int) -> Policies:
    """The same policies, their lottery (if they have one) seeded."""
    return replace(policies, priority=Random(seed)) if isinstance(policies.priority, Random) else policies
