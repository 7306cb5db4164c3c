"""The read model as plain values: what every view shows and what ``--json`` prints.

Times are seconds of batch time (gaps between coordinators left out), counted from the first admission where a name
says ``to`` or ``at``. What can't be known is None, never 0. Names are stable: scripts rely on them.
"""

from heapq import nlargest

import msgspec

from headway.core.progress.fold import Progress
from headway.core.progress.outlook import eta
from headway.core.progress.records import Chain, Engine, Environment, Phase, State
from headway.core.units import Nanos, seconds

PARTS = (50, 90, 95, 99, 100)


class SampleCounts(msgspec.Struct, frozen=True):
    """Samples by state; ``done`` is finished and failed."""

    submitted: int
    pending: int
    live: int
    finished: int
    failed: int
    done: int


class PhaseCounts(msgspec.Struct, frozen=True):
    """Live trajectories by what they do now."""

    inference_queue: int
    inference: int
    slot_queue: int
    action: int
    idle: int


class PhaseSeconds(msgspec.Struct, frozen=True):
    """Seconds by phase; see :class:`~headway.core.progress.records.Phase` for what counts where."""

    inference_queue: float
    inference: float
    slot_queue: float
    action: float
    idle: float


class EngineSnapshot(msgspec.Struct, frozen=True):
    """One engine. Tokens and rates about the cache are None where it does not report cached tokens.

    ``hit_rate``: of the tokens that turns after a stream's first could have found in the cache, the share found.
    ``expected_cached`` against ``cached_tokens``: what the residency model believed against what the engine said.
    """

    engine: str
    kind: str
    alive: bool
    running: int
    turns: int
    failed_turns: int
    moved_turns: int
    prompt_tokens: int
    output_tokens: int
    cached_tokens: int | None
    expected_cached: int | None
    hit_rate: float | None
    busy_s: float
    mean_batch: float | None
    service_s: float
    wait_s: float
    longest_wait_s: float
    kv_usage: float | None
    waiting: int | None
    preemptions: int | None


class EnvironmentSnapshot(msgspec.Struct, frozen=True):
    """One environment. ``busy_s``: slots times seconds in use; ``occupancy``: its share of what was there."""

    environment: str
    slots: int
    busy: int
    queued: int
    actions: int
    failed_actions: int
    busy_s: float
    occupancy: float | None
    service_s: float
    wait_s: float
    longest_wait_s: float


class LossSnapshot(msgspec.Struct, frozen=True):
    """An engine that went away, and how many turns were running there."""

    at_s: float
    engine: str
    cause: str
    turns: int


class LostWork(msgspec.Struct, frozen=True):
    """What attempts had done that were given up and began anew."""

    attempts: int
    turns: int
    actions: int
    service_s: float
    live_s: float


class Retries(msgspec.Struct, frozen=True):
    """What failed, by kind, and what of it was tried again."""

    turns_failed: dict[str, int]
    turns_retried: dict[str, int]
    actions_failed: dict[str, int]
    actions_retried: dict[str, int]
    trajectories_retried: int


class ChainSnapshot(msgspec.Struct, frozen=True):
    """One trajectory, its latest attempt: how long it was live and in which phases."""

    trajectory: str
    group: str | None
    state: str
    attempts: int
    turns: int
    actions: int
    admitted_at_s: float
    live_s: float
    phases_s: PhaseSeconds
    phase: str | None
    cause: str | None


class Snapshot(msgspec.Struct, frozen=True):
    """A batch at one moment.

    ``makespan_s``: first admission to last finish, so far while not ``complete``. ``eta_s``: an estimate
    of what is left. ``time_to_s``: to that percentage of
    all samples done; None: not reached. ``phases_s``: trajectory time, all attempts. ``cached_share``: of all prompt
    tokens. ``downtime_s``: between coordinators, in no other number.
    """

    complete: bool
    paused: bool
    samples: SampleCounts
    makespan_s: float | None
    eta_s: float | None
    time_to_s: dict[str, float | None]
    phases: PhaseCounts
    phases_s: PhaseSeconds
    turns: int
    actions: int
    prompt_tokens: int
    output_tokens: int
    cached_tokens: int | None
    hit_rate: float | None
    cached_share: float | None
    mean_score: float | None
    moved_turns: int
    retries: Retries
    failures: dict[str, int]
    engines: list[EngineSnapshot]
    environments: list[EnvironmentSnapshot]
    engine_losses: list[LossSnapshot]
    lost: LostWork
    attempts: int
    coordinators: int
    downtime_s: float
    limit: int | None
    slowest: list[ChainSnapshot]


