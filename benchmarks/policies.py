"""How good the default policy is: against its bounds, its rivals, the oracle, and on settings that were moved.

``python benchmarks/policies.py [--seeds 8] [--first-seed 0] [--moved] [--keep FILE] [--json]``

Prints a table over all settings. ``asked``: the makespan over lower bound that is asked for; it is met within two
standard errors of the mean. Differences from a policy say by how many percent the default is shorter, paired by seed,
with 95% intervals. With ``--moved`` mean length, spread and slots are moved by a fifth each way, and the default meets
only the two first-come-first-served policies. It can be interrupted: what is done is kept in FILE.
"""

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean

import msgspec

from headway.analysis.bakeoff import KNOWING, OWN, STATIC, SUBJECT, default_policies
from headway.analysis.intervals import Interval, interval, shorter, standard_error
from headway.analysis.kept import Kept
from headway.analysis.outcome import Outcome
from headway.analysis.simulate import BASELINE, outcomes
from headway.workloads import ACCEPTANCE, MOST_OVER_BOUND, Setting
from headway.workloads.setting import moved

FIFO, ORACLE = "fifo", "oracle"
FAR = (0.8, 1.2)
_HEAD = (
    *("setting", "over bound", "asked", "hit", "longest wait", "vs coupled", "vs fifo"),
    *("vs best static", "vs best rival", "vs oracle"),
)


class Gain(msgspec.Struct, frozen=True):
    """By how many percent the default is shorter than ``policy``."""

    policy: str
    percent: float
    ci: Interval | None

    @property
    def lost(self) -> bool:
        """The default is longer, by more than noise."""
        return self.ci is not None and self.ci[1] < 0

    def __str__(self) -> str:
        """The gain and its interval."""
        span = "" if self.ci is None else f" ({self.ci[0]:+.1f} to {self.ci[1]:+.1f})"
        return f"{self.percent:+.1f}%{span}"


class Verdict(msgspec.Struct, frozen=True):
    """One setting. ``missed``: by how much the mean exceeds what is asked and two standard errors; 0: it does not."""

    setting: str
    over_bound: float
    error: float | None
    asked: float | None
    missed: float
    hit_rate: float
    longest_wait: float
    coupled: Gain
    fifo: Gain
    best_static: Gain | None
    best_rival: Gain | None
    oracle: Gain | None
    losses: tuple[str, ...]


def shifted() -> Iterator[Setting]:
    """Every setting with its mean length, its spread and its slots moved by a fifth, one at a time."""
    for setting in ACCEPTANCE.values():
        for factor in FAR:
            yield moved(setting, mean=factor)
            yield moved(setting, sigma=factor)
            yield moved(setting, slots=factor)


def judged(name: str, found: dict[str, list[Outcome]]) -> Verdict:
    """What one setting's outcomes come to."""
    own = found[SUBJECT]
    over = [run.over_bound for run in own]
    error = standard_error(over)
    allowed = MOST_OVER_BOUND.get(name)
    asked = None if allowed is None else allowed[0]
    slack = 0.0 if asked is None else fmean(over) - asked - 2 * (error or 0.0)
    statics = [policy for policy in found if policy in STATIC]
    rivals = [policy for policy in found if policy not in OWN | KNOWING]
    gains = {policy: _gain(policy, own, runs) for policy, runs in found.items() if policy != SUBJECT}
    return Verdict(
        name,
        fmean(over),
        error,
        asked,
        max(0.0, slack),
        fmean(run.hit_rate for run in own),
        max(run.max_wait for run in own),
        gains[BASELINE],
        gains[FIFO],
        _best(statics, found, gains),
        _best(rivals, found, gains),
        gains.get(ORACLE),
        tuple(f"{gain.policy} {gain}" for gain in gains.values() if gain.lost and gain.policy not in KNOWING),
    )


def _gain(policy: str, own: Sequence[Outcome], other: Sequence[Outcome]) -> Gain:
    gains = shorter([run.makespan for run in own], [run.makespan for run in other])
    return Gain(policy, fmean(gains), interval(gains))


def _best(names: Sequence[str], found: dict[str, list[Outcome]], gains: dict[str, Gain]) -> Gain | None:
    """The gain over the policy with the shortest mean makespan of some."""
    best = min(names, key=lambda name: fmean(run.makespan for run in found[name]), default=None)
    return None if best is None else gains[best]


def show(verdicts: Sequence[Verdict]) -> str:
    """The table, as Markdown, and what it comes to."""
    lines = [f"| {' | '.join(_HEAD)} |", "|---|" + "--:|" * (len(_HEAD) - 1)]
    for one in verdicts:
        spread = "" if one.error is None else f" ± {one.error:.2f}"
        asked = (
            "-" if one.asked is None else f"{one.asked:.2f}" + (f", missed by {one.missed:.2f}" if one.missed else "")
        )
        named = ["-" if gain is None else f"{gain} `{gain.policy}`" for gain in (one.best_static, one.best_rival)]
        cells = [
            one.setting,
            f"{one.over_bound:.2f}{spread}",
            asked,
            f"{one.hit_rate:.3f}",
            f"{one.longest_wait:.0f} s",
            str(one.coupled),
            str(one.fifo),
            *named,
            "-" if one.oracle is None else str(one.oracle),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    rivals = [one.best_rival.percent for one in verdicts if one.best_rival is not None]
    oracle = [one.oracle.percent for one in verdicts if one.oracle is not None]
    lines.append("")
    lines.append(
        f"Mean against coupled-fifo {fmean(one.coupled.percent for one in verdicts):+.1f}%, against fifo "
        f"{fmean(one.fifo.percent for one in verdicts):+.1f}%."
    )
    if rivals and oracle:
        lines.append(
            f"Mean against each setting's best rival {fmean(rivals):+.1f}%, against the oracle {fmean(oracle):+.1f}%."
        )
    lost = [f"{one.setting}: {loss}" for one in verdicts for loss in one.losses]
    lines.append(f"Longer by more than noise: {'; '.join(lost) or 'nowhere'}.")
    return "\n".join(lines)


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--moved", action="store_true", help="the moved settings, against fifo and coupled-fifo only")
    parser.add_argument("--policy", default="", help="comma separated; every named one if not given")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--keep", type=Path, help="a file that keeps what is done")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    settings = list(shifted()) if options.moved else list(ACCEPTANCE.values())
    few = options.policy.split(",") if options.policy else [] if options.moved else default_policies()
    found = outcomes(
        settings,
        [SUBJECT, BASELINE, FIFO, *few],
        range(options.first_seed, options.first_seed + options.seeds),
        processes=options.processes,
        progress=lambda done, total, what: print(f"\r{done}/{total} {what:<60}", end="", file=sys.stderr, flush=True),
        kept=None if options.keep is None else Kept(options.keep),
    )
    verdicts = [judged(setting.name, found[setting.name]) for setting in settings]
    print(file=sys.stderr)
    print(json.dumps(msgspec.to_builtins(verdicts), indent=2) if options.json else show(verdicts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
