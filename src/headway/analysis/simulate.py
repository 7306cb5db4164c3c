"""Policies tried on the same simulated batches, seed by seed, in several processes.

Every seed is one batch, drawn once and played under each policy, so differences are paired. A percentage "against the
baseline" says by how much the makespan is *shorter* than the baseline's.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from multiprocessing import get_context
from random import Random
from statistics import fmean

import msgspec

from headway.analysis.intervals import Interval, interval, shorter
from headway.analysis.kept import Kept, digest
from headway.analysis.outcome import Outcome
from headway.analysis.play import Drawn, Played, draw, play
from headway.core.bounds import Term
from headway.core.policy import Policies
from headway.core.units import seconds
from headway.policies.presets import preset, with_seed
from headway.traces import Script
from headway.workloads import Setting

BASELINE = "coupled-fifo"
"""What every "against the baseline" is against: at most as many trajectories as slots, each holding one for life."""

Progress = Callable[[int, int, str], None]
"""Told after each job: jobs done, jobs in all, what was done last."""


@dataclass(frozen=True, slots=True)
class Traced:
    """Recorded trajectories in place of generated ones; a seed only shuffles their order."""

    setting: Setting
    scripts: tuple[Script, ...]


@dataclass(frozen=True, slots=True)
class Arm:
    """A policy that has no name of its own: what to try, under which name. ``limit``: most live trajectories.

    With more than one process it must be possible to pickle it, which a named policy need not be.
    """

    policies: Policies
    limit: int | None = None

    @property
    def name(self) -> str:
        """What it is called in results."""
        return self.policies.name


Source = Setting | Traced
_Job = tuple[Source, int, list[str | Arm]]


class Row(msgspec.Struct, frozen=True):
    """One policy on one setting, over all seeds.

    Makespans and waits in seconds, means over seeds with 95% intervals (None with one seed); ``max_wait`` is the
    longest wait for a slot or an engine in any of them. ``vs_baseline_pct``: percent shorter than the baseline.
    ``hit_rate``: of prompt tokens that an earlier turn had computed, first turns left out, and what was expected.
    """

    policy: str
    makespan_mean: float
    makespan_ci: Interval | None
    over_bound_mean: float
    over_bound_ci: Interval | None
    vs_baseline_pct: float
    vs_baseline_ci: Interval | None
    hit_rate: float
    expected_hit_rate: float
    max_wait: float
    preemptions: float
    failed: int


class Simulated(msgspec.Struct, frozen=True):
    """Policies on one setting. ``binding``: how often each term of the lower bound was the largest."""

    setting: str
    source: str
    baseline: str
    seeds: int
    bound_mean: float
    binding: dict[str, int]
    rows: tuple[Row, ...]


def simulate(
    source: Source,
    policies: Sequence[str | Arm],
    seeds: int | Sequence[int] = 8,
    *,
    processes: int = 1,
    progress: Progress | None = None,
    kept: Kept | None = None,
) -> Simulated:
    """Try policies on a setting. Rows come in the order asked for; the baseline is played in any case.

    ``seeds``: how many from 0 on, or which. ``kept``: what is known from an earlier, interrupted call.
    Raises: ``ConfigError`` for an unknown policy, ``BugError`` where work got lost.
    """
    (found,) = outcomes(
        [source], [*policies, BASELINE], seeds, processes=processes, progress=progress, kept=kept
    ).values()
    return summary(source, found, [_name(policy) for policy in policies])


def outcomes(
    sources: Sequence[Source],
    policies: Sequence[str | Arm],
    seeds: int | Sequence[int] = 8,
    *,
    processes: int = 1,
    progress: Progress | None = None,
    kept: Kept | None = None,
) -> dict[str, dict[str, list[Outcome]]]:
    """Every policy on every setting: by setting, then policy, the outcome of each seed in order.

    Raises: ``ConfigError`` for an unknown policy, ``BugError`` where work got lost.
    """
    arms = list({_arm(policy).name: policy for policy in policies}.values())  # unknown names are refused here
    numbers = list(range(seeds)) if isinstance(seeds, int) else list(seeds)
    keys = {_setting(source).name: digest(source) for source in sources}
    found: dict[str, dict[str, list[Outcome]]] = {name: {arm.name: [] for arm in map(_arm, arms)} for name in keys}
    jobs = []
    for source in sources:
        for seed in numbers:
            old, todo = _recalled(keys[_setting(source).name], seed, arms, kept)
            for outcome in old:
                found[outcome.setting][outcome.policy].append(outcome)
            jobs += [(source, seed, todo)] if todo else []
    for done, batch in enumerate(_work(jobs, processes), 1):
        if kept is not None:
            kept.add(keys[batch[0].setting], batch)
        for outcome in batch:
            found[outcome.setting][outcome.policy].append(outcome)
        if progress is not None:
            progress(done, len(jobs), f"{batch[0].setting} seed {batch[0].seed}")
    for by_policy in found.values():
        for runs in by_policy.values():
            runs.sort(key=lambda outcome: numbers.index(outcome.seed))
    return found


def summary(source: Source, found: Mapping[str, Sequence[Outcome]], names: Sequence[str] = ()) -> Simulated:
    """Boil outcomes of one setting down to a row per policy. ``names``: which, in order; all if empty."""
    base = found[BASELINE]
    binding: dict[str, int] = {}
    for outcome in base:
        binding[outcome.binding] = binding.get(outcome.binding, 0) + 1
    setting = _setting(source)
    rows = tuple(_row(name, found[name], base) for name in names or found)
    return Simulated(
        setting.name, setting.source, BASELINE, len(base), fmean(outcome.bound for outcome in base), binding, rows
    )


def drawn(source: Source, seed: int) -> Drawn:
    """The batch of a seed."""
    if isinstance(source, Setting):
        return draw(source, seed)
    scripts = list(source.scripts)
    if seed:
        Random(seed).shuffle(scripts)  # noqa: S311 - a simulation's dice
    return Drawn(source.setting, tuple(scripts), tuple(float(script.actions) for script in scripts))


def _recalled(
    source: str, seed: int, arms: list[str | Arm], kept: Kept | None
) -> tuple[list[Outcome], list[str | Arm]]:
    """What is known of a seed's batch already, and who still has to play it."""
    if kept is None:
        return [], arms
    old = {_name(arm): kept.find(source, _name(arm), seed) for arm in arms}
    return [one for one in old.values() if one is not None], [arm for arm in arms if old[_name(arm)] is None]


