"""Plans held to the simulator: no collapse at C*, most of the best throughput, and a split close to the best.

``python benchmarks/plan_grid.py [--seeds 5] [--live 40] [--json FILE]``. For each model (state and KV bytes), context
length and share of time in inference: a workload is drawn, the planner sees the trajectories of another seed, and the
planned S, T and C* go into the simulator, which has the time model that the planner has. Then the live limit is swept
around C* without residency control. Each cell stands for an H200 as it is, scaled down: its memory to what ``--live``
trajectories need, and what a token costs up by the same factor, so that memory and arithmetic keep their proportion.

Throughput is output tokens per second between the 20th and the 80th percent of all turns: start and tail of a batch
say nothing of a steady state. A collapse is less than half of the best throughput of that seed's sweep.

The split is judged on setting M1 with the bytes of Ling-3.0-flash: the same memory, cut by other ratios.
"""

import argparse
import itertools
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

import msgspec

from headway.analysis.play import Drawn, draw, play
from headway.analysis.profile import turn_records
from headway.core.commands import Command
from headway.core.facts import Fact, TurnFinished
from headway.core.units import Bytes, seconds
from headway.hybrid.architecture import named
from headway.hybrid.budget import Budget
from headway.hybrid.capacity import Scene
from headway.hybrid.geometry import Architecture, dtype_bytes
from headway.hybrid.plan import Plan, plan
from headway.hybrid.residency import capacity_of
from headway.hybrid.sglang import Sglang
from headway.hybrid.timing import Fitted, Timing, assumed, device
from headway.hybrid.workload import ByHand, TurnRecord, Workload, by_hand, from_turns
from headway.latency import LatencyModel
from headway.policies.presets import preset
from headway.workloads import ACCEPTANCE, EngineShape, EnvironmentShape, Setting
from headway.workloads import Workload as Drawing
from headway.workloads.setting import ACTING

MODELS = {
    "Ling-3.0-flash": 4,
    "Qwen3-Next-80B-A3B-Instruct": 2,
    "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16": 1,
    "Qwen3-8B": 1,
}
"""With their tensor-parallel sizes."""

SHARES = (0.2, 0.5, 0.8)
CONTEXTS = (4_000, 16_000, 48_000)
SWEEP = (0.25, 0.5, 0.75, 0.9, 1.0, 1.15, 1.3, 1.6, 2.0)
"""Live limits, in parts of C*."""

DEVICE = "H200"
TURNS = 10
ENGINE = Sglang(track_interval=1)
"""A grid of one token: what coarse checkpoints cost is not what is tried here."""


class Cell(msgspec.Struct, frozen=True):
    """One cell of the grid. ``kept``: throughput at C* over the best of the sweep, by seed."""

    model: str
    context: int
    share: float
    planned_share: float
    reference: int
    largest: int
    binding: str
    kept: tuple[float, ...]
    below: tuple[float, ...]
    """Throughput at 0.9 C* over that at C*."""
    throughput: dict[str, float]
    hit_rate: dict[str, float]


class Split(msgspec.Struct, frozen=True):
    """Makespans (means over seeds, seconds) of setting M1 by share of the memory that states get."""

    planned: float
    best: float
    planned_share: float
    by_share: dict[str, float]

    @property
    def over_best(self) -> float:
        """By how much the planned split is longer than the best."""
        return self.planned / self.best - 1


@dataclass(frozen=True)
class Case:
    """A model with its time model, a length of contexts and a share of time in inference."""

    model: Architecture
    tp: int
    timing: Fitted
    context: int
    share: float


def linear(timing: Timing, context: float, scale: float) -> Fitted:
    """The straight line through a time model's steps at the batches that matter, each token ``scale`` times as dear."""
    few, many = timing.step(scale, context), timing.step(32 * scale, context)
    per_sequence = (many - few) / (31 * scale)
    per_context = max(0.0, (timing.step(32 * scale, 2 * context) - many) / (32 * scale * context))
    per_new = timing.prefill(1000, context) / 1000
    alone = max(1e-4, few - scale * per_sequence)
    return Fitted(alone, max(0.0, per_sequence - per_context * context) * scale, per_context * scale, per_new * scale)


def scale_of(model: Architecture, tp: int, context: int, share: float, live: int) -> float:
    """How many times as many trajectories the device holds as the cell does."""
    dtypes, parameters = ENGINE.dtypes(model), model.parameters
    assert parameters is not None
    weights = parameters.total * dtype_bytes(model.dtype, where="weights") // tp
    left = Budget(Bytes(device(DEVICE).memory), 0.9, Bytes(weights), Bytes(3 << 30)).left
    slot, token = model.state_bytes_per_sequence(tp, dtypes), model.kv_bytes_per_token(tp, dtypes)
    return max(1.0, left / (token * context + slot * (1 + 4 * share)) / live)


def cost(timing: Fitted) -> LatencyModel:
    """The same constants, as the simulator takes them."""
    return LatencyModel(timing.base, timing.per_sequence, timing.per_context, timing.per_new)


