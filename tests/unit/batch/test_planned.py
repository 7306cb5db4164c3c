"""A batch that goes by a plan: C* for each engine, and no more in a cache than the plan says."""

from typing import Any

import msgspec
import pytest
from fakes import ScriptedEngine

from headway import Batch, Sample, Trajectory
from headway.adapters.engines.planned import Planned
from headway.core.units import Bytes, EngineId, Nanos, Tokens
from headway.hybrid.architecture import named
from headway.hybrid.plan import Plan, plan
from headway.hybrid.residency import Capacity
from headway.hybrid.sglang import Sglang

pytestmark = pytest.mark.anyio
BARE = plan(named("Qwen3.5-35B-A3B"), Sglang(slots=50), Bytes(40 << 30), 4)
PLAN = msgspec.structs.replace(BARE, reference_concurrency=2, largest_concurrency=3)


async def most_live(plan: Plan | None, **more: Any) -> int:
    """How many of eight agents lived at once, on two engines."""
    live: set[str] = set()
    most: list[int] = []

    async def solve(sample: Sample, trajectory: Trajectory) -> None:
        live.add(sample.id)
        most.append(len(live))
        await trajectory.chat([{"role": "user", "content": "hello"}])
        live.remove(sample.id)

    engines = [ScriptedEngine(EngineId(f"http://{n}"), geometry={"kv_tokens": 10**6}) for n in range(2)]
    await Batch(engines, {"bash": 1}, plan=plan, **more).run(solve, [Sample(str(n)) for n in range(8)])
    return max(most)


async def test_auto_keeps_the_reference_concurrency_of_every_engine() -> None:
    assert await most_live(PLAN) == 4


async def test_a_number_wins_over_the_plan() -> None:
    assert await most_live(PLAN, concurrency=3) == 3
    assert await most_live(PLAN, policy="static-1") == 1


async def test_without_a_reference_the_caches_alone_decide() -> None:
    assert await most_live(None) == 8
    assert await most_live(BARE) == 8


async def test_a_planned_engine_joins_with_the_plans_capacity() -> None:
    engine = ScriptedEngine(geometry={"kv_tokens": Tokens(900), "state_slots": 7, "block_tokens": Tokens(16)})
    fact = await Planned(engine, Capacity(None, Tokens(500), None)).join(Nanos(0))
    assert (fact.kv_tokens, fact.state_slots, fact.block_tokens) == (500, 7, 16)
    fact = await Planned(engine, Capacity(None, None, 3)).join(Nanos(0))
    assert (fact.kv_tokens, fact.state_slots) == (900, 3)
