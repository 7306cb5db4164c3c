"""``headway report`` and ``headway status`` as plain text."""

from headway.core.progress import ChainSnapshot, PhaseSeconds, SampleCounts
from headway.views.summary import BoundSnapshot, Summary
from headway.views.wording import DASH, clip, count, duration, listed, number, percent, plural, table

_PHASES = {
    "inference_queue": "inference queue",
    "inference": "inference",
    "slot_queue": "slot queue",
    "action": "action",
    "idle": "idle",
}
_MEANING = {
    "inference_queue": "turns that waited for an engine",
    "inference": "turns that ran",
    "slot_queue": "actions that waited for a slot",
    "action": "actions that ran",
    "idle": "the harness's own time",
}
_MOST_CAUSES = 10


def report(summary: Summary) -> str:
    """The whole report of a run, at most 80 columns wide."""
    sections = [
        _heading(summary),
        _outcome(summary),
        _time(summary),
        _engines(summary),
        _environments(summary),
        _bounds(summary),
        _troubles(summary),
        _slowest(summary),
    ]
    return "\n\n".join("\n".join(lines) for lines in sections if lines)


def status(summary: Summary) -> str:
    """Where a run stands, in a few lines."""
    batch = summary.batch
    now = batch.phases
    lines = [
        *_heading(summary),
        f"  samples   {_samples(batch.samples)}",
        f"  elapsed   {duration(batch.makespan_s)}" + (f", {_downtime(summary)}" if batch.downtime_s else ""),
    ]
    if summary.standing == "running":
        lines.append(f"  ETA       {duration(batch.eta_s)}")
    if batch.samples.live:
        doing = {name: getattr(now, key) for key, name in _PHASES.items() if getattr(now, key)}
        name = "live" if summary.standing == "running" else "was live"
        lines.append(f"  {name:<10}{listed({f'in {name}': amount for name, amount in doing.items()})}")
    lines += [
        f"  engine    {clip(engine.engine, 30)}: {'' if engine.alive else 'gone, '}{engine.running} running, "
        f"{plural(engine.turns, 'turn')}, hit rate {percent(engine.hit_rate)}"
        for engine in batch.engines
    ]
    lines += [
        f"  slots     {clip(place.environment, 30)}: {place.busy} of {place.slots} busy, {place.queued} queued, "
        f"{plural(place.actions, 'action')}"
        for place in batch.environments
    ]
    if summary.standing == "stopped":
        lines.append(f"  go on with: headway resume {summary.run}")
    return "\n".join(lines)


def _heading(summary: Summary) -> list[str]:
    standing: str = summary.standing
    if summary.process:
        standing += f", process {summary.process}"
    if summary.batch.paused and summary.standing == "running":
        standing += ", paused"
    return [f"{clip(summary.run, 40)}, policy {clip(summary.policy, 20)}, {standing}"]


def _samples(samples: SampleCounts) -> str:
    counts = {
        "finished": samples.finished,
        "failed": samples.failed,
        "live": samples.live,
        "pending": samples.pending,
    }
    return f"{samples.submitted:,}: {listed({name: amount for name, amount in counts.items() if amount}) or 'none'}"


def _outcome(summary: Summary) -> list[str]:
    batch = summary.batch
    lines = [f"  {'makespan' if batch.complete else 'elapsed':<10}{duration(batch.makespan_s)}"]
    if summary.makespan_over_bound is not None and summary.binding is not None:
        bound = summary.binding
        lines[0] += f" = {summary.makespan_over_bound:.2f} x the lower bound of {duration(bound.value_s)}"
        lines.append(f"  {'bound by':<10}{_about(bound)}")
    parts = "   ".join(f"{part}% {duration(value)}" for part, value in batch.time_to_s.items())
    lines += [f"  {'samples':<10}{_samples(batch.samples)}", f"  {'done':<10}{parts}"]
    if batch.mean_score is not None:
        lines.append(f"  {'score':<10}{batch.mean_score:.3f} on average")
    lines += [
        f"  {'work':<10}{plural(batch.turns, 'turn')}, {plural(batch.actions, 'action')}, "
        f"{count(batch.prompt_tokens)} prompt and {count(batch.output_tokens)} output tokens",
        f"  {'hit rate':<10}{_hits(summary)}",
    ]
    if batch.downtime_s:
        lines.append(f"  {'downtime':<10}{_downtime(summary)}")
    return lines


def _hits(summary: Summary) -> str:
    batch = summary.batch
    if batch.hit_rate is None:
        return f"{DASH} (no engine reports cached tokens, or no stream had a second turn)"
    return f"{percent(batch.hit_rate)} of what earlier turns left; {percent(batch.cached_share)} of all prompt tokens"


def _downtime(summary: Summary) -> str:
    batch = summary.batch
    return f"{duration(batch.downtime_s)} between {batch.coordinators} coordinators (in no other figure)"