def snapshot(progress: Progress, *, now: Nanos | None = None, chains: int = 10) -> Snapshot:
    """Draw up the numbers at ``now`` (a time of the facts' clock; default: the last fact's).

    ``chains``: how many of the slowest to list; 0 saves the look at every trajectory.
    """
    at = progress.now if now is None else max(progress.now, progress.batch_time(now))
    counts = progress.counts
    done = counts[State.FINISHED] + counts[State.FAILED]
    complete = done > 0 and done == len(progress.chains)
    reporting = [engine for engine in progress.engines.values() if engine.reporting]
    engines = [_engine(engine, at) for engine in progress.engines.values()]
    environments = [_environment(environment, at) for environment in progress.environments.values()]
    lost = progress.lost
    return Snapshot(
        complete=complete,
        paused=progress.paused,
        samples=SampleCounts(len(progress.chains), counts[0], counts[1], counts[2], counts[3], done),
        makespan_s=_makespan(progress, at, complete=complete),
        eta_s=_eta(progress, at, complete=complete),
        time_to_s={str(part): _time_to(progress, part) for part in PARTS},
        phases=PhaseCounts(*progress.population),
        phases_s=PhaseSeconds(*(_s(progress.spent(phase, at)) for phase in Phase)),
        turns=sum(engine.turns for engine in engines),
        actions=sum(environment.actions for environment in environments),
        prompt_tokens=sum(engine.prompt_tokens for engine in engines),
        output_tokens=sum(engine.output_tokens for engine in engines),
        cached_tokens=sum(engine.cached for engine in reporting) if reporting else None,
        hit_rate=_share(sum(e.reused for e in reporting), sum(e.reusable for e in reporting)),
        cached_share=_share(sum(e.cached for e in reporting), sum(e.reported for e in reporting)),
        mean_score=progress.scores / progress.scored if progress.scored else None,
        moved_turns=sum(engine.moved_turns for engine in engines),
        retries=_retries(progress),
        failures=dict(progress.failures.most_common()),
        engines=engines,
        environments=environments,
        engine_losses=[
            LossSnapshot(_s(loss.at - (progress.first_admission or 0)), loss.engine, loss.cause, loss.turns)
            for loss in progress.losses
        ],
        lost=LostWork(lost.attempts, lost.turns, lost.actions, _s(lost.service), _s(lost.live)),
        attempts=progress.admissions,
        coordinators=progress.coordinators,
        downtime_s=_s(progress.downtime),
        limit=progress.limit,
        slowest=_slowest(progress, at, chains),
    )


def _makespan(progress: Progress, at: int, *, complete: bool) -> float | None:
    first = progress.first_admission
    if first is None:
        return None
    return _s((progress.done_at[-1] if complete else at) - first)


def _eta(progress: Progress, at: int, *, complete: bool) -> float | None:
    left = None if complete else eta(progress, at)
    return None if left is None else seconds(left)


def _time_to(progress: Progress, part: int) -> float | None:
    needed = -(-len(progress.chains) * part // 100)
    if progress.first_admission is None or not 0 < needed <= len(progress.done_at):
        return None
    return _s(progress.done_at[needed - 1] - progress.first_admission)


def _retries(progress: Progress) -> Retries:
    return Retries(
        {str(kind): count for kind, count in progress.turn_failures.items()},
        {str(kind): count for kind, count in progress.turn_retries.items()},
        {str(kind): count for kind, count in progress.action_failures.items()},
        {str(kind): count for kind, count in progress.action_retries.items()},
        progress.trajectory_retries,
    )


def _engine(engine: Engine, at: int) -> EngineSnapshot:
    span = at - engine.since
    busy = engine.busy + (span if engine.running else 0)
    return EngineSnapshot(
        engine=engine.id,
        kind=engine.kind,
        alive=engine.alive,
        running=engine.running,
        turns=engine.turns,
        failed_turns=engine.failed,
        moved_turns=engine.moved,
        prompt_tokens=engine.prompt,
        output_tokens=engine.output,
        cached_tokens=engine.cached if engine.reporting else None,
        expected_cached=engine.expected if engine.reporting else None,
        hit_rate=_share(engine.reused, engine.reusable),
        busy_s=_s(busy),
        mean_batch=_share(engine.area + engine.running * span, busy),
        service_s=_s(engine.service),
        wait_s=_s(engine.waited),
        longest_wait_s=_s(engine.longest_wait),
        kv_usage=engine.kv_usage,
        waiting=engine.engine_waiting,
        preemptions=engine.preemptions,
    )


def _environment(environment: Environment, at: int) -> EnvironmentSnapshot:
    span = at - environment.since
    busy = environment.area + environment.busy * span
    return EnvironmentSnapshot(
        environment=environment.id,
        slots=environment.slots,
        busy=environment.busy,
        queued=environment.queued,
        actions=environment.actions,
        failed_actions=environment.failed,
        busy_s=_s(busy),
        occupancy=_share(busy, environment.capacity + environment.slots * span),
        service_s=_s(environment.service),
        wait_s=_s(environment.waited),
        longest_wait_s=_s(environment.longest_wait),
    )


def _slowest(progress: Progress, at: int, count: int) -> list[ChainSnapshot]:
    if not count:
        return []
    begun = (chain for chain in progress.chains.values() if chain.state is not State.PENDING and chain.spent)
    slowest = nlargest(count, begun, key=lambda chain: (_live(chain, at), -chain.index))
    return [describe(progress, chain, at) for chain in slowest]


def _live(chain: Chain, at: int) -> int:
    return (at if chain.state is State.LIVE else chain.ended) - chain.admitted


def describe(progress: Progress, chain: Chain, at: int) -> ChainSnapshot:
    """One trajectory as plain values, at a batch time."""
    live = chain.state is State.LIVE
    spent = list(chain.spent) or [0] * len(Phase)
    if live:
        spent[chain.phase] += at - chain.since
    return ChainSnapshot(
        trajectory=chain.id,
        group=chain.group,
        state=chain.state.name.lower(),
        attempts=chain.admissions,
        turns=chain.work.turns,
        actions=chain.work.actions,
        admitted_at_s=_s(chain.admitted - (progress.first_admission or 0)),
        live_s=_s(_live(chain, at)),
        phases_s=PhaseSeconds(*map(_s, spent)),
        phase=chain.phase.name.lower() if live else None,
        cause=chain.cause,
    )


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _s(value: int) -> float:
    return seconds(Nanos(value))
