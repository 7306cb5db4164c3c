"""Lower bounds on the makespan: what no schedule could have been shorter than, on the same engines and slots.

Three terms, the largest counts. *CP*, the critical path: some trajectory's turns and actions, one after another.
*ENV*, one environment: all its actions share its slots, none starts before a first turn, the last turns come after.
*LLM*, the engines: every token takes its part of a step. CP and ENV of a real run rest on the service times that the
run measured, which contain what neighbours in the batch cost; LLM rests on a fitted cost model, so it is an estimate.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from headway.core.progress import Chain, Progress, State, Use
from headway.core.units import EnvironmentId, GroupId, Nanos, Tokens, TrajectoryId, nanos

_TAILS = 16  # thresholds that the subset form tries


class Cost(Protocol):
    """What tokens cost an engine, in seconds: a step is ``base + per_sequence * n + per_token * Σ context``."""

    @property
    def base(self) -> float:
        """Seconds of every step."""
        ...

    @property
    def per_sequence(self) -> float:
        """Seconds that each running sequence adds to a step."""
        ...

    @property
    def per_token(self) -> float:
        """Seconds that each token of context adds to a step."""
        ...

    @property
    def prefill(self) -> float:
        """Seconds per prompt token that is computed."""
        ...


class Action(Protocol):
    """One action of a plan."""

    @property
    def environment(self) -> EnvironmentId:
        """Where it runs."""
        ...

    @property
    def service(self) -> Nanos:
        """How long, with a slot."""
        ...


class Step(Protocol):
    """One turn of a plan and the action behind it; :class:`headway.traces.Step` is one."""

    @property
    def new_tokens(self) -> Tokens:
        """Tokens that join the context before the turn."""
        ...

    @property
    def output_tokens(self) -> Tokens:
        """Tokens that it generates."""
        ...

    @property
    def action(self) -> Action | None:
        """What follows it, if anything does."""
        ...

    @property
    def fresh(self) -> bool:
        """Whether its new tokens are the whole prompt, nothing of the context before being left."""
        ...


@dataclass(frozen=True, slots=True)
class Demand:
    """What one trajectory asks for, whatever the schedule. Fields as in :class:`~headway.core.progress.Work`.

    ``computed``: prompt tokens that no cache can spare, the first prompt included.
    """

    trajectory: TrajectoryId
    group: GroupId | None
    serial: Nanos
    computed: int
    first_prompt: int
    output: int
    weighted: int
    uses: Mapping[EnvironmentId, Use] = field(default_factory=dict[EnvironmentId, Use])


@dataclass(frozen=True, slots=True)
class Engines:
    """The engines of a batch: how many at once, and what one of them holds and runs. None: not known."""

    count: int
    kv_tokens: int | None = None
    max_running: int | None = None


@dataclass(frozen=True, slots=True)
class Term:
    """One lower bound. ``of``: the trajectory or environment that it is about, empty for the engines."""

    kind: Literal["CP", "ENV", "LLM"]
    of: str
    value: Nanos
    estimate: bool = False


def measured(chain: Chain) -> Demand:
    """What a trajectory that is over asked for, by the service times of its run."""
    work = chain.work
    computed = min(work.new, work.prompt - work.cached)
    return Demand(
        chain.id, chain.group, work.serial, computed, work.first_prompt, work.output, work.weighted, work.uses
    )


def modelled(plans: Iterable[tuple[TrajectoryId, GroupId | None, Sequence[Step]]], cost: Cost) -> list[Demand]:
    """What trajectories ask for that are known beforehand, each turn alone on its engine at ``cost``.

    The first prompt of a group costs its first member alone: the others may find it in the cache.
    """
    demands, groups = [], set[GroupId]()
    for trajectory, group, steps in plans:
        cached = group is not None and group in groups
        demands.append(_model(trajectory, group, steps, cost, cached=cached))
        if group is not None:
            groups.add(group)
    return demands


def of_run(progress: Progress, cost: Cost | None = None) -> list[Term]:
    """The terms for everything that is over in a recorded batch; LLM only with a ``cost``. Largest first."""
    over = (chain for chain in progress.chains.values() if chain.state in {State.FINISHED, State.FAILED})
    slots = {place.id: place.most_slots for place in progress.environments.values()}
    known = list(progress.engines.values())
    engines = Engines(
        progress.most_engines,
        _largest([engine.kv_tokens for engine in known]),
        _largest([engine.max_running for engine in known]),
    )
    return terms([measured(chain) for chain in over], slots, engines, cost)


def terms(
    demands: Sequence[Demand],
    slots: Mapping[EnvironmentId, int],
    engines: Engines | None = None,
    cost: Cost | None = None,
) -> list[Term]:
    """Every term that can be known, the largest (which binds) first; empty where nothing was asked for."""
    found = []
    if demands:
        longest = max(demands, key=lambda demand: demand.serial)
        found.append(Term("CP", longest.trajectory, longest.serial))
    for name, count in slots.items():
        uses = [demand.uses[name] for demand in demands if name in demand.uses]
        if uses and count:
            found.append(Term("ENV", name, environment_bound(uses, count)))
    if demands and cost is not None and engines is not None and engines.count:
        found.append(Term("LLM", "", nanos(engine_bound(demands, engines, cost)), estimate=True))
    return sorted(found, key=lambda term: -term.value)


def environment_bound(uses: Sequence[Use], slots: int) -> Nanos:
    """ENV: for any set of trajectories Σd/E + least head + least tail; the largest over sets with long heads and tails.

    All of them are one such set (the plain form), so it is never less than that.
    """
    by_head = sorted(uses, key=lambda use: -use.head)
    tails = sorted(use.tail for use in uses)
    best = 0
    for least in sorted({tails[len(tails) * part // _TAILS] for part in range(_TAILS)}):
        total, tail = 0, tails[-1]
        for use in by_head:
            if use.tail >= least:
                total += use.service
                tail = min(tail, use.tail)
                best = max(best, total // slots + use.head + tail)
    return Nanos(best)


def engine_bound(demands: Sequence[Demand], engines: Engines, cost: Cost) -> float:
    """LLM, in seconds: (1/W) [Σ new/P + Σ o(b + c·ctx) + max(Σ o·a/Bmax, Σ o·ctx·a/KV)].

    Each step's ``base`` is shared by at most Bmax sequences, and by as many as have their context in the cache. The
    first prompts of a group, which it shares, count as the longest of them.
    """
    output = sum(demand.output for demand in demands)
    weighted = sum(demand.weighted for demand in demands) / 2
    most = min(len(demands), engines.max_running or len(demands))
    shared = cost.base * output / most
    if engines.kv_tokens:
        shared = max(shared, cost.base * weighted / engines.kv_tokens)
    decode = cost.per_sequence * output + cost.per_token * weighted + shared
    return (cost.prefill * _computed(demands) + decode) / engines.count


def _computed(demands: Sequence[Demand]) -> int:
    total, longest = 0, dict[GroupId, int]()
    for demand in demands:
        total += demand.computed
        if demand.group is not None:
            first = min(demand.first_prompt, demand.computed)
            total -= first
            longest[demand.group] = max(first, longest.get(demand.group, 0))
    return total + sum(longest.values())


def _model(
    trajectory: TrajectoryId, group: GroupId | None, steps: Sequence[Step], cost: Cost, *, cached: bool
) -> Demand:
    serial = context = computed = output = weighted = 0
    marks: dict[EnvironmentId, tuple[Use, int]] = {}
    for place, step in enumerate(steps):
        fresh = 0 if cached and not place else step.new_tokens
        start, own = step.new_tokens + (0 if step.fresh else context), step.output_tokens
        alone = cost.base + cost.per_sequence + cost.per_token * (start + own / 2)
        serial += nanos(cost.prefill * fresh + own * alone)
        context = start + own
        computed += step.new_tokens
        output += own
        weighted += own * (2 * start + own)
        if step.action is not None:
            name = step.action.environment
            use = marks[name][0] if name in marks else Use(head=Nanos(serial))
            use.actions += 1
            use.service = Nanos(use.service + step.action.service)
            serial += step.action.service
            marks[name] = (use, serial)
    for use, mark in marks.values():
        use.tail = Nanos(serial - mark)
    first = steps[0].new_tokens if steps else 0
    uses = {name: use for name, (use, _) in marks.items()}
    return Demand(trajectory, group, Nanos(serial), computed, first, output, weighted, uses)


def _largest(values: Sequence[int | None]) -> int | None:
    """The largest, or None where one is not known, and so not known to be limited."""
    known = [value for value in values if value is not None]
    return max(known) if known and len(known) == len(values) else None