def _work(jobs: Sequence[_Job], processes: int) -> Iterator[list[Outcome]]:
    if processes <= 1 or len(jobs) == 1:
        yield from map(_job, jobs)
        return
    with ProcessPoolExecutor(min(processes, len(jobs)), mp_context=get_context("spawn")) as pool:
        pending = [pool.submit(_job, job) for job in jobs]
        try:
            for future in as_completed(pending):
                yield future.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _job(job: _Job) -> list[Outcome]:
    source, seed, arms = job
    batch = drawn(source, seed)
    binding = batch.bounds()[0]
    runs = (play(batch, with_seed(arm.policies, seed), limit=arm.limit) for arm in map(_arm, arms))
    return [_outcome(run, seed, batch.setting.name, binding) for run in runs]


def _outcome(played: Played, seed: int, setting: str, binding: Term) -> Outcome:
    return Outcome(
        setting,
        played.policy,
        seed,
        played.makespan,
        seconds(binding.value),
        binding.kind,
        played.hit_rate,
        played.expected_hit_rate,
        played.max_wait,
        played.preemptions,
        played.evictions,
        played.facts,
        played.failed,
    )


def _row(name: str, runs: Sequence[Outcome], base: Sequence[Outcome]) -> Row:
    makespans = [run.makespan for run in runs]
    over = [run.over_bound for run in runs]
    gains = shorter(makespans, [run.makespan for run in base])
    return Row(
        policy=name,
        makespan_mean=fmean(makespans),
        makespan_ci=interval(makespans),
        over_bound_mean=fmean(over),
        over_bound_ci=interval(over),
        vs_baseline_pct=fmean(gains),
        vs_baseline_ci=interval(gains),
        hit_rate=fmean(run.hit_rate for run in runs),
        expected_hit_rate=fmean(run.expected_hit_rate for run in runs),
        max_wait=max(run.max_wait for run in runs),
        preemptions=fmean(run.preemptions for run in runs),
        failed=sum(run.failed for run in runs),
    )


def _setting(source: Source) -> Setting:
    return source if isinstance(source, Setting) else source.setting


def _name(policy: str | Arm) -> str:
    return policy if isinstance(policy, str) else policy.name


def _arm(policy: str | Arm) -> Arm:
    if isinstance(policy, Arm):
        return policy
    policies, limit = preset(policy)
    return Arm(replace(policies, name=policy), limit)
