"""How agents end: well, badly, cancelled in any phase. Never a crash of the batch, never a place or slot left over."""

import asyncio
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from fakes import HASTY, ScriptedEngine, WatchedPlace, answer

from headway import Batch, Result, Sample, Slots, Trajectory
from headway.batch import BatchStopped
from headway.core.commands import StartTurn
from headway.core.units import EngineId, EnvironmentId
from headway.errors import ConfigError, EngineError, Rejected, SandboxError
from headway.ports import TurnAnswer, TurnRequest

pytestmark = pytest.mark.anyio
ASK = [{"role": "user", "content": "hello"}]
ONE = [Sample("s")]


async def run(solve: Any, *, engine: ScriptedEngine | None = None, **more: Any) -> Result:
    [result] = await Batch([engine or ScriptedEngine()], more.pop("environments", {"bash": 1}), **more).run(solve, ONE)
    return result


async def endless(start: StartTurn, request: TurnRequest) -> TurnAnswer:
    await anyio.sleep_forever()
    raise AssertionError


async def test_what_the_agent_returns_is_the_result() -> None:
    async def solve(sample: Sample, trajectory: Trajectory) -> dict[str, object]:
        reply = await trajectory.chat(ASK, max_tokens=5)
        async with trajectory.action() as place:
            assert place is None
        return {"text": reply.text, "attempt": trajectory.attempt}

    result = await run(solve)
    assert result == Result("s", {"text": "hi", "attempt": 1})
    assert result.ok


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        (ValueError("boom"), "ValueError: boom"),
        (ExceptionGroup("many", [ValueError("boom")]), "ValueError: boom"),
        (ExceptionGroup("many", [ValueError("a"), KeyError("b")]), "ExceptionGroup: many (2 sub-exceptions)"),
        (asyncio.CancelledError("a task of the agent's own"), "cancelled"),
        (TimeoutError(), "TimeoutError: "),
    ],
)
async def test_how_an_agent_fails_is_data(error: BaseException, failure: str) -> None:
    async def solve(sample: Sample, trajectory: Trajectory) -> None:
        raise error

    assert (await run(solve)).failure == failure


async def test_what_ends_the_process_is_no_failure_of_a_sample() -> None:
    class Fatal(BaseException):
        pass

    async def solve(sample: Sample, trajectory: Trajectory) -> None:
        async with anyio.create_task_group():
            raise Fatal

    with pytest.raises(Fatal):
        await run(solve)


@pytest.mark.parametrize("value", [object(), {1: {2j}}, "\ud800"])
async def test_a_result_must_be_json(value: object) -> None:
    async def solve(sample: Sample, trajectory: Trajectory) -> object:
        return value

    failure = (await run(solve)).failure
    assert failure is not None
    assert failure.startswith("what it returned can't be kept as JSON: ")


async def test_a_request_that_is_no_json_fails_its_sample_alone() -> None:
    async def solve(sample: Sample, trajectory: Trajectory) -> str:
        if sample.id == "odd":
            await trajectory.chat(ASK, temperature=object())
        return (await trajectory.chat(ASK)).text

    odd, fine = await Batch([ScriptedEngine()]).run(solve, [Sample("odd"), Sample("fine")])
    assert odd.failure is not None
    assert odd.failure.startswith("TypeError: Encoding objects of type object")
    assert fine.value == "hi"


async def test_turns_of_one_stream_can_not_overlap() -> None:
    async def solve(sample: Sample, trajectory: Trajectory) -> list[str]:
        said = []

        async def ask() -> None:
            try:
                said.append((await trajectory.chat(ASK)).text)
            except ConfigError as error:
                said.append(str(error))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            tasks.start_soon(ask)
        said.append((await trajectory.chat(ASK)).text)  # and the stream goes on as if nothing had been
        return said

    said = (await run(solve)).value
    assert min(said[:2]).startswith("a turn of stream 'main' is under way (wait for it, or give")
    assert [max(said[:2]), *said[2:]] == ["hi", "hi"]


async def test_streams_and_actions_of_one_trajectory_run_side_by_side() -> None:
    meeting = {name: anyio.Event() for name in "abxy"}

    async def meet(mine: str, others: str) -> None:
        meeting[mine].set()
        await meeting[others].wait()

    async def play(start: StartTurn, request: TurnRequest) -> TurnAnswer:
        await meet(*("ab" if start.stream == "a" else "ba"))
        return answer(start.stream)

    async def solve(sample: Sample, trajectory: Trajectory) -> list[str]:
        said: list[str] = []

        async def branch(stream: str, mine: str, other: str) -> None:
            said.append((await trajectory.chat(ASK, stream=stream)).text)
            async with trajectory.action(stream=stream):
                await meet(mine, other)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(branch, "a", "x", "y")
            tasks.start_soon(branch, "b", "y", "x")
        return sorted(said)

    assert (await run(solve, engine=ScriptedEngine(play=play), environments={"bash": 2})).value == ["a", "b"]


