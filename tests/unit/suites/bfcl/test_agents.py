import json

import msgspec
import pytest

from headway.core.units import Tokens
from headway.suites.bfcl import BfclResult, InjectedLatency, ModelAgent, ScriptedAgent, judge, samples, score
from headway.suites.bfcl.agents import MOST_STEPS
from headway.suites.bfcl.conversation import official_call
from headway.suites.bfcl.tools import bounded_arguments, strict, tool_name

pytestmark = pytest.mark.anyio


def sample(tasks, name="multi_turn_base_0"):
    return samples([tasks[name]])[0]


async def test_scripted_plays_twenty_base_tasks_to_full_marks(tasks, fake_trajectory):
    chosen = [tasks[f"multi_turn_base_{number}"] for number in range(20)]
    results = []
    for one in samples(chosen):
        trajectory = fake_trajectory()
        results.append(await ScriptedAgent().solve(one, trajectory))
        task = one.data
        assert results[-1].actions == trajectory.slots_used == task.official_actions
        assert results[-1].turns == len(trajectory.bodies) == task.official_actions + len(task.turns)
    assert score(results, tasks=chosen).total == 1.0
    assert msgspec.json.decode(msgspec.json.encode(results), type=list[BfclResult]) == results


@pytest.mark.parametrize("category", ["miss_func", "miss_param", "long_context"])
async def test_scripted_plays_the_other_categories_too(tasks, fake_trajectory, category):
    for number in range(0, 200, 40):
        result = await ScriptedAgent().solve(sample(tasks, f"multi_turn_{category}_{number}"), fake_trajectory())
        assert (result.score, result.error, result.ended) == (1.0, "", "finished")


async def test_a_corrupted_official_call_scores_nothing(tasks, fake_trajectory):
    task = tasks["multi_turn_base_0"]
    first = task.turns[0]
    corrupted = msgspec.structs.replace(first, official=(first.official[0], "mkdir(dir_name='wrong')"))
    # The chain plays other calls than those it is judged by.
    play = msgspec.structs.replace(task, turns=(corrupted, *task.turns[1:]))
    result = await ScriptedAgent().solve(samples([play])[0], fake_trajectory())
    assert judge(task, result.calls).error == "multi_turn:instance_state_mismatch"


async def test_scripted_asks_for_as_many_tokens_as_the_call_takes(tasks, fake_trajectory):
    trajectory = fake_trajectory()
    await ScriptedAgent().solve(sample(tasks), trajectory)
    first, second = trajectory.bodies[:2]
    assert first["min_tokens"] == first["max_tokens"] == 13  # for 51 characters
    assert first["ignore_eos"] is True
    assert first["tool_choice"] == "none"
    assert [tool_name(tool) for tool in first["tools"]] == [tool_name(tool) for tool in second["tools"]]
    assert [message["role"] for message in first["messages"]] == ["user"]
    assert [message["role"] for message in second["messages"]] == ["user", "assistant", "tool"]
    call, answer = second["messages"][1]["tool_calls"][0], second["messages"][2]
    assert call["function"] == {"name": "cd", "arguments": '{"folder": "document"}'}
    assert answer == {
        "role": "tool",
        "tool_call_id": call["id"],
        "content": '{"current_working_directory": "document"}',
    }
    for earlier, later in zip(trajectory.bodies, trajectory.bodies[1:], strict=False):
        assert later["messages"][: len(earlier["messages"])] == earlier["messages"], "a prompt only grows"


async def test_the_delay_happens_inside_the_slot_and_is_labelled(tasks, fake_trajectory):
    trajectory, delays = fake_trajectory(), []

    async def sleep(seconds: float) -> None:
        assert trajectory.holding
        delays.append(seconds)

    latency = InjectedLatency(seed=3)
    result = await ScriptedAgent(latency=latency, sleep=sleep).solve(sample(tasks), trajectory)
    assert delays == [latency.seconds("multi_turn_base_0", action) for action in range(result.actions)]
    assert result.injected == pytest.approx(sum(delays))
    assert result.delay == latency.label
    model = await ModelAgent(latency=latency, sleep=sleep).solve(sample(tasks), trajectory := fake_trajectory())
    assert (model.actions, model.injected) == (0, 0.0)


def by_name(calls):
    """Answers a named tool choice with one call."""
    return lambda _number, body: calls((body["tool_choice"]["function"]["name"], {"folder": "document"}))


def by_schema(says):
    """Answers a JSON schema with a text."""
    return lambda _number, _body: says('{"folder":"document"}')


def asked(body):
    named = body["tool_choice"]["function"] if "response_format" not in body else body["response_format"]["json_schema"]
    return named["name"]


