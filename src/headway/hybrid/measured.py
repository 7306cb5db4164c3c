"""What an engine turned out to hold, beside what was planned for it."""

from collections.abc import Iterator

import msgspec

from headway.core.units import Tokens
from headway.hybrid.plan import Plan

_NEAR = 0.005
"""Engines report their concurrency rounded; so much is no difference."""


class Measured(msgspec.Struct, frozen=True):
    """The geometry of a live engine, per rank, as it reports it. None: not reported.

    ``concurrency``: requests of ``max_context`` tokens that it says it holds at once (vLLM).
    """

    engine: str
    url: str = ""
    block_tokens: int | None = None
    num_blocks: int | None = None
    kv_tokens: int | None = None
    state_slots: int | None = None
    max_running: int | None = None
    max_context: int | None = None
    concurrency: float | None = None


class Check(msgspec.Struct, frozen=True):
    """One figure, planned and measured. ``agrees`` None: the engine doesn't report it."""

    name: str
    planned: float
    measured: float | None
    agrees: bool | None


def compare(plan: Plan, measured: Measured) -> tuple[Check, ...]:
    """Every figure of the plan that such an engine reports."""
    return tuple(_checks(plan, measured))


def _checks(plan: Plan, measured: Measured) -> Iterator[Check]:
    layout = plan.layout
    if layout is not None:
        yield _check("tokens per block", layout.block_tokens, measured.block_tokens)
        yield _check("blocks", layout.num_blocks, measured.num_blocks)
        if measured.max_context:
            holds = layout.max_concurrency(Tokens(measured.max_context))
            name = f"requests of {measured.max_context:,} tokens"
            yield _check(name, round(holds, 2), measured.concurrency)
        return
    if plan.state_bytes_per_sequence:
        slots = measured.max_running if plan.engine == "llamacpp" else measured.state_slots
        yield _check("state slots", plan.state_slots, slots)
    yield _check("KV tokens", plan.kv_tokens, measured.kv_tokens)


def _check(name: str, planned: float, measured: float | None) -> Check:
    agrees = None if measured is None else abs(planned - measured) <= _NEAR * max(planned, measured)
    if isinstance(planned, int) and isinstance(measured, int):
        agrees = planned == measured
    return Check(name, planned, measured, agrees)


def render_checks(checks: tuple[Check, ...], measured: Measured) -> str:
    """Planned against measured, for people."""
    rows = [f"  {'':<28}{'planned':>14}{'measured':>14}"]
    for check in checks:
        found = "not reported" if check.measured is None else _number(check.measured)
        verdict = "" if check.agrees is None else ("  as planned" if check.agrees else "  DIFFERS")
        rows.append(f"  {check.name:<28}{_number(check.planned):>14}{found:>14}{verdict}")
    return "\n".join([f"Planned against measured ({measured.engine} at {measured.url})", *rows])


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"
