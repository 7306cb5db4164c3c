"""The adapters held to a real engine: vLLM with a tiny hybrid model."""

import asyncio
import json
import os
import random
import signal

import pytest

from headway.adapters.engines import connect
from headway.adapters.engines.doctor import examine
from headway.core.commands import StartTurn
from headway.core.units import MAIN, EngineId, TrajectoryId
from headway.errors import ConfigError, EngineError
from headway.ports import TurnRequest

pytestmark = [pytest.mark.engine, pytest.mark.anyio, pytest.mark.timeout(400)]

DICE = random.Random()
LONG = {"messages": [{"role": "user", "content": "Tell a story."}], "max_tokens": 4000, "ignore_eos": True}


def start(rank=0):
    return StartTurn(TrajectoryId("t"), MAIN, 0, 1, EngineId("e"), rank)


def fresh_words(count):
    """Words that no cache has seen."""
    return " ".join(f"{DICE.randrange(10**6)}" for _ in range(count))


async def state(engine, **wanted):
    """Return once the engine says so of itself; the test's own time limit ends a wait in vain."""
    while {k: getattr(await engine.sample(0), k) for k in wanted} != wanted:  # noqa: ASYNC110 - it is asked
        await asyncio.sleep(0.05)


async def test_an_engine_joins_with_its_geometry(engine):
    fact = await engine.join(0)
    assert fact.kind == "vllm"
    assert fact.block_tokens == 256
    assert fact.max_context >= 8192
    assert fact.kv_tokens > fact.max_context
    assert fact.state_slots > 1


@pytest.mark.parametrize(("first", "added"), [(300, 250), (700, 60), (1519, 300), (2399, 200)])
async def test_cached_tokens_of_a_chain_follow_the_law(engine, first, added):
    """Cached tokens of a turn: the last block boundary before the end of the previous prompt."""
    block = (await engine.join(0)).block_tokens
    ids = [DICE.randrange(300, 8000) for _ in range(first)]
    fixed = {"max_tokens": 20, "min_tokens": 20, "ignore_eos": True, "temperature": 0, "return_token_ids": True}
    previous = None
    for _ in range(5):
        answer = await engine.turn(start(), TurnRequest({"prompt": ids, **fixed}, route="completions"))
        assert answer.prompt_tokens == len(ids)
        assert answer.output_tokens == 20
        assert answer.cached_tokens == (0 if previous is None else (previous - 1) // block * block)
        previous = len(ids)
        ids = [*ids, *answer.body["choices"][0]["token_ids"], *(DICE.randrange(300, 8000) for _ in range(added))]


async def test_a_conversation_keeps_its_prefix(engine):
    """The chat template only ever appends: each turn finds the one before it in the cache."""
    messages = [{"role": "system", "content": fresh_words(300)}, {"role": "user", "content": "Go."}]
    previous = 0
    for turn in range(4):
        answer = await engine.turn(start(), TurnRequest({"messages": messages, "max_tokens": 30, "ignore_eos": True}))
        assert answer.prompt_tokens == await engine.tokenize(messages)
        if turn:
            assert answer.cached_tokens == (previous - 1) // 256 * 256 > 0
        previous = answer.prompt_tokens
        messages += [dict(answer.message), {"role": "user", "content": fresh_words(40)}]


async def test_a_named_tool_is_called_with_valid_arguments(engine):
    parameters = {
        "type": "object",
        "properties": {"city": {"enum": ["Rome", "Oslo"]}},
        "required": ["city"],
        "additionalProperties": False,
    }
    tool = {"type": "function", "function": {"name": "weather", "parameters": parameters, "strict": True}}
    choice = {"type": "function", "function": {"name": "weather"}}
    body = {"messages": [{"role": "user", "content": "?"}], "tools": [tool], "tool_choice": choice, "max_tokens": 300}
    answer = await engine.turn(start(), TurnRequest(body))
    [call] = answer.tool_calls
    assert call["function"]["name"] == "weather"
    assert json.loads(call["function"]["arguments"]) in ({"city": "Rome"}, {"city": "Oslo"})


async def test_a_priority_is_accepted_and_queue_time_told(engine):
    answer = await engine.turn(start(rank=-3), TurnRequest({"messages": LONG["messages"], "max_tokens": 2}))
    assert answer.engine_queue is not None
    assert 0 <= answer.engine_queue <= answer.service


async def test_a_smaller_rank_is_sooner(doomed):
    """The engine is full; of two equal turns that wait, the later one of smaller rank takes the first free place."""
    engine = connect(doomed.url)
    order = []

    async def tell(name, rank, tokens):
        body = {"messages": LONG["messages"], "ignore_eos": True, "max_tokens": tokens, "min_tokens": tokens}
        await engine.turn(start(rank), TurnRequest(body))
        order.append(name)

    await engine.join(0)
    async with asyncio.TaskGroup() as group:
        for tokens in (300, 600, 900, 1200):
            group.create_task(tell("full", 0, tokens))
        await state(engine, running=4)
        group.create_task(tell("late", 9, 100))
        await state(engine, waiting=1)
        group.create_task(tell("soon", 1, 100))
    await engine.close()
    assert order.index("soon") < order.index("late")


async def test_cancelling_frees_the_engine(engine):
    await state(engine, running=0)
    turn = asyncio.create_task(engine.turn(start(), TurnRequest(LONG)))
    await state(engine, running=1)
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn
    await state(engine, running=0)


async def test_what_the_engine_refuses_is_invalid(engine):
    too_long = {"prompt": [300] * 40_000, "max_tokens": 1}
    with pytest.raises(EngineError) as caught:
        await engine.turn(start(), TurnRequest(too_long, route="completions"))
    assert caught.value.kind == "invalid"


async def test_a_wrong_model_is_one_clear_line(engine_urls):
    engine = connect(engine_urls[0], model="tiny-qwen3-nxt")
    with pytest.raises(ConfigError, match="tiny-qwen3-next"):
        await engine.join(0)
    await engine.close()


async def test_idle_connections_survive_the_engines_patience(engine):
    """vLLM hangs up on idle connections after 5 s; the turn after a long action must not notice."""
    body = {"messages": LONG["messages"], "max_tokens": 1}
    await engine.turn(start(), TurnRequest(body))
    await asyncio.sleep(5.2)
    await engine.turn(start(), TurnRequest(body))


async def test_the_doctor_finds_it_fit(engine_urls):
    findings = await examine(engine_urls[0])
    assert [(c.name, c.line) for c in findings.checks if c.verdict != "ok"] == []


async def test_a_killed_replica_is_lost(doomed):
    engine = connect(doomed.url)
    await engine.join(0)
    turn = asyncio.create_task(engine.turn(start(), TurnRequest(LONG)))
    await state(engine, running=1)
    os.killpg(doomed.pid, signal.SIGKILL)
    with pytest.raises(EngineError) as caught:
        await turn
    assert caught.value.kind == "lost"
    with pytest.raises(EngineError) as caught:
        await engine.sample(0)
    assert caught.value.kind == "lost"
    await engine.close()