@pytest.mark.parametrize("choice", ["structured", "named"])
async def test_what_is_asked_for_goes_round_the_functions(tasks, fake_trajectory, calls, says, choice):
    task = tasks["multi_turn_miss_func_0"]
    reply = by_name(calls) if choice == "named" else by_schema(says)
    trajectory, again = fake_trajectory(reply), fake_trajectory(reply)
    result = await ModelAgent(choice=choice).solve(samples([task])[0], trajectory)
    names = [asked(body) for body in trajectory.bodies]
    assert result.agent == f"model-{choice}"
    assert result.turns == result.actions == len(names) == sum(max(1, len(turn.official)) for turn in task.turns)
    assert len(set(names)) > len(names) // 2
    assert (result.score, result.ended) == (0.0, "finished")
    assert (await ModelAgent(choice=choice).solve(samples([task])[0], again)).calls == result.calls
    for name, body in zip(names, trajectory.bodies[1:], strict=False):
        call = next(m for m in reversed(body["messages"]) if "tool_calls" in m)["tool_calls"][0]["function"]
        assert call == {"name": name, "arguments": '{"folder": "document"}'}


async def test_structured_asks_for_arguments_by_schema(tasks, fake_trajectory, says):
    trajectory = fake_trajectory(by_schema(says))
    await ModelAgent().solve(sample(tasks), trajectory)
    for body in trajectory.bodies:
        assert body["tool_choice"] == "none"
        assert body["response_format"]["type"] == "json_schema"
        tool = next(tool for tool in body["tools"] if tool_name(tool) == asked(body))
        assert body["response_format"]["json_schema"]["schema"] == bounded_arguments(tool)
        assert "strict" not in tool["function"]


async def test_named_makes_every_tool_strict_from_the_start(tasks, fake_trajectory, calls):
    task = tasks["multi_turn_miss_func_0"]
    trajectory = fake_trajectory(by_name(calls))
    await ModelAgent(choice="named").solve(samples([task])[0], trajectory)
    assert trajectory.bodies[0]["tools"] == [strict(tool) for tool in task.tools]
    assert trajectory.bodies[-1]["tools"][-1] == strict(task.turns[3].added[0])


@pytest.mark.parametrize("text", ['{"cut', "[1]", "three"])
async def test_structured_goes_on_when_an_answer_can_not_be_read(tasks, fake_trajectory, says, text):
    trajectory = fake_trajectory(lambda _number, _body: says(text))
    result = await ModelAgent().solve(sample(tasks), trajectory)
    assert result.turns == tasks["multi_turn_base_0"].official_actions
    assert result.actions == 0
    assert result.error == "multi_turn:empty_turn_model_response"


async def test_auto_that_answers_rightly_gets_full_marks(tasks, fake_trajectory, calls, says):
    task = tasks["multi_turn_base_0"]
    script = []
    for turn in task.turns:
        script += [calls(*(official_call(line, task.tools) for line in turn.official)), says("done")]

    trajectory = fake_trajectory(lambda number, _body: script[number])
    result = await ModelAgent(choice="auto").solve(samples([task])[0], trajectory)
    assert (result.score, result.agent, result.ended) == (1.0, "model-auto", "finished")
    assert result.actions == len(task.turns), "calls made together are one action"
    assert all(body["tool_choice"] == "auto" for body in trajectory.bodies)
    assert not any("strict" in tool["function"] for tool in trajectory.bodies[0]["tools"])


async def test_auto_is_cut_off_after_the_benchmark_s_own_limit(tasks, fake_trajectory, calls):
    trajectory = fake_trajectory(lambda _number, _body: calls(("pwd", {})))
    result = await ModelAgent(choice="auto").solve(sample(tasks), trajectory)
    assert (result.turns, result.ended, result.score) == (MOST_STEPS, "steps", 0.0)
    assert result.error == "multi_turn:force_terminated"


@pytest.mark.parametrize("arguments", ['["a"]', "[", "3"])
async def test_auto_takes_calls_that_can_not_be_read_for_no_call(tasks, fake_trajectory, calls, arguments):
    trajectory = fake_trajectory(lambda _number, _body: calls(("pwd", {}), ("cd", arguments)))
    result = await ModelAgent(choice="auto").solve(sample(tasks), trajectory)
    assert result.actions == 0
    assert result.turns == len(tasks["multi_turn_base_0"].turns)


async def test_calls_that_must_not_run_are_told_apart(tasks, fake_trajectory, calls, says):
    script = [calls(("exec", {"code": "1"}), ("pwd", "")), says("enough")]
    trajectory = fake_trajectory(lambda number, _body: script[number] if number < 2 else says("no"))
    result = await ModelAgent(choice="auto").solve(sample(tasks), trajectory)
    assert (result.refused, result.actions) == (1, 1)
    assert result.calls[0] == (("pwd()",),)
    assert result.outputs[0][0][0] == "Error during execution: name 'exec' is not defined"
    assert trajectory.bodies[1]["messages"][2]["content"] == result.outputs[0][0][0]


async def test_a_full_context_cuts_a_trajectory_off(tasks, fake_trajectory, says):
    trajectory = fake_trajectory(lambda _number, _body: says(json.dumps({"content": "x" * 3000})))
    result = await ModelAgent(max_context=Tokens(8000)).solve(sample(tasks), trajectory)
    assert (result.ended, result.score) == ("context", 0.0)
    assert 0 < result.turns < tasks["multi_turn_base_0"].official_actions
    last = trajectory.bodies[-1]
    assert len(json.dumps(last["messages"])) / 3 < 8000
