"""Time-outs, in virtual time: seconds of service count, queues don't."""

from typing import Any

import anyio
import pytest
from fakes import HASTY, ScriptedEngine, WatchedPlace, answer

from headway import Batch, Result, Sample, Slots, Timeouts, Trajectory
from headway.core.commands import StartTurn
from headway.core.policy import Retries
from headway.core.units import MILLISECOND, SECOND, EnvironmentId, Nanos
from headway.errors import EngineError
from headway.ports import TurnAnswer, TurnRequest

pytestmark = pytest.mark.anyio
ASK = [{"role": "user", "content": "hello"}]


@pytest.fixture
def anyio_backend(virtual: tuple[str, dict[str, object]]) -> tuple[str, dict[str, object]]:
    return virtual


def taking(seconds: float) -> Any:
    async def play(start: StartTurn, request: TurnRequest) -> TurnAnswer:
        await anyio.sleep(seconds)
        return answer()

    return play


def samples(count: int) -> list[Sample]:
    return [Sample(f"s{n}") for n in range(count)]


def failures(results: list[Result]) -> list[str | None]:
    return [result.failure for result in results]


async def test_waiting_for_a_slot_costs_nothing() -> None:
    async def solve(sample: Sample, trajectory: Trajectory) -> str:
        async with trajectory.action():
            await anyio.sleep(6)
        return "done"

    batch = Batch(environments={"bash": 1}, timeouts=Timeouts(sample=10))
    assert failures(await batch.run(solve, samples(5))) == [None] * 5  # the last one waits for 24 s


async def test_acting_for_too_long_does_cost() -> None:
    async def solve(sample: Sample, trajectory: Trajectory) -> None:
        for _ in range(3):
            async with trajectory.action():
                await anyio.sleep(6)

    batch = Batch(environments={"bash": 1}, timeouts=Timeouts(sample=10))
    assert failures(await batch.run(solve, samples(2))) == ["served for longer than its 10 s"] * 2


async def test_waiting_for_an_engine_costs_nothing_but_its_service_does() -> None:
    async def solve(sample: Sample, trajectory: Trajectory) -> None:
        for _ in range(sample.data):
            await trajectory.chat(ASK)

    engine = ScriptedEngine(play=taking(4), geometry={"max_running": 1})
    batch = Batch([engine], timeouts=Timeouts(sample=10))
    results = await batch.run(solve, [*(Sample(f"s{n}", 2) for n in range(4)), Sample("long", 3)])
    assert failures(results) == [None] * 4 + ["served for longer than its 10 s"]


async def test_a_turn_is_stopped_when_its_samples_time_is_up() -> None:
    async def solve(sample: Sample, trajectory: Trajectory) -> None:
        await trajectory.chat(ASK)

    engine = ScriptedEngine(play=taking(10**9))
    results = await Batch([engine], timeouts=Timeouts(sample=10)).run(solve, samples(1))
    assert failures(results) == ["served for longer than its 10 s"]
    assert engine.cancelled == engine.started


async def test_waiting_before_a_retry_costs_nothing() -> None:
    tries = 0

    async def play(start: StartTurn, request: TurnRequest) -> TurnAnswer:
        nonlocal tries
        tries += 1
        if tries < 4:
            raise EngineError("busy", kind="overloaded", retry_after=20 * SECOND)
        return answer()

    async def solve(sample: Sample, trajectory: Trajectory) -> str:
        return (await trajectory.chat(ASK)).text

    batch = Batch([ScriptedEngine(play=play)], timeouts=Timeouts(sample=10))
    assert [result.value for result in await batch.run(solve, samples(1))] == ["hi"]
    assert tries == 4


async def test_the_agents_own_time_costs() -> None:
    async def solve(sample: Sample, trajectory: Trajectory) -> None:
        await anyio.sleep(11)

    results = await Batch(timeouts=Timeouts(sample=10)).run(solve, samples(1))
    assert failures(results) == ["served for longer than its 10 s"]


