"""The resource model held to a real engine: blocks, concurrency, cached tokens; two models, pools of two sizes."""

import random
from collections.abc import Iterator

import msgspec
import pytest

from headway.adapters import replicas
from headway.adapters.engines import connect
from headway.adapters.engines.measure import measure
from headway.core.commands import StartTurn
from headway.core.units import MAIN, Bytes, EngineId, Tokens, TrajectoryId
from headway.hybrid.architecture import from_config
from headway.hybrid.measured import compare
from headway.hybrid.plan import Plan, plan
from headway.hybrid.vllm import Vllm, cached_tokens
from headway.ports import TurnRequest

pytestmark = [pytest.mark.engine, pytest.mark.anyio, pytest.mark.timeout(400)]

DICE = random.Random()
MIB = 1 << 20
START = StartTurn(TrajectoryId("t"), MAIN, 0, 1, EngineId("e"))
QWEN, GRANITE = "tiny-qwen3-next", "tiny-granite-hybrid"
POOLS = [(QWEN, 1024), (QWEN, 20), (GRANITE, 1024), (GRANITE, 24)]  # MiB; 1024 is what replicas get by default


def planned(model: str, mib: int) -> Plan:
    engine = Vllm(block_tokens=replicas.BLOCK_TOKENS)
    return plan(from_config(replicas.config(model), name=model), engine, Bytes(mib * MIB), 1)


@pytest.fixture(scope="module", params=POOLS, ids=lambda p: f"{p[0]} with {p[1]} MiB")
def pool(request: pytest.FixtureRequest, engine_urls: list[str]) -> Iterator[tuple[Plan, str]]:
    """A plan and an engine: the session's where it is the same, else one started with the planned flags."""
    model, mib = request.param
    made = planned(model, mib)
    if (model, mib) == POOLS[0]:
        yield made, engine_urls[0]
        return
    before = replicas.listed()
    [replica] = replicas.up(1, model, made.flags, announce=print)
    yield made, replica.url
    if replica not in before:
        replicas.down([replica])


async def test_blocks_and_concurrency_are_as_planned(pool):
    made, url = pool
    engine = connect(url)
    checks = compare(made, await measure(engine))
    await engine.close()
    assert [check.name for check in checks] == ["tokens per block", "blocks", "requests of 8,192 tokens"]
    assert [check for check in checks if not check.agrees] == []


@pytest.mark.parametrize(("first", "added"), [(300, 250), (700, 60), (1519, 300)])
async def test_each_turn_finds_the_cached_tokens_that_are_predicted(pool, first, added):
    made, url = pool
    block = made.block_tokens
    engine = connect(url)
    ids = [DICE.randrange(300, 8000) for _ in range(first)]
    fixed = {"max_tokens": 20, "min_tokens": 20, "ignore_eos": True, "temperature": 0, "return_token_ids": True}
    expected = Tokens(0)
    for _ in range(5):
        answer = await engine.turn(START, TurnRequest({"prompt": ids, **fixed}, route="completions"))
        assert (answer.prompt_tokens, answer.output_tokens) == (len(ids), 20)
        assert answer.cached_tokens == expected
        expected = cached_tokens(answer.prompt_tokens, answer.output_tokens, block, hybrid=True)
        ids = [*ids, *answer.body["choices"][0]["token_ids"], *(DICE.randrange(300, 8000) for _ in range(added))]
    await engine.close()


async def test_a_plan_survives_its_file(pool):
    made, _ = pool
    assert msgspec.json.decode(msgspec.json.encode(made), type=Plan) == made