# -- cancellation -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rounds", range(12))
async def test_a_turn_can_be_given_up_at_any_moment(rounds: int) -> None:
    """The agent gives up after so many scheduler rounds: before it was sent, while it runs, as the answer comes."""

    async def play(start: StartTurn, request: TurnRequest) -> TurnAnswer:
        return answer(request.body["messages"][0]["content"])

    async def solve(sample: Sample, trajectory: Trajectory) -> str:
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_cancel_after, rounds, scope)
                await trajectory.chat([{"role": "user", "content": "old"}])
        return (await trajectory.chat([{"role": "user", "content": "new"}])).text

    assert (await run(solve, engine=ScriptedEngine(play=play))).value == "new"


@pytest.mark.parametrize("rounds", range(12))
async def test_an_action_can_be_given_up_at_any_moment(rounds: int) -> None:
    async def solve(sample: Sample, trajectory: Trajectory) -> str:
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_cancel_after, rounds, scope)
                async with trajectory.action():
                    await anyio.sleep_forever()
        async with trajectory.action():  # the only slot is free again
            return "went on"

    assert (await run(solve)).value == "went on"


async def _cancel_after(rounds: int, scope: anyio.CancelScope) -> None:
    for _ in range(rounds):
        await anyio.lowlevel.checkpoint()
    scope.cancel()


async def test_a_request_made_when_it_is_too_late_already_leaves_no_gap() -> None:
    async def solve(sample: Sample, trajectory: Trajectory) -> str:
        with anyio.move_on_after(0):
            await trajectory.chat(ASK)
        with anyio.move_on_after(0):
            async with trajectory.action():
                pass
        async with trajectory.action():
            return (await trajectory.chat(ASK)).text

    assert (await run(solve)).value == "hi"


@pytest.mark.parametrize("phase", ["pending", "own time", "turn", "queued turn", "action", "queued action"])
async def test_a_sample_can_be_cancelled_in_every_phase(phase: str) -> None:
    started, hold = anyio.Event(), anyio.Event()

    async def solve(sample: Sample, trajectory: Trajectory) -> str:
        if sample.id == "other":
            await _hold(phase, trajectory, started, hold)
            return "other"
        await _enter(phase, trajectory, started)
        raise AssertionError

    async def play(start: StartTurn, request: TurnRequest) -> TurnAnswer:
        await (hold.wait() if start.trajectory == "other" else anyio.sleep_forever())
        return answer()

    place = WatchedPlace(EnvironmentId("bash"))
    batch = Batch(
        [ScriptedEngine(play=play, geometry={"max_running": 1})],
        {"bash": Slots(1, place)},
        concurrency=1 if phase == "pending" else 2,
        policy="fifo",
    )

    async def cancel() -> None:
        await started.wait()
        for _ in range(30):
            await anyio.lowlevel.checkpoint()
        await batch.cancel("s")
        hold.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(cancel)
        results = await batch.run(solve, [Sample("other"), Sample("s")])
    assert [(result.value, result.failure) for result in results] == [("other", None), (None, "cancelled")]
    assert place.log.count("enter s") == place.log.count("leave s")
    world = batch._run._setup.machine.world  # type: ignore[union-attr]
    assert (world.turning, world.acting, world.live) == (0, 0, 0)
    assert world.environments[EnvironmentId("bash")].busy == 0


async def _hold(phase: str, trajectory: Trajectory, started: anyio.Event, hold: anyio.Event) -> None:
    match phase:
        case "queued turn":
            started.set()
            await trajectory.chat(ASK)
        case "queued action":
            async with trajectory.action():
                started.set()
                await hold.wait()
        case "pending":
            started.set()
            await hold.wait()
        case _:
            await hold.wait()


async def _enter(phase: str, trajectory: Trajectory, started: anyio.Event) -> None:
    match phase:
        case "own time":
            started.set()
            await anyio.sleep_forever()
        case "turn" | "queued turn":
            started.set()
            await trajectory.chat(ASK)
        case "action":
            async with trajectory.action():
                started.set()
                await anyio.sleep_forever()
        case _:
            async with trajectory.action():
                raise AssertionError


