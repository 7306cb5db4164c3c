"""The settings on which policies are compared, and the bounds that the default policy is held to.

E: bound by environments, in every shape of length distribution. I: by inference. M: by memory, of KV and of states.
R: several engines, so that routing counts. What a setting doesn't say is as in ``BASE``.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headway.latency import LatencyModel
from headway.workloads.setting import ACTING, EngineShape, EnvironmentShape, Setting, Workload

BASE = Setting(
    "base",
    Workload(),
    EngineShape(
        LatencyModel(base=0.010, per_sequence=0.00015, per_token=5e-9, prefill=1 / 12_000),
        kv_tokens=1_500_000,
        state_slots=256,
    ),
    {ACTING: EnvironmentShape(slots=16)},
    source="synthetic: the comparison's own parameters, measured nowhere",
)


def _setting(
    name: str,
    *,
    slots: int = 16,
    resume: float = 0.0,
    engine: Mapping[str, Any] | None = None,
    batch: Mapping[str, Any] | None = None,
    **work: Any,  # noqa: ANN401 - fields of Workload, checked by it
) -> Setting:
    return replace(
        BASE,
        name=name,
        workload=replace(BASE.workload, **work),
        engine=replace(BASE.engine, **(engine or {})),
        environments={ACTING: EnvironmentShape(slots, resume_seconds=resume)},
        **(batch or {}),
    )


_SMALL = {"kv_tokens": 350_000}
_ONE, _TWO = {"engines": 1}, {"engines": 2}
_LONG: dict[str, Any] = {"prompt": 6000.0, "obs": 1500.0}

ACCEPTANCE: dict[str, Setting] = {
    setting.name: setting
    for setting in (
        _setting("E1"),
        _setting("E2", slots=48, env=20.0, sigma=1.0),
        _setting("E3", length="geometric"),
        _setting("E4", slots=24, length="mixture"),
        _setting("E5", length="uniform"),
        _setting("E6", env=3.0, out=600.0),
        _setting("E7", resume=3.0),
        _setting("E8", batch={"group": 1}),
        _setting("E9", slots=48),
        _setting("I1", slots=256, batch=_ONE, env=2.0, out=800.0),
        _setting("I2", slots=64, batch=_ONE, env=6.0, out=600.0),
        _setting("M1", slots=64, batch=_TWO, engine=_SMALL, env=8.0, out=300.0, **_LONG),
        _setting("M2", slots=64, batch=_TWO, engine={"state_slots": 24}, env=8.0, **_LONG),
        _setting("M3", slots=24, batch=_TWO, engine=_SMALL, env=6.0, **_LONG),
        _setting("R1", slots=64, engine=_SMALL, env=8.0, out=300.0, **_LONG),
        _setting("R2", slots=256, out=1200.0, env=2.0, sigma=1.0),
        _setting("R3", slots=256, length="pareto", alpha=1.8, out=900.0, env=2.0),
    )
}

MOST_OVER_BOUND: dict[str, tuple[float, float]] = {
    "E1": (1.16, 1.13),
    "E2": (1.16, 1.11),
    "E3": (1.13, 1.12),
    "E4": (1.37, 1.25),
    "E5": (1.08, 1.06),
    "E6": (1.39, 1.32),
    "E7": (1.57, 1.57),
    "E8": (1.26, 1.26),
    "E9": (1.24, 1.18),
    "I1": (1.45, 1.45),
    "I2": (1.53, 1.53),
    "M1": (2.15, 2.15),
    "M2": (1.72, 1.72),
    "M3": (1.92, 1.92),
    "R1": (1.50, 1.50),
    "R2": (1.22, 1.22),
    "R3": (1.16, 1.16),
}
"""Makespan over lower bound that a mean of eight seeds may exceed by two standard errors:
without history, and with it."""