@pytest.mark.parametrize(("work", "failure"), [(4, None), (6, "served for longer than its 10 s")])
async def test_parallel_streams_share_one_budget(work: float, failure: str | None) -> None:
    async def act(trajectory: Trajectory, stream: str) -> None:
        for _ in range(2):
            async with trajectory.action(stream=stream):
                await anyio.sleep(work)

    async def solve(sample: Sample, trajectory: Trajectory) -> None:
        async with anyio.create_task_group() as tasks:
            for stream in "ab":
                tasks.start_soon(act, trajectory, stream)

    batch = Batch(environments={"bash": 2}, timeouts=Timeouts(sample=10))
    assert failures(await batch.run(solve, samples(1))) == [failure]


async def test_an_action_has_a_time_out_of_its_own() -> None:
    async def solve(sample: Sample, trajectory: Trajectory) -> str:
        with pytest.raises(TimeoutError, match="the action took longer than its 5 s"):
            async with trajectory.action(timeout=5):
                await anyio.sleep(6)
        async with trajectory.action():  # the slot is free again; this one takes the default
            await anyio.sleep(7)
        return "went on"

    place = WatchedPlace(EnvironmentId("bash"))
    batch = Batch(environments={"bash": Slots(1, place)}, timeouts=Timeouts(action=8))
    assert [result.value for result in await batch.run(solve, samples(1))] == ["went on"]
    assert place.log == ["enter s0", "leave s0", "enter s0", "leave s0", "release s0", "close -"]


async def test_making_a_place_is_part_of_its_action() -> None:
    async def solve(sample: Sample, trajectory: Trajectory) -> None:
        async with trajectory.action():
            pass

    place = WatchedPlace(EnvironmentId("bash"), hanging={"enter"})
    batch = Batch(environments={"bash": Slots(1, place)}, timeouts=Timeouts(action=8))
    assert failures(await batch.run(solve, samples(1))) == ["TimeoutError: the action took longer than its 8 s"]


@pytest.mark.parametrize("phase", ["leave", "release"])
async def test_a_place_that_never_lets_go_holds_nobody_up(phase: str, caplog: pytest.LogCaptureFixture) -> None:
    async def solve(sample: Sample, trajectory: Trajectory) -> str:
        async with trajectory.action():
            return "done"

    place = WatchedPlace(EnvironmentId("bash"), hanging={phase})
    results = await Batch(environments={"bash": Slots(1, place)}).run(solve, samples(2))
    assert [result.value for result in results] == ["done", "done"]
    assert {record.getMessage() for record in caplog.records} == {
        f"environment bash did not let go of {sample} within 60 s" for sample in ("s0", "s1")
    }


async def test_the_time_outs_of_turns_go_with_the_request() -> None:
    async def solve(sample: Sample, trajectory: Trajectory) -> None:
        await trajectory.chat(ASK)
        await trajectory.complete("hello", timeout=3)

    engine = ScriptedEngine()
    await Batch([engine], timeouts=Timeouts(turn=8)).run(solve, samples(1))
    assert [(request.route, request.timeout) for request in engine.requests] == [
        ("chat/completions", 8),
        ("completions", 3),
    ]


async def test_a_turn_that_times_out_is_tried_twice() -> None:
    async def play(start: StartTurn, request: TurnRequest) -> TurnAnswer:
        raise EngineError("no answer within 8 s", kind="timeout")

    async def solve(sample: Sample, trajectory: Trajectory) -> None:
        await trajectory.chat(ASK)

    engine = ScriptedEngine(play=play)
    results = await Batch([engine]).run(solve, samples(1))
    assert failures(results) == ["Rejected: timeout after 2 tries: no answer within 8 s"]
    assert [start.attempt for start in engine.started] == [1, 2]


async def test_retries_are_as_many_as_one_says() -> None:
    async def play(start: StartTurn, request: TurnRequest) -> TurnAnswer:
        raise EngineError("full", kind="overloaded")

    async def solve(sample: Sample, trajectory: Trajectory) -> None:
        await trajectory.chat(ASK)

    engine = ScriptedEngine(play=play)
    retries = Retries({"overloaded": 3}, first=Nanos(MILLISECOND))
    results = await Batch([engine], retries=retries, watch=HASTY).run(solve, samples(1))
    assert failures(results) == ["Rejected: overloaded after 3 tries: full"]
    assert len(engine.started) == 3