async def test_a_sample_cancelled_while_it_is_admitted_never_runs_on() -> None:
    """The order to cancel and the admission cross: the agent that just started is stopped."""
    ran_on = False

    async def solve(sample: Sample, trajectory: Trajectory) -> None:
        nonlocal ran_on
        await anyio.lowlevel.checkpoint()
        ran_on = True

    batch = Batch()

    async def cancel() -> None:
        await batch.started.wait()
        await batch.cancel("s")  # its submission is still in the inbox

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(cancel)
        [result] = await batch.run(solve, ONE)
    assert result.failure == "cancelled"
    assert not ran_on


# -- environments -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("phase", ["leave", "release", "enter"])
async def test_an_environment_that_fails_fails_no_batch(phase: str, caplog: pytest.LogCaptureFixture) -> None:
    async def solve(sample: Sample, trajectory: Trajectory) -> str:
        async with trajectory.action():
            return "done"

    place = WatchedPlace(EnvironmentId("bash"), failing={phase: OSError("no space left")})
    results = await Batch(environments={"bash": Slots(1, place)}).run(solve, [Sample("s"), Sample("t")])
    if phase == "enter":
        assert {result.failure for result in results} == {"OSError: no space left"}
    else:
        assert [result.value for result in results] == ["done", "done"]
        assert len(caplog.records) == 2
        assert caplog.records[0].getMessage() == "environment bash, letting go of s: no space left"


@pytest.mark.parametrize(("lost", "failure"), [(2, None), (3, "SandboxError: it died"), (0, None)])
async def test_work_is_done_again_where_its_place_died(lost: int, failure: str | None) -> None:
    tries = 0

    async def work(place: object) -> str:
        nonlocal tries
        tries += 1
        if tries <= lost:
            raise SandboxError("it died", lost=True)
        return "done"

    async def solve(sample: Sample, trajectory: Trajectory) -> str:
        return await trajectory.act(work)

    assert (await run(solve)).failure == failure
    assert tries == min(lost + 1, 3)


@pytest.mark.parametrize("attempts", [3, 0])
async def test_work_that_only_went_wrong_is_not_done_again(attempts: int) -> None:
    tries = 0

    async def work(place: object) -> None:
        nonlocal tries
        tries += 1
        raise SandboxError("exit code 1")

    async def solve(sample: Sample, trajectory: Trajectory) -> None:
        await trajectory.act(work, attempts=attempts)

    wanted = "SandboxError: exit code 1" if attempts else "ConfigError: attempts must be at least 1, is 0"
    assert (await run(solve)).failure == wanted
    assert tries == min(attempts, 1)


async def test_what_can_never_be_is_answered() -> None:
    async def solve(sample: Sample, trajectory: Trajectory) -> list[str]:
        said = []
        try:
            await trajectory.chat(ASK)
        except Rejected as error:
            said.append(str(error))
        for name in (None, "nowhere"):
            try:
                async with trajectory.action(name):
                    pass
            except (Rejected, ConfigError) as error:
                said.append(str(error))
        return said

    [result] = await Batch(environments={"bash": 1, "web": 2}).run(solve, ONE)
    assert result.value == [
        "this batch has no engine",
        "say which environment the action is for (this batch has: bash, web)",
        "it may not act in 'nowhere' (it may in: bash, web)",
    ]


async def test_after_a_refusal_the_stream_goes_on() -> None:
    async def play(start: StartTurn, request: TurnRequest) -> TurnAnswer:
        if start.turn == 0:
            raise EngineError("400: bad", kind="invalid")
        return answer()

    async def solve(sample: Sample, trajectory: Trajectory) -> str:
        with pytest.raises(Rejected, match="invalid after 1 tries: 400: bad"):
            await trajectory.chat(ASK)
        return (await trajectory.chat(ASK)).text

    assert (await run(solve, engine=ScriptedEngine(play=play))).value == "hi"


async def test_a_prompt_that_fits_nowhere_is_answered() -> None:
    async def solve(sample: Sample, trajectory: Trajectory) -> None:
        await trajectory.complete(list(range(101)))

    result = await run(solve, engine=ScriptedEngine(geometry={"max_context": 100}))
    assert result.failure == "Rejected: its prompt of about 101 tokens fits no engine (the largest takes 100)"
    samples = [Sample("s", prompt_tokens=500)]
    [result] = await Batch([ScriptedEngine(geometry={"max_context": 100})]).run(solve, samples)
    assert result.failure == "its prompt of about 500 tokens fits no engine (the largest takes 100)"


