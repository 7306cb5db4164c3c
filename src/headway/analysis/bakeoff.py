"""All policies on all settings: who wins where, by how much, and whether that is more than noise.

One policy is the subject; every other one is compared with it on the same batches, seed by seed. Static limits on live
trajectories are swept and stand for one rival, the best of them, chosen anew in every setting with hindsight.
"""

from collections.abc import Mapping, Sequence
from statistics import fmean

import msgspec

from headway.analysis.intervals import Interval, interval, shorter
from headway.analysis.kept import Kept
from headway.analysis.outcome import Outcome
from headway.analysis.simulate import BASELINE, Arm, Progress, Simulated, Source, outcomes, summary
from headway.policies.presets import NAMES
from headway.workloads import ACCEPTANCE, MOST_OVER_BOUND

SUBJECT, ORACLE = "default", "oracle"
STATIC = ("static-8", "static-16", "static-32", "static-64", "static-128", "static-256")
"""Limits that are swept; the best of them in a setting is a rival there."""

KNOWING = frozenset({"history", "longest-first", "oracle"})
"""Those who are told the length of chains, or an earlier run's; to lose to them is no shame."""

OWN = frozenset({"coupled-fifo", "default", "fifo", "random", "caas", "caas-service", "group"})
"""The baseline and Headway's own policies; every name that is in neither set is a rival."""


class Versus(msgspec.Struct, frozen=True):
    """By how many percent the subject's makespan is shorter than another policy's, paired by seed."""

    policy: str
    shorter_pct: float
    ci: Interval | None

    @property
    def lost(self) -> bool:
        """The subject is worse, and by more than noise."""
        return self.ci is not None and self.ci[1] < 0


class Contest(msgspec.Struct, frozen=True):
    """One setting. ``allowed``: the ratio to the lower bound that the setting asks for, if it asks for one."""

    result: Simulated
    versus: tuple[Versus, ...]
    best_static: str | None
    best_rival: str | None
    allowed: float | None


class Bakeoff(msgspec.Struct, frozen=True):
    """Every setting, and what they say together: means over settings, in percent."""

    subject: str
    seeds: int
    contests: tuple[Contest, ...]
    gain_over_best_rival: float | None
    oracle_over_subject: float | None
    losses: tuple[str, ...]


def default_policies() -> list[str]:
    """Every named policy, and the static limits that are swept."""
    return [*(name for name in NAMES if name != "static-N"), *STATIC]


def bakeoff(
    sources: Sequence[Source] = tuple(ACCEPTANCE.values()),
    policies: Sequence[str | Arm] = (),
    seeds: int | Sequence[int] = 4,
    *,
    subject: str = SUBJECT,
    processes: int = 2,
    progress: Progress | None = None,
    kept: Kept | None = None,
) -> Bakeoff:
    """Try everything on everything. ``policies``: all named ones if empty; subject and baseline always take part.

    ``kept``: what is known from an earlier, interrupted call.

    Raises: ``ConfigError`` for an unknown policy.
    """
    chosen = [*(policies or default_policies()), subject, BASELINE]
    found = outcomes(sources, chosen, seeds, processes=processes, progress=progress, kept=kept)
    contests = tuple(
        _contest(source, by_policy, subject) for source, by_policy in zip(sources, found.values(), strict=True)
    )
    gains = [_against(contest, contest.best_rival) for contest in contests]
    oracle = [_against(contest, ORACLE) for contest in contests]
    return Bakeoff(
        subject,
        seeds if isinstance(seeds, int) else len(seeds),
        contests,
        _mean(gains),
        _mean([None if gain is None else -gain for gain in oracle]),
        tuple(
            f"{contest.result.setting}: {versus.policy} by {-versus.shorter_pct:.1f}%"
            for contest in contests
            for versus in contest.versus
            if versus.lost and versus.policy not in KNOWING
        ),
    )


def _contest(source: Source, found: Mapping[str, Sequence[Outcome]], subject: str) -> Contest:
    statics = [name for name in found if name.startswith("static-")]
    best_static = min(statics, key=lambda name: _mean_makespan(found[name]), default=None)
    shown = {name: runs for name, runs in found.items() if name not in statics}
    if best_static is not None:
        shown[best_static] = found[best_static]
    rivals = [name for name in shown if name not in OWN | KNOWING | {subject}]
    best_rival = min(rivals, key=lambda name: _mean_makespan(shown[name]), default=None)
    own = [run.makespan for run in found[subject]]
    versus = []
    for name, runs in shown.items():
        if name != subject:
            gains = shorter(own, [run.makespan for run in runs])
            versus.append(Versus(name, fmean(gains), interval(gains)))
    result = summary(source, shown)
    allowed = MOST_OVER_BOUND.get(result.setting)
    return Contest(result, tuple(versus), best_static, best_rival, allowed[0] if allowed else None)


def _mean_makespan(runs: Sequence[Outcome]) -> float:
    return fmean(run.makespan for run in runs)


def _against(contest: Contest, name: str | None) -> float | None:
    return next((versus.shorter_pct for versus in contest.versus if versus.policy == name), None)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None
