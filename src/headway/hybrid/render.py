"""A plan as a page of text for people. Every number on it is in the plan's JSON too."""

from collections.abc import Iterable

from headway.hybrid.budget import show_bytes
from headway.hybrid.outcome import Outcome, Prediction
from headway.hybrid.plan import Plan
from headway.hybrid.sglang import DEFAULT_RATIO, ratio_of_slots
from headway.hybrid.workload import Spread, Workload

_WIDTH = 28
_BINDING = {
    "memory": "memory: state and KV run out together",
    "state": "state slots run out first",
    "kv": "KV tokens run out first",
    "inference": "inference saturates before memory runs out",
    "running": "the engine's limit on running requests",
    "slots": "the engine's slots",
    "context": "a slot is shorter than your trajectories",
}


def _row(name: str, value: str) -> str:
    return f"  {name:<{_WIDTH}}{value}"


def _section(title: str, rows: Iterable[str]) -> list[str]:
    return [title, *rows, ""]


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _spread(spread: Spread, unit: str = "") -> str:
    mean, sd, half, tail, most = map(_number, (spread.mean, spread.sd, spread.p50, spread.p95, spread.most))
    return f"mean {mean}{unit}, sd {sd}, half up to {half}, 95% up to {tail}, most {most}"


def render_workload(workload: Workload) -> str:
    """The profile, to be shown before it is used."""
    origin = f"{workload.trajectories} trajectories" if workload.trajectories else "numbers given"
    rows = [
        _row("turns", _spread(workload.turns)),
        _row("first prompt (tokens)", _spread(workload.first_prompt)),
        _row("new per turn (tokens)", _spread(workload.growth)),
        _row("output (tokens)", _spread(workload.output)),
        _row("action", _spread(workload.action, " s")),
        _row("context held (tokens)", _spread(workload.context)),
        _row("at the end (tokens)", _spread(workload.longest)),
    ]
    return "\n".join([f"Workload: {workload.source} ({origin})", *rows])


def _bytes(plan: Plan) -> list[str]:
    rows = [
        _row("cache per rank", show_bytes(plan.memory)),
        _row("KV per token", f"{plan.kv_bytes_per_token:,} B in {plan.dtypes.kv}"),
        _row("state per sequence", _state(plan)),
    ]
    if plan.window_bytes_per_sequence:
        rows.append(_row("windows per sequence", show_bytes(plan.window_bytes_per_sequence)))
    if plan.num_blocks is not None:
        rows.append(_row("block pool", f"{plan.num_blocks:,} blocks of {plan.block_tokens:,} tokens"))
    return _section(f"Bytes ({plan.family}, TP {plan.tp})", rows)


def _state(plan: Plan) -> str:
    if not plan.state_bytes_per_sequence:
        return "none: the model has no recurrent layers"
    tokens = plan.state_bytes_per_sequence / plan.kv_bytes_per_token if plan.kv_bytes_per_token else 0.0
    even = f", as much as {tokens:,.0f} tokens of KV" if tokens else ""
    return f"{show_bytes(plan.state_bytes_per_sequence)} in {plan.dtypes.state}{even}"


def _split(plan: Plan) -> list[str]:
    slots = f"{plan.state_slots:,}"
    if plan.state_bytes_per_sequence:
        slots += f" ({show_bytes(plan.state_slots * plan.state_bytes_per_sequence)})"
    rows = [
        _row("state slots", f"{slots}, {plan.slots_per_running_request} per running request"),
        _row("KV tokens", f"{plan.kv_tokens:,} ({show_bytes(plan.kv_tokens * plan.kv_bytes_per_token)})"),
    ]
    if "--max-mamba-cache-size" in plan.flags:
        ratio = ratio_of_slots(plan.memory, plan.state_bytes_per_sequence, plan.state_slots)
        rows.append(_row("as a ratio", f"{ratio:g} (--mamba-full-memory-ratio, {DEFAULT_RATIO} by default)"))
    return _section("Split", rows)


def _reference(plan: Plan) -> list[str]:
    if plan.reference_concurrency is None:
        return _section("Reference concurrency", [f"  not known: {plan.reason}"])
    bound = plan.binding or ""
    rows = [
        _row("live trajectories", f"{plan.reference_concurrency} (at most {plan.largest_concurrency} fit)"),
        _row("bound by", _BINDING.get(bound, bound)),
    ]
    if plan.prediction is not None:
        rows += _prediction(plan.prediction, plan.max_running_requests)
    rows.append(_row("time model", plan.constants or ""))
    return _section("Reference concurrency", rows)


def _prediction(found: Prediction, allowed: int | None) -> list[str]:
    turn, rate = _number(found.turn_seconds), _number(found.turns_per_second)
    again = _number(found.recomputed_per_turn)
    return [
        _row("in inference at once", f"{found.running:.1f} on average, {allowed} allowed"),
        _row("time in inference", f"{found.inference_share:.0%} of a trajectory, {turn} s per turn"),
        _row("output", f"{_number(found.output_tokens_per_second)} tokens/s, {rate} turns/s"),
        _row("prompt tokens cached", f"{found.hit_rate:.1%} after the first turn"),
        _row("prefill that repeats", f"{found.recompute_share:.1%}, {again} tokens per turn"),
    ]


def _outcome(outcome: Outcome, plan: Plan) -> str:
    now = plan.prediction.output_tokens_per_second if plan.prediction else 0.0
    change = f" ({outcome.output_tokens_per_second / now - 1:+.1%})" if now else ""
    return _row(
        outcome.change,
        f"{outcome.reference_concurrency} live, {_number(outcome.output_tokens_per_second)} tokens/s{change}; "
        f"{outcome.state_slots:,} slots, {outcome.kv_tokens:,} tokens",
    )


def render(plan: Plan) -> str:
    """The whole page, ending with the command line to paste."""
    lines = [f"{plan.model} on {plan.engine}" + (f"  [{plan.source}]" if plan.source else ""), ""]
    if plan.workload is not None:
        lines += [render_workload(plan.workload), ""]
    lines += _bytes(plan) + _split(plan) + _reference(plan)
    if plan.default is not None:
        lines += _section("Had you kept the default", [_outcome(plan.default, plan)])
    if plan.gains:
        lines += _section("What would help", [_outcome(gain, plan) for gain in plan.gains])
    if plan.warnings:
        rows = [f"  - {w.text}" + (f" [{w.see}]" if w.see else "") for w in plan.warnings]
        lines += _section("Warnings", rows)
    return "\n".join([*lines, "Start it with", f"  {plan.command}", ""])