async def test_prompts_are_guessed_better_once_they_were_counted() -> None:
    async def solve(sample: Sample, trajectory: Trajectory) -> None:
        messages = [dict(ASK[0])]
        for _ in range(3):
            await trajectory.chat(messages)
            messages.append({"role": "user", "content": "x" * 1000})
        await trajectory.chat(ASK)  # the history was cut

    async def play(start: StartTurn, request: TurnRequest) -> TurnAnswer:
        return answer(prompt=len(str(request.body)))

    engine = ScriptedEngine(play=play)
    batch = Batch([engine])
    guessed: list[int] = []
    apply = batch.progress.apply

    def note(fact: Any, commands: Any) -> None:
        if type(fact).__name__ == "TurnRequested":
            guessed.append(fact.prompt_tokens)
        apply(fact, commands)

    batch.progress.apply = note  # type: ignore[method-assign]
    await batch.run(solve, ONE)
    counted = [len(str(request.body)) for request in engine.requests]
    assert guessed[0] < counted[0] / 3
    for guess, count in zip(guessed[1:], counted[1:], strict=True):
        assert abs(guess - count) < count / 5


# -- the error budget ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("budget", "stops"), [(None, False), (3, False), (2, True), (0.5, True), (0.9, False)])
async def test_too_many_failures_stop_the_batch(budget: float | None, stops: bool) -> None:
    async def solve(sample: Sample, trajectory: Trajectory) -> None:
        if sample.data:
            raise ValueError("boom")

    batch = Batch(error_budget=budget, concurrency=1)
    samples = [Sample(f"s{n}", n < 3) for n in range(5)]
    if stops:
        with pytest.raises(BatchStopped, match=r"3 samples failed, more than the error budget of 2; 2 have no result"):
            await batch.run(solve, samples)
    else:
        assert sum(not result.ok for result in await batch.run(solve, samples)) == 3


# -- what is refused ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ({"policy": "fifa"}, "fifa"),
        ({"environments": {"bash": 0}}, "environment 'bash': slots must be at least 1, is 0"),
        ({"environments": {"bash": Slots(1, instances=0)}}, "environment 'bash': instances must be at least 1, is 0"),
        ({"environments": {"bash": Slots(1, create_rate=0)}}, "environment 'bash': create_rate must be above 0, is 0"),
        ({"concurrency": 0}, "concurrency: must be a number from 1 or 'auto', is 0"),
        ({"concurrency": "many"}, "concurrency: must be a number from 1 or 'auto', is 'many'"),
        ({"engines": [ScriptedEngine(), ScriptedEngine()]}, "engines: the same engine is given twice"),
        ({"engines": ["localhost"]}, "localhost: an engine is given by its URL (such as http://127.0.0.1:8000)"),
    ],
)
def test_what_can_not_be_used_is_refused_at_once(arguments: dict[str, Any], line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Batch(**arguments)
    assert line in str(caught.value)


@pytest.mark.parametrize(
    ("ids", "line"),
    [
        (["a", "a", "b", "b"], "the sample id 'a' and 1 more comes twice (every sample needs an id of its own)"),
        (["a", ""], "a sample has an empty id (every sample needs an id of its own)"),
    ],
)
async def test_ids_are_unique(ids: list[str], line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        await Batch().run(lambda s, t: anyio.lowlevel.checkpoint(), [Sample(name) for name in ids])
    assert str(caught.value) == line


async def test_a_batch_runs_once() -> None:
    async def solve(sample: Sample, trajectory: Trajectory) -> str:
        return "done"

    batch = Batch()
    await batch.run(solve, ONE)
    with pytest.raises(ConfigError, match="a batch runs once"):
        await batch.run(solve, ONE)


@pytest.mark.parametrize("kind", ["lost", "timeout"])
async def test_an_engine_that_is_not_there_is_one_line_and_everything_is_closed(kind: Any) -> None:
    dead, alive = ScriptedEngine(EngineId("http://dead")), ScriptedEngine()
    dead.wrong = EngineError("nobody there", kind=kind)
    place = WatchedPlace(EnvironmentId("bash"))
    with pytest.raises(ConfigError) as caught:
        await Batch([dead, alive], {"bash": Slots(1, place)}).run(lambda s, t: anyio.lowlevel.checkpoint(), ONE)
    assert str(caught.value) == "http://dead: nobody there"
    assert (dead.closed, alive.closed, place.log) == (1, 1, ["close -"])


async def test_a_batch_of_nothing_is_over_at_once() -> None:
    assert await Batch([ScriptedEngine()], watch=HASTY).run(lambda s, t: anyio.lowlevel.checkpoint(), []) == []