def _time(summary: Summary) -> list[str]:
    phases = summary.batch.phases_s
    total = sum(getattr(phases, key) for key in _PHASES)
    if not total:
        return []
    rows = [
        [name, duration(getattr(phases, key)), percent(getattr(phases, key) / total), _MEANING[key]]
        for key, name in _PHASES.items()
    ]
    width = max(len(row[3]) for row in rows)
    head = ["phase", "time", "share", "".ljust(width)]
    lines = table(head, [[*row[:3], row[3].ljust(width)] for row in rows])
    return [f"where {duration(total)} of trajectory time went", *lines]


def _engines(summary: Summary) -> list[str]:
    engines = summary.batch.engines
    if not engines:
        return []
    head = ["engine", "turns", "batch", "busy", "prompt", "output", "hit rate", "longest wait"]
    rows = [
        [
            engine.engine.removeprefix("http://")
            + ("" if engine.alive or summary.standing != "running" else " (gone)"),
            count(engine.turns),
            number(engine.mean_batch),
            duration(engine.busy_s),
            count(engine.prompt_tokens),
            count(engine.output_tokens),
            percent(engine.hit_rate),
            duration(engine.longest_wait_s),
        ]
        for engine in engines
    ]
    return ["engines", *table(head, rows)]


def _environments(summary: Summary) -> list[str]:
    environments = summary.batch.environments
    if not environments:
        return []
    head = ["environment", "slots", "in use", "actions", "service", "waited", "longest wait"]
    rows = [
        [
            place.environment,
            str(place.slots),
            percent(place.occupancy),
            count(place.actions),
            duration(place.service_s),
            duration(place.wait_s),
            duration(place.longest_wait_s),
        ]
        for place in environments
    ]
    return ["environments", *table(head, rows)]


def _about(bound: BoundSnapshot) -> str:
    match bound.kind:
        case "CP":
            return f"the longest chain, {clip(bound.of, 40)}"
        case "ENV":
            return f"the slots of {clip(bound.of, 40)}"
        case _:
            return "the engines (estimate)"


def _bounds(summary: Summary) -> list[str]:
    if not summary.bounds:
        return []
    what = "no schedule" if summary.batch.complete else "no schedule, for the samples done so far,"
    lines = [f"{what} could have been shorter than"]
    lines += [f"  {duration(bound.value_s):>9}  {bound.kind:<3}  {_about(bound)}" for bound in summary.bounds]
    found = summary.fit
    if found is not None:
        lines.append(
            f"  (engine cost fitted to {plural(found.turns, 'turn')}, off by {percent(found.median_error, 0)} "
            f"in the median, {percent(found.mean_error, 0)} on average)"
        )
    if summary.fit_is_off:
        lines.append("  (the estimate exceeds the makespan, so the fit is off: it does not count)")
    return lines


def _troubles(summary: Summary) -> list[str]:
    batch, retries = summary.batch, summary.batch.retries
    lines = [
        f"  {clip(loss.engine, 30)} was lost at {duration(loss.at_s)} with {plural(loss.turns, 'turn')} running: "
        f"{clip(loss.cause, 60)}"
        for loss in batch.engine_losses
    ]
    if batch.moved_turns:
        lines.append(f"  {plural(batch.moved_turns, 'turn')} ran elsewhere than their stream's turn before")
    for noun, failed, retried in (
        ("turn", retries.turns_failed, retries.turns_retried),
        ("action", retries.actions_failed, retries.actions_retried),
    ):
        if failed:
            again = sum(retried.values())
            lines.append(f"  {plural(sum(failed.values()), noun)} failed ({listed(failed)}), {again} tried again")
    lost = batch.lost
    if lost.attempts:
        lines.append(
            f"  {plural(lost.attempts, 'attempt')} given up and begun anew: {plural(lost.turns, 'turn')}, "
            f"{plural(lost.actions, 'action')}, {duration(lost.live_s)} lost"
        )
    causes = list(batch.failures.items())
    lines += [f"  {plural(amount, 'sample')} failed: {clip(cause, 56)}" for cause, amount in causes[:_MOST_CAUSES]]
    if len(causes) > _MOST_CAUSES:
        lines.append(f"  and {len(causes) - _MOST_CAUSES} causes more")
    return ["what went wrong, and what moved", *lines] if lines else []


def _slowest(summary: Summary) -> list[str]:
    chains = summary.batch.slowest
    if not chains:
        return []
    head = ["chain", "turns", "live", "inf. q", "infer.", "slot q", "action", "idle"]
    rows = [[_name(chain), str(chain.turns), number(chain.live_s), *_spent(chain.phases_s)] for chain in chains]
    return ["slowest chains, and where each spent its seconds (q: queue)", *table(head, rows)]


def _name(chain: ChainSnapshot) -> str:
    return chain.trajectory if chain.state == "finished" else f"{chain.trajectory} ({chain.state})"


def _spent(phases: PhaseSeconds) -> list[str]:
    return [number(getattr(phases, key)) for key in _PHASES]
