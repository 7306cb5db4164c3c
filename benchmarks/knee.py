"""The knee on real engines: live trajectories swept on one fixed workload, against the planned C* and ``auto``.

``python benchmarks/knee.py [--live 6,8,10,...] [--repeats 5] [--engine URL --engine URL] [--out DIR] [--most N]``

Two local replicas of the 80M hybrid model are started with a cache of 160 blocks each, unless engines are given. One
run is recorded first: the workload and the time model of the plan come from it, the geometry from the live engine. Then
every repeat plays all limits, and ``auto``, in an order of its own. The sweep (``static-N``) has no residency control;
``auto`` has the plan. Runs have equal prompts but for their first token, so that none lives off another's cache.

Runs are kept in DIR: an interrupted sweep goes on where it stopped (settings and engines must then be the same).

Throughput is turns per second from the start until 90% of the turns are done, so that the tail of a fixed batch does
not count. The knee is the largest limit whose mean throughput is within 5% of the best mean. Prints a table, writes
``knee.json`` and ``knee.svg``.
"""

import argparse
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from statistics import fmean

import anyio
import msgspec

from headway import Batch, Sample, Slots, Trajectory, journal
from headway.adapters import replicas
from headway.adapters.engines import connect
from headway.analysis.intervals import Interval, interval
from headway.analysis.profile import fitted, profile
from headway.cli import planning
from headway.core.facts import TurnFinished
from headway.core.progress import snapshot
from headway.core.units import Bytes, Nanos, seconds
from headway.hybrid.plan import Plan, plan
from headway.hybrid.render import render
from headway.hybrid.vllm import Vllm

MODEL = "small-qwen3-next"
BLOCKS = 160
AUTO = "auto"
MARK = 300
"""First token of the recorded run's prompts; later runs count on."""

NEAR = 0.05


@dataclass(frozen=True)
class Turn:
    """What one turn adds and generates, and the action after it. ``new``: token ids."""

    new: list[int]
    output: int
    action: float


@dataclass(frozen=True)
class Run:
    """One run of the workload."""

    live: str
    repeat: int
    makespan: float
    throughput: float
    hit_rate: float
    preemptions: int


@dataclass(frozen=True)
class Row:
    """All runs with one limit: means, and 95% intervals where there are several."""

    live: str
    makespan: float
    makespan_ci: Interval | None
    throughput: float
    throughput_ci: Interval | None
    hit_rate: float
    preemptions: float


def workload(chains: int, action: float, seed: int) -> list[list[Turn]]:
    """Chains of 4 to 8 turns: about 2,000 tokens first, then 100 to 200 a turn, 4 of output.

    Computing a lost history again costs several times what a turn costs otherwise, so that losing it shows. Actions are
    exponential, and long enough that memory runs out before inference saturates.
    """
    dice = Random(seed)
    found = []
    for _ in range(chains):
        turns = dice.randint(4, 8)
        sizes = [dice.randint(1800, 2200), *(dice.randint(100, 200) for _ in range(turns - 1))]
        actions = [min(4 * action, dice.expovariate(1 / action)) for _ in sizes]
        ids = [[dice.randrange(300, 8000) for _ in range(size)] for size in sizes]
        found.append([Turn(new, 4, action) for new, action in zip(ids, actions, strict=True)])
    return found


def solver(chains: list[list[Turn]], mark: int) -> Callable[[Sample, Trajectory], Awaitable[None]]:
    """The agent: it follows its chain to the letter. ``mark`` becomes the first token of every prompt."""

    async def solve(sample: Sample, trajectory: Trajectory) -> None:
        prompt = [mark]
        for turn in chains[int(sample.id)]:
            prompt += turn.new
            fixed = {"max_tokens": turn.output, "min_tokens": turn.output, "ignore_eos": True, "temperature": 0}
            answer = await trajectory.complete(prompt, return_token_ids=True, **fixed)
            prompt += answer.body["choices"][0]["token_ids"]
            async with trajectory.action("tool"):
                await anyio.sleep(turn.action)

    return solve


