"""What a batch is told about its surroundings, checked, and as the facts that open its journal."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from headway.batch.sample import Sample
from headway.core.facts import (
    CoordinatorStarted,
    EngineJoined,
    Fact,
    LimitChanged,
    Resumed,
    SampleSubmitted,
    SlotsChanged,
)
from headway.core.policy import Policies
from headway.core.units import EnvironmentId, GroupId, Nanos, Tokens, TrajectoryId, nanos
from headway.core.world import World
from headway.errors import ConfigError
from headway.policies.residency import WithinCache
from headway.ports import Environment
from headway.version import __version__


@dataclass(frozen=True, slots=True)
class Slots:
    """An environment of a batch.

    Args:
        slots: actions that may run there at once.
        place: where they run; None: nowhere in particular, a slot is all there is to hold.
        instances: how many trajectories may keep an instance of it for life; None: no limit.
        create_rate: instances made per second at most; None: no limit.
    """

    slots: int
    place: Environment | None = None
    instances: int | None = None
    create_rate: float | None = None

    def resized(self, at: Nanos, name: EnvironmentId, slots: int) -> SlotsChanged:
        """The fact that the environment has so many slots now."""
        interval = nanos(1 / self.create_rate) if self.create_rate else Nanos(0)
        return SlotsChanged(at, name, slots, self.instances, interval)


@dataclass(frozen=True, slots=True)
class Tuning:
    """What a policy leaves open; None: as it is by itself.

    Args:
        headroom: share of an engine's cache kept free for growth, where the policy keeps within the cache.
        bypass: parked turns looked at for one that fits.
        overtakes: how often an action or turn may be overtaken before it goes next.

    Raises: ``ConfigError``.
    """

    headroom: float | None = None
    bypass: int | None = None
    overtakes: int | None = None

    def __post_init__(self) -> None:
        if self.headroom is not None and not 0 <= self.headroom < 1:
            raise ConfigError(f"must be a share below 1, is {self.headroom:g}", where="headroom")
        for name, value in (("bypass", self.bypass), ("overtakes", self.overtakes)):
            if value is not None and value < 1:
                raise ConfigError(f"must be at least 1, is {value}", where=name)

    def applied(self, policies: Policies) -> Policies:
        """The same policies, so tuned."""
        residency = policies.residency
        if isinstance(residency, WithinCache) and self.headroom is not None:
            residency = replace(residency, headroom=self.headroom)
        bypass = policies.bypass if self.bypass is None else self.bypass
        overtakes = policies.overtakes if self.overtakes is None else self.overtakes
        return replace(policies, residency=residency, bypass=bypass, overtakes=overtakes)


def opening(
    now: Nanos,
    wall: int,
    environments: Mapping[EnvironmentId, Slots],
    joined: Iterable[EngineJoined],
    limit: int | None,
) -> list[Fact]:
    """What a coordinator says first: that it started (``wall``: unix time in nanoseconds), and with what."""
    facts: list[Fact] = [CoordinatorStarted(now, wall, __version__, retry_failed=True)]
    facts.extend(slots.resized(now, name, slots.slots) for name, slots in environments.items())
    facts.extend(msgspec.structs.replace(fact, at=now) for fact in joined)
    facts.extend((LimitChanged(now, limit), Resumed(now)))
    return facts


def submissions(now: Nanos, samples: Sequence[Sample], world: World) -> list[Fact]:
    """The samples that the batch does not know yet."""
    known = world.trajectories.keys() | world.done | world.failed.keys()
    return [_submitted(now, n, s) for n, s in enumerate(samples) if TrajectoryId(s.id) not in known]


def _submitted(now: Nanos, index: int, sample: Sample) -> SampleSubmitted:
    return SampleSubmitted(
        now,
        TrajectoryId(sample.id),
        index,
        None if sample.group is None else GroupId(sample.group),
        Tokens(sample.prompt_tokens),
        sample.hint,
        tuple(EnvironmentId(name) for name in sample.environments),
    )


def checked_limit(concurrency: int | str, own: int | None, planned: int | None = None) -> int | None:
    """The limit on live trajectories; ``own``: the policy's, ``planned``: the plan's. Raises: ``ConfigError``."""
    if concurrency == "auto":
        return min((limit for limit in (own, planned) if limit is not None), default=None)
    if not isinstance(concurrency, int) or concurrency < 1:
        raise ConfigError(f"must be a number from 1 or 'auto', is {concurrency!r}", where="concurrency")
    return concurrency if own is None else min(own, concurrency)


def checked_slots(name: str, given: int | Slots) -> Slots:
    """An environment as it was given. Raises: ``ConfigError``."""
    slots = given if isinstance(given, Slots) else Slots(given)
    if slots.slots < 1:
        raise ConfigError(f"slots must be at least 1, is {slots.slots}", where=f"environment {name!r}")
    if slots.instances is not None and slots.instances < 1:
        raise ConfigError(f"instances must be at least 1, is {slots.instances}", where=f"environment {name!r}")
    if slots.create_rate is not None and slots.create_rate <= 0:
        raise ConfigError(f"create_rate must be above 0, is {slots.create_rate}", where=f"environment {name!r}")
    return slots
