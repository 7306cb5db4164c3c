"""BFCL on a real engine: both agents end to end, through a batch with fewer slots than trajectories."""

from collections.abc import Iterator

import pytest

from headway import Batch, Slots
from headway.adapters import replicas
from headway.core.units import Tokens
from headway.suites import bfcl

pytestmark = [pytest.mark.engine, pytest.mark.live, pytest.mark.anyio, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def engine() -> Iterator[str]:
    """The URL of a replica; one that was there before stays."""
    before = replicas.listed()
    [replica] = replicas.up(1)
    yield replica.url
    if replica not in before:
        replicas.down([replica])


@pytest.fixture(scope="module")
def tasks() -> list[bfcl.Task]:
    return list(bfcl.fit(bfcl.load_tasks(["base", "miss_func"]), Tokens(8192)).fitting[:8])


async def results(engine: str, solve, tasks) -> list[bfcl.BfclResult]:
    batch = Batch([engine], {bfcl.ENVIRONMENT: Slots(2, bfcl.environment())})
    done = await batch.run(solve, bfcl.samples(tasks))
    assert [result.failure for result in done] == [None] * len(tasks)
    return [result.value for result in done]


async def test_scripted_gets_full_marks_with_its_own_chain_lengths(engine, tasks):
    played = await results(engine, bfcl.ScriptedAgent().solve, tasks)
    assert bfcl.score(played, tasks=tasks).total == 1.0
    assert [result.actions for result in played] == [task.official_actions for task in tasks]


async def test_random_weights_fill_in_every_structured_call(engine, tasks):
    played = await results(engine, bfcl.ModelAgent(max_context=Tokens(8192)).solve, tasks)
    assert [result.ended for result in played] == ["finished"] * len(tasks)
    for result in played:
        assert result.actions == result.turns > 0
        assert result.refused == 0
