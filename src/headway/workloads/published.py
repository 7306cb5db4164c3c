"""Workloads shaped after benchmarks: quantiles that were published or counted in public traces, the rest assumed.

All of them are synthetic, and say so: no trajectory of a benchmark is in here. What is drawn independently here (the
tokens of a turn, say, and the length of its chain) is not independent in a benchmark.
"""

from dataclasses import replace

from headway.core.units import EnvironmentId
from headway.workloads.acceptance import BASE
from headway.workloads.laws import Quantiles
from headway.workloads.setting import EnvironmentShape, Setting, Workload


def _law(least: float, half: float, nine_tenths: float, most_but_one: float, most: float) -> Quantiles:
    """By the quantiles 0, 0.5, 0.9, 0.99 and 1."""
    return Quantiles(((0.0, least), (0.5, half), (0.9, nine_tenths), (0.99, most_but_one), (1.0, most)))


def _setting(name: str, source: str, workload: Workload, environments: dict[str, EnvironmentShape]) -> Setting:
    places = {EnvironmentId(place): shape for place, shape in environments.items()}
    return replace(
        BASE, name=name, source=f"synthetic: {source}", workload=workload, environments=places, group=1, engines=2
    )


PUBLISHED: dict[str, Setting] = {
    setting.name: setting
    for setting in (
        _setting(
            "bfcl",
            "lengths and tokens as in BFCL v4 multi-turn runs; tools answer in process, within milliseconds",
            Workload(
                cap=54,
                prompt=900.0,
                obs=20.0,
                env=0.002,
                laws={"length": _law(1, 11, 16, 28, 54), "out": _law(10, 115, 323, 1015, 20_947)},
            ),
            {"api": EnvironmentShape(slots=16)},
        ),
        _setting(
            "swebench",
            "lengths and tokens as in mini-swe-agent on SWE-bench Verified, seconds as in SWE-rebench sessions; an "
            "instance for life that takes 173 s to make",
            Workload(
                cap=144,
                prompt=1700.0,
                obs=290.0,
                laws={
                    "length": _law(3, 35, 65, 114, 144),
                    "out": _law(10, 89, 681, 2423, 16_000),
                    "env": _law(0.005, 0.04, 9.5, 20.5, 308),
                },
            ),
            {"sandbox": EnvironmentShape(slots=32, instances=64, create_interval=0.5, create_seconds=173.0)},
        ),
        _setting(
            "widesearch",
            "a long web search, its shape assumed: three searches for every two pages that are fetched",
            Workload(
                cap=100,
                mean=25.0,
                sigma=0.6,
                prompt=2500.0,
                obs=2200.0,
                out=250.0,
                env=1.0,
                env_sigma=0.8,
                stragglers=0.02,
            ),
            {
                "search": EnvironmentShape(slots=16, share=3.0, seconds=1.2),
                "fetch": EnvironmentShape(slots=24, share=2.0, seconds=3.0),
            },
        ),
        _setting(
            "mcp",
            "lengths and tokens as in LiveMCPBench runs; seconds of tools assumed",
            Workload(
                cap=42,
                prompt=800.0,
                obs=600.0,
                env=1.5,
                env_sigma=1.2,
                laws={"length": _law(1, 6, 17, 39, 42), "out": _law(10, 75, 479, 1600, 8_000)},
            ),
            {
                "route": EnvironmentShape(slots=32, share=1.0, seconds=0.3),
                "execute": EnvironmentShape(slots=16, share=2.0, seconds=1.35),
            },
        ),
    )
}