async def play(
    urls: Sequence[str], chains: list[list[Turn]], live: str, mark: int, file: Path, made: Plan | None
) -> Run:
    """Run the batch once. ``live``: a number, or ``auto`` with a plan."""
    how = {"plan": made} if live == AUTO else {"policy": f"static-{live}"}
    batch = Batch(urls, {"tool": Slots(len(chains))}, journal=file, **how)
    before = await preemptions(urls)
    results = await batch.run(solver(chains, mark), [Sample(str(n)) for n in range(len(chains))])
    failed = [result.failure for result in results if not result.ok]
    if failed:
        raise SystemExit(f"{len(failed)} chains failed: {failed[0]}")
    found = snapshot(batch.progress)
    ends = [fact.at for _, fact, _ in journal.read(file).rows if isinstance(fact, TurnFinished)]
    most = ends[: max(1, len(ends) * 9 // 10)]
    makespan = found.makespan_s or 0.0
    rate = len(most) / seconds(Nanos(most[-1]))
    return Run(live, 0, makespan, rate, found.hit_rate or 0.0, await preemptions(urls) - before)


async def preemptions(urls: Sequence[str]) -> int:
    """What all engines together counted since they started."""
    total = 0
    for url in urls:
        engine = connect(url)
        said = await engine.sample(Nanos(0))
        total += 0 if said is None else said.preemptions or 0
        await engine.close()
    return total


async def planned(urls: Sequence[str], recorded: Path) -> Plan:
    """The plan for one of the engines as it is, from a recorded run."""
    measured = await planning.measure(urls[0])
    engine = Vllm(block_tokens=measured.block_tokens, num_blocks=measured.num_blocks)
    model = planning.architecture(MODEL)
    memory = Bytes((measured.num_blocks or 0) * engine.layout(model, Bytes(0), 1).bytes_per_block)
    return plan(model, engine, memory, 1, profile(recorded), fitted(recorded))


def rows(runs: Sequence[Run]) -> list[Row]:
    """One for each limit."""
    found = []
    for live in dict.fromkeys(run.live for run in runs):
        own = [run for run in runs if run.live == live]
        spans, rates = [run.makespan for run in own], [run.throughput for run in own]
        hits, stops = fmean(run.hit_rate for run in own), fmean(run.preemptions for run in own)
        found.append(Row(live, fmean(spans), interval(spans), fmean(rates), interval(rates), hits, stops))
    return sorted(found, key=lambda row: (row.live == AUTO, int(row.live) if row.live != AUTO else 0))


def knee(found: Sequence[Row]) -> int:
    """The largest limit within 5% of the best mean throughput."""
    swept = [row for row in found if row.live != AUTO]
    best = max(row.throughput for row in swept)
    return max(int(row.live) for row in swept if row.throughput >= (1 - NEAR) * best)


def verdicts(found: Sequence[Row], reference: int | None, chains: int) -> dict[str, object]:
    """What the figures say of the plan. None where the sweep holds no such value; no limit is above all chains."""
    at = knee(found)
    by = {row.live: row for row in found}
    best = min((row for row in found if row.live != AUTO), key=lambda row: row.makespan)
    auto, twice = by.get(AUTO), by.get(str(min(2 * at, chains)))
    most = best.makespan_ci[1] if best.makespan_ci else best.makespan
    return {
        "knee": at,
        "reference_concurrency": reference,
        "reference_over_knee": None if reference is None else reference / at,
        "best_static": best.live,
        "auto_over_best_static": None if auto is None else auto.makespan / best.makespan,
        "auto_within_best_interval": None if auto is None else auto.makespan <= most,
        "auto_shorter_than_twice_the_knee": None
        if auto is None or twice is None
        else 1 - auto.makespan / twice.makespan,
    }


def table(found: Sequence[Row]) -> str:
    """For people."""

    def pair(mean: float, ci: Interval | None, digits: int) -> str:
        return f"{mean:.{digits}f}" + (f" ±{(ci[1] - ci[0]) / 2:.{digits}f}" if ci else "")

    lines = [f"{'live':>6}{'makespan s':>16}{'turns/s':>16}{'hit rate':>10}{'preemptions':>13}"]
    lines += [
        f"{row.live:>6}{pair(row.makespan, row.makespan_ci, 1):>16}{pair(row.throughput, row.throughput_ci, 2):>16}"
        f"{row.hit_rate:>10.2f}{row.preemptions:>13.1f}"
        for row in found
    ]
    return "\n".join(lines)


def svg(found: Sequence[Row], reference: int | None) -> str:
    """Makespan by live limit, with intervals; ``auto`` as a line across, C* and the knee as lines down."""
    swept = [row for row in found if row.live != AUTO]
    auto = next((row for row in found if row.live == AUTO), None)
    wide, high, edge = 640, 320, 48
    right = max([int(row.live) for row in swept] + [reference or 0]) * 1.05
    top = max(row.makespan_ci[1] if row.makespan_ci else row.makespan for row in found) * 1.1

    def x(live: float) -> float:
        return edge + live / right * (wide - 2 * edge)

    def y(value: float) -> float:
        return high - edge - value / top * (high - 2 * edge)

    def line(x1: float, y1: float, x2: float, y2: float, style: str) -> str:
        return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" {style}/>'

    def label(x0: float, y0: float, words: str, anchor: str = "middle") -> str:
        return f'<text x="{x0:.1f}" y="{y0:.1f}" text-anchor="{anchor}">{words}</text>'

    marks = [line(edge, y(0), wide - edge, y(0), 'stroke="black"'), line(edge, y(0), edge, edge, 'stroke="black"')]
    points = [(x(int(row.live)), y(row.makespan)) for row in swept]
    marks.append(f'<polyline fill="none" stroke="#1f77b4" points="{" ".join(f"{a:.1f},{b:.1f}" for a, b in points)}"/>')
    for row, (a, b) in zip(swept, points, strict=True):
        if row.makespan_ci:
            marks.append(line(a, y(row.makespan_ci[0]), a, y(row.makespan_ci[1]), 'stroke="#1f77b4"'))
        marks += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" fill="#1f77b4"/>', label(a, y(0) + 16, row.live)]
    dashed = 'stroke-dasharray="4 3" stroke='
    at = knee(found)
    marks += [line(x(at), y(0), x(at), edge, f'{dashed}"#777"'), label(x(at), edge - 20, f"knee {at}")]
    if reference is not None:
        marks += [line(x(reference), y(0), x(reference), edge, f'{dashed}"#d62728"')]
        marks += [label(x(reference), edge - 6, f"C* {reference}")]
    if auto is not None:
        marks += [line(edge, y(auto.makespan), wide - edge, y(auto.makespan), f'{dashed}"#2ca02c"')]
        marks += [label(wide - edge, y(auto.makespan) - 5, f"auto {auto.makespan:.0f} s", "end")]
    marks += [label(wide / 2, high - 8, "live trajectories"), label(edge, edge - 20, "makespan, s")]
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" font-family="sans-serif" font-size="11">'
    )
    return "\n".join([head, '<rect width="100%" height="100%" fill="white"/>', *marks, "</svg>", ""])


def measure(urls: Sequence[str], asked: argparse.Namespace) -> tuple[Plan, list[Run]]:
    """Record, plan, sweep; what earlier calls kept in ``--out`` is not done again."""
    chains = workload(asked.chains, asked.action, asked.seed)
    first, kept = asked.out / "recorded.headway", asked.out / "runs.jsonl"
    if not first.exists():
        limit = asked.record or sorted(asked.live)[min(1, len(asked.live) - 1)]
        half = asked.out / "unfinished.headway"
        half.unlink(missing_ok=True)
        run = anyio.run(play, urls, chains, str(limit), MARK, half, None)
        half.rename(first)
        note(f"recorded at {limit} live: {run.makespan:.1f} s, hit rate {run.hit_rate:.2f}")
    made = anyio.run(planned, urls, first)
    runs = [msgspec.json.decode(line, type=Run) for line in kept.read_bytes().splitlines()] if kept.exists() else []
    print(render(made), flush=True)
    done = {(run.live, run.repeat) for run in runs}
    left = [(mark, *which) for mark, which in enumerate(order(asked), MARK + 1) if which not in done]
    for mark, live, repeat in left[: asked.most]:
        with tempfile.TemporaryDirectory() as folder:
            run = anyio.run(play, urls, chains, live, mark, Path(folder) / "run.headway", made)
        runs.append(replace(run, repeat=repeat))
        with kept.open("ab") as lines:
            lines.write(msgspec.json.encode(runs[-1]) + b"\n")
        note(
            f"repeat {repeat + 1}, {live} live: {run.makespan:.1f} s, {run.throughput:.2f} turns/s,"
            f" hit rate {run.hit_rate:.2f}, {run.preemptions} preemptions"
        )
    return made, runs


def order(asked: argparse.Namespace) -> Iterator[tuple[str, int]]:
    """All limits and ``auto``, once a repeat, in an order of its own."""
    for repeat in range(asked.repeats):
        limits = [*map(str, asked.live), AUTO]
        Random(repeat).shuffle(limits)
        yield from ((live, repeat) for live in limits)


def note(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--live", type=lambda text: [int(n) for n in text.split(",")], default=[6, 8, 10, 12, 14, 16, 20, 26]
    )
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--chains", type=int, default=26)
    parser.add_argument("--action", type=float, default=2.5, help="mean seconds of an action")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--record", type=int, help="limit of the recorded run the plan is made from (the second smallest)"
    )
    parser.add_argument("--engine", action="append", help="engines of the same model and cache, in place of local ones")
    parser.add_argument("--most", type=int, help="runs to do in this call; the next call goes on")
    parser.add_argument("--out", type=Path, default=Path("knee"), help="folder for what was measured")
    asked = parser.parse_args()
    before = replicas.listed()
    mine = [] if asked.engine else replicas.up(2, MODEL, ("--num-gpu-blocks-override", str(BLOCKS)), announce=note)
    asked.out.mkdir(parents=True, exist_ok=True)
    try:
        made, runs = measure(asked.engine or [replica.url for replica in mine], asked)
    finally:
        replicas.down([replica for replica in mine if replica not in before])
    found = rows(runs)
    if not found:
        return
    engines = len(asked.engine or mine)
    reference = None if made.reference_concurrency is None else made.reference_concurrency * engines
    said = verdicts(found, reference, asked.chains)
    print(table(found))
    print("\n".join(f"{name}: {value}" for name, value in said.items()))
    (asked.out / "knee.svg").write_text(svg(found, reference), "utf-8")
    values = {"verdicts": said, "rows": found, "runs": runs, "plan": made, "settings": vars(asked)}
    (asked.out / "knee.json").write_bytes(msgspec.json.format(msgspec.json.encode(values, enc_hook=str), indent=2))


if __name__ == "__main__":
    main()