def drawing(case: Case, action: float) -> Drawing:
    """A workload whose contexts are about as long as asked: a third first, the rest grown over the turns."""
    grown = 2 * case.context * 2 / 3 / TURNS
    return Drawing(
        mean=float(TURNS), sigma=0.4, prompt=case.context / 3, prompt_sigma=0.3, out=grown * 0.3, out_sigma=0.4,
        obs=grown * 0.7, obs_sigma=0.5, env=action, env_sigma=0.8,
    )  # fmt: skip


def action_time(case: Case, live: int) -> float:
    """Seconds of action that leave trajectories in inference for the wanted share of their time."""
    made = drawing(case, 1.0)
    work = by_hand(ByHand(turns=TURNS, first_prompt=made.prompt, growth=made.obs, output=made.out, action=1.0))
    pools = ENGINE.pools(case.model, Bytes(1 << 50), case.tp)
    response = Scene(pools, work, case.timing, 0.0).response(case.share * live)
    return response * (1 - case.share) / case.share


def profile(batch: Drawn) -> Workload:
    """What the planner sees: the trajectories of a batch, without any waiting."""
    records: list[TurnRecord] = []
    for script in batch.scripts:
        for place, (prompt, step) in enumerate(zip(script.prompts(), script.steps, strict=True)):
            action = None if step.action is None else step.action.service
            records.append(TurnRecord(script.trajectory, place, prompt, step.output_tokens, action))
    return from_turns(records, source="another seed")


def memory_for(case: Case, work: Workload, live: int) -> Bytes:
    """Bytes that about so many live trajectories need, and 5% for chance."""
    dtypes = ENGINE.dtypes(case.model)
    token = case.model.kv_bytes_per_token(case.tp, dtypes)
    slot = case.model.state_bytes_per_sequence(case.tp, dtypes)
    each = token * work.context.mean + slot * (1 + 4 * case.share)
    spread = 3 * live**0.5 * (token * work.context.sd + 2 * slot)
    return Bytes(int(live * each + spread))


def setting(case: Case, made: Plan, work: Drawing, samples: int) -> Setting:
    """One engine as planned, slots for all, and nobody who shares a prompt."""
    slots = made.state_slots if made.state_bytes_per_sequence else None
    shape = EngineShape(
        cost(case.timing),
        kv_tokens=made.kv_tokens,
        state_slots=slots,
        running_states=made.slots_per_running_request if slots else 1,
    )
    name = f"{case.model.name}, {case.context} tokens, {case.share:.0%} in inference"
    return Setting(name, work, shape, {ACTING: EnvironmentShape(samples)}, samples, 1, 1)


def steady(batch: Drawn, limit: int) -> tuple[float, float]:
    """Output tokens per second in the middle of a batch with so many live, and the hit rate."""
    turns: list[tuple[int, int]] = []

    def note(fact: Fact, _: Sequence[Command]) -> None:
        if isinstance(fact, TurnFinished):
            turns.append((fact.at, fact.output_tokens))

    played = play(batch, preset(f"static-{limit}")[0], limit=limit, record=note)
    first, last = len(turns) // 5, len(turns) * 4 // 5
    span = seconds(turns[last][0]) - seconds(turns[first][0])
    return sum(output for _, output in turns[first:last]) / span, played.hit_rate


def cell(case: Case, live: int, seeds: int) -> Cell:
    """Plan and sweep one cell."""
    work = drawing(case, action_time(case, live))
    samples = 4 * live
    blank = Setting("profile", work, EngineShape(cost(case.timing)), {ACTING: EnvironmentShape(1)}, samples, 1, 1)
    seen = profile(draw(blank, 10_000))
    made = plan(case.model, ENGINE, memory_for(case, seen, live), case.tp, seen, case.timing)
    reference = made.reference_concurrency
    if reference is None or made.prediction is None:
        raise SystemExit(f"no plan for {case}: {made.reason}")
    limits = {part: max(1, round(part * reference)) for part in SWEEP}
    base = setting(case, made, work, max(samples, 4 * reference))
    found: dict[float, list[tuple[float, float]]] = {part: [] for part in SWEEP}
    for seed in range(seeds):
        batch = draw(base, seed)
        for part, limit in limits.items():
            found[part].append(steady(batch, limit))
    best = [max(found[part][seed][0] for part in SWEEP) for seed in range(seeds)]
    return Cell(
        model=case.model.name,
        context=case.context,
        share=case.share,
        planned_share=made.prediction.inference_share,
        reference=reference,
        largest=made.largest_concurrency or 0,
        binding=made.binding or "",
        kept=tuple(found[1.0][seed][0] / best[seed] for seed in range(seeds)),
        below=tuple(found[0.9][seed][0] / found[1.0][seed][0] for seed in range(seeds)),
        throughput={str(limits[part]): fmean(rate for rate, _ in runs) for part, runs in found.items()},
        hit_rate={str(limits[part]): fmean(hit for _, hit in runs) for part, runs in found.items()},
    )


