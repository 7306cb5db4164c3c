"""The main job, side by side: a batch of real BFCL tasks under ``coupled-fifo`` and under ``default``.

``python benchmarks/demo.py [--chains 24] [--slots 6] [--pairs 1] [--engine URL ...] [--json FILE]``. Two local vLLM
replicas are started unless engines are given. Runs are interleaved, the order within a pair alternates, and each run
has a cache salt of its own, so that none lives off another's prefixes. The scripted agent executes the official calls
for real; these simulators answer at once, so a seeded delay stands for remote APIs: lognormal, mean 1.5 s, sigma 1,
seed 0, fixed before anything was measured. One pair without the delay is reported beside it.
"""

import argparse
import json
import math
import statistics
import sys
import tempfile
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path

from headway.adapters import replicas
from headway.cli import compose
from headway.errors import HeadwayError
from headway.views import summary, text

POLICIES = ("coupled-fifo", "default")
# Student's t, two-sided 95%, by degrees of freedom; beyond the table the normal's value is close enough.
T95 = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262}


@dataclass(frozen=True)
class Run:
    """One run: ``bound_s`` is the largest credible lower bound on the makespan of its own measured services."""

    policy: str
    delayed: bool
    makespan_s: float
    bound_s: float
    hit_rate: float | None
    score: float
    journal: str


def play(policy: str, urls: list[str], folder: Path, chains: int, slots: int, *, delayed: bool) -> Run:
    """Run the batch once, and print where its time went."""
    work = compose.Work(what="bfcl", limit=chains, agent="scripted", inject_latency=delayed, salt=uuid.uuid4().hex)
    settings = compose.settings(None, {"engines": urls, "slots": slots, "policy": policy})
    journal = folder / f"{policy}-{'delayed' if delayed else 'plain'}-{uuid.uuid4().hex[:8]}.headway"
    outcome = compose.execute(work, settings, journal, resume=False, say=note, quiet=not sys.stderr.isatty())
    if outcome.failed:
        raise HeadwayError(f"{outcome.failed} samples failed: {next(iter(outcome.failures.values()))}")
    known = summary.load(journal)
    print(text.report(known), end="\n\n", flush=True)
    bound = known.binding.value_s if known.binding else math.nan
    hit = known.batch.hit_rate
    return Run(
        policy,
        delayed,
        outcome.makespan_s or math.nan,
        bound,
        hit,
        (outcome.score or {}).get("mean", math.nan),
        str(journal),
    )


def note(line: str) -> None:
    """Tell how it goes."""
    print(line, file=sys.stderr, flush=True)


def pair(number: int, urls: list[str], folder: Path, args: argparse.Namespace, *, delayed: bool) -> list[Run]:
    """Run both policies once; every second pair the other way round."""
    order = POLICIES if number % 2 == 0 else POLICIES[::-1]
    runs = [play(policy, urls, folder, args.chains, args.slots, delayed=delayed) for policy in order]
    return sorted(runs, key=lambda run: POLICIES.index(run.policy))


def cut(runs: list[Run]) -> float:
    """How much shorter the second policy's makespan is, in percent of the first's."""
    return 100 * (1 - runs[1].makespan_s / runs[0].makespan_s)


def line(runs: list[Run]) -> str:
    """One pair in one line."""
    coupled, default = runs
    label = " [injected action delay, mean 1.5 s]" if coupled.delayed else " [no injected delay]"
    return (
        f"coupled-fifo {coupled.makespan_s:.1f} s, default {default.makespan_s:.1f} s: "
        f"{cut(runs):.1f}% shorter (bound {default.bound_s:.1f} s){label}"
    )


def interval(values: list[float]) -> str:
    """Mean and 95% interval of the paired cuts."""
    if len(values) < 2:
        return ""
    half = T95.get(len(values) - 1, 1.96) * statistics.stdev(values) / math.sqrt(len(values))
    mean = statistics.fmean(values)
    return f"{len(values)} pairs: {mean:.1f}% shorter, 95% interval {mean - half:.1f}% to {mean + half:.1f}%"


def measure(urls: list[str], args: argparse.Namespace) -> None:
    """All pairs, each summed up as soon as it is there; then what they come to together."""
    with tempfile.TemporaryDirectory(prefix="headway-demo-") as folder:
        done = [pair(0, urls, Path(folder), args, delayed=False)]
        for number in range(args.pairs):
            note(f"{line(done[-1])}\npair {number + 1} of {args.pairs}")
            done.append(pair(number, urls, Path(folder), args, delayed=True))
            if args.json:
                args.json.write_text(json.dumps([[asdict(run) for run in runs] for runs in done], indent=1))
    scores = {f"{run.score:.3f}" for runs in done for run in runs}
    print(f"scores by the official checker: {', '.join(sorted(scores))} (the same for all: {len(scores) == 1})")
    for runs in done:
        print(line(runs))
    if args.pairs > 1:
        print(interval([cut(runs) for runs in done[1:]]))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chains", type=int, default=24)
    parser.add_argument("--slots", type=int, default=6)
    parser.add_argument("--pairs", type=int, default=1)
    parser.add_argument("--engine", action="append", help="use these engines instead of local replicas")
    parser.add_argument("--json", type=Path, help="write every run's figures there")
    args = parser.parse_args()
    before = {replica.url for replica in replicas.listed()}
    started: list[replicas.Replica] = []
    try:
        if not args.engine:
            started = replicas.up(2, announce=note)
        measure(args.engine or [r.url for r in started], args)
    except HeadwayError as error:
        note(f"demo: {error}")
        return 1
    finally:
        replicas.down([r for r in started if r.url not in before])
    return 0


if __name__ == "__main__":
    sys.exit(main())