def cases(models: Sequence[str], live: int) -> Iterator[Case]:
    """The grid."""
    for name, context, share in itertools.product(models, CONTEXTS, SHARES):
        model, tp = named(name), MODELS[name]
        scale = scale_of(model, tp, context, share, live)
        timing = linear(assumed(DEVICE, model, tp, ENGINE.dtypes(model)), context, scale)
        yield Case(model, tp, timing, context, share)


# -- the split ----------------------------------------------------------------------------------------------


def fixed(slots: int) -> Sglang:
    """The engine with its split settled."""
    return msgspec.structs.replace(ENGINE, slots=slots)


def split(seeds: int) -> Split:
    """M1, its memory cut by the plan and by a sweep of shares, under the default policy."""
    model, tp, base = named("Ling-3.0-flash"), 4, ACCEPTANCE["M1"]
    dtypes = ENGINE.dtypes(model)
    slot, token = model.state_bytes_per_sequence(tp, dtypes), model.kv_bytes_per_token(tp, dtypes)
    memory = Bytes((base.engine.kv_tokens or 0) * token + 48 * slot)
    law = base.engine.cost
    timing = Fitted(law.base, law.per_sequence, law.per_token, law.prefill)
    rows: list[tuple[Fact, Sequence[Command]]] = []
    play(draw(base, 10_000), preset("default")[0], record=lambda fact, commands: rows.append((fact, commands)))
    work = from_turns(turn_records(rows), source="a run of another seed")
    made = plan(model, ENGINE, memory, tp, work, timing)

    def makespan(slots: int) -> float:
        cut = plan(model, fixed(slots), memory, tp, work, timing)
        shape = replace(
            base.engine,
            kv_tokens=cut.kv_tokens,
            state_slots=slots,
            running_states=cut.slots_per_running_request,
        )
        drawn = [draw(replace(base, engine=shape), seed) for seed in range(seeds)]
        limit = (cut.reference_concurrency or 1) * base.engines
        played = [play(batch, preset("default")[0], limit=limit, capacity=capacity_of(cut)) for batch in drawn]
        return fmean(run.makespan for run in played)

    total = memory // slot
    tried = sorted({max(made.slots_per_running_request * 2, round(total * part / 20)) for part in range(1, 16)})
    by_share = {f"{slots / total:.3f}": makespan(slots) for slots in tried}
    planned = makespan(made.state_slots)
    return Split(planned, min(*by_share.values(), planned), made.state_slots / total, by_share)


def line(found: Cell) -> str:
    """For people."""
    sweep = " ".join(f"{live}:{rate:,.0f}" for live, rate in found.throughput.items())
    return (
        f"{found.model.rpartition('/')[2][:24]:<25}{found.context:>7}{found.share:>6.0%}{found.planned_share:>7.0%}"
        f"{found.reference:>5}{found.largest:>5} {found.binding:<10}{min(found.kept):>6.2f}{fmean(found.kept):>6.2f}"
        f"  {sweep}"
    )


def verdicts(found: Sequence[Cell], cut: Split | None) -> dict[str, float]:
    """The figures that plans are held to."""
    kept = [value for each in found for value in each.kept]
    said = (
        {}
        if not found
        else {
            "seeds_without_collapse_at_reference": sum(value >= 0.5 for value in kept) / len(kept),
            "least_of_best_throughput_by_cell": min(fmean(each.kept) for each in found),
            "mean_of_best_throughput": fmean(kept),
            "cells_at_90_percent": sum(fmean(each.kept) >= 0.9 for each in found) / len(found),
        }
    )
    return said if cut is None else {**said, "split_over_best": cut.over_best}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--live", type=int, default=40, help="trajectories that the memory is for")
    parser.add_argument("--model", action="append", choices=MODELS, help="only these")
    parser.add_argument("--only-split", action="store_true", help="leave the grid out")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    head = ("model", "tokens", "wish", "share", "C*", "most", "bound by", "least", "mean", " live:tokens/s")
    print("{:<25}{:>7}{:>6}{:>7}{:>5}{:>5} {:<10}{:>6}{:>6} {}".format(*head))
    found = []
    for case in [] if asked.only_split else cases(asked.model or list(MODELS), asked.live):
        found.append(cell(case, asked.live, asked.seeds))
        print(line(found[-1]), flush=True)
    cut = split(asked.seeds)
    print(f"M1 by share of states: {cut.by_share}; planned {cut.planned_share:.3f}: {cut.planned:.0f} s")
    said = verdicts(found, cut)
    print("\n".join(f"{name}: {value:.3f}" for name, value in said.items()), file=sys.stdout)
    if asked.json is not None:
        asked.json.write_bytes(
            msgspec.json.format(msgspec.json.encode({"verdicts": said, "cells": found, "split": cut}))
        )


if __name__ == "__main__":
    main()
