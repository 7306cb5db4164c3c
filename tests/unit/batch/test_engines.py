"""Engines that go, come back, stay away, or don't answer."""

from typing import Any

import anyio
import anyio.lowlevel
import pytest
from fakes import HASTY, ScriptedEngine, answer

from headway import Batch, Sample, Trajectory
from headway.core.commands import StartTurn
from headway.core.facts import EngineJoined, EngineLost
from headway.core.units import MILLISECOND, SECOND, EngineId, Nanos
from headway.drivers.live import NoEngineError, Watch
from headway.errors import ConfigError, EngineError
from headway.ports import TurnAnswer, TurnRequest

pytestmark = pytest.mark.anyio
ASK = [{"role": "user", "content": "hello"}]
A, B = EngineId("http://a"), EngineId("http://b")


async def three_turns(sample: Sample, trajectory: Trajectory) -> list[str]:
    return [(await trajectory.chat(ASK)).text for _ in range(3)]


def noting(batch: Batch) -> list[Any]:
    facts: list[Any] = []
    apply = batch.progress.apply

    def note(fact: Any, commands: Any) -> None:
        facts.append(fact)
        apply(fact, commands)

    batch.progress.apply = note  # type: ignore[method-assign]
    return facts


async def test_the_turns_of_a_lost_engine_move_and_it_comes_back() -> None:
    """Engine a dies with four turns in flight; they run on b; a comes back and takes turns again."""
    a, b = ScriptedEngine(A), ScriptedEngine(B)
    moved = anyio.Event()

    async def dying(start: StartTurn, request: TurnRequest) -> TurnAnswer:
        if len(a.started) == 4:
            a.die()
        await anyio.sleep_forever()
        raise AssertionError

    async def saving(start: StartTurn, request: TurnRequest) -> TurnAnswer:
        if a.wrong is not None and start.attempt > 1:
            moved.set()
        return answer()

    async def revive() -> None:
        await moved.wait()
        a.wrong, a.play = None, saving

    async def solve(sample: Sample, trajectory: Trajectory) -> list[str]:
        first = await three_turns(sample, trajectory)
        await back.wait()
        return first + await three_turns(sample, trajectory)

    a.play, b.play = dying, saving
    back = anyio.Event()
    batch = Batch([a, b], policy="fifo", watch=HASTY)
    facts = noting(batch)
    apply = batch.progress.apply

    def watch(fact: Any, commands: Any) -> None:
        apply(fact, commands)
        if isinstance(fact, EngineJoined) and fact.engine == A and fact.at > facts[0].at:
            back.set()

    batch.progress.apply = watch  # type: ignore[method-assign]
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(revive)
        results = await batch.run(solve, [Sample(f"s{n}") for n in range(8)])
    assert [result.value for result in results] == [["hi"] * 6] * 8
    assert [type(fact).__name__ for fact in facts if isinstance(fact, EngineLost)] == ["EngineLost"]
    assert len(a.cancelled) == 4  # nobody waits for an answer that will never come


async def test_a_connection_that_breaks_on_a_healthy_engine_is_no_loss() -> None:
    engine, broken = ScriptedEngine(), []

    async def play(start: StartTurn, request: TurnRequest) -> TurnAnswer:
        if not broken:
            broken.append(start)
            raise EngineError("connection reset", kind="lost")
        return answer()

    engine.play = play
    batch = Batch([engine], watch=HASTY)
    facts = noting(batch)
    [result] = await batch.run(three_turns, [Sample("s")])
    assert result.value == ["hi"] * 3
    assert not [fact for fact in facts if isinstance(fact, EngineLost)]


@pytest.mark.parametrize("engines", [1, 2])
async def test_with_no_engine_left_the_batch_stops_after_its_patience(engines: int) -> None:
    all_of_them = [ScriptedEngine(EngineId(f"http://e{n}")) for n in range(engines)]

    async def play(start: StartTurn, request: TurnRequest) -> TurnAnswer:
        for engine in all_of_them:
            engine.die()
        raise EngineError("cut", kind="lost")

    for engine in all_of_them:
        engine.play = play
    with pytest.raises(NoEngineError) as caught:
        await Batch(all_of_them, watch=HASTY).run(three_turns, [Sample("s"), Sample("t")])
    assert str(caught.value).startswith("no engine has been alive for 0.03 s; the last to fail, http://e")
    assert str(caught.value).endswith("is gone: refused")


async def test_an_engine_that_is_deaf_for_long_is_lost() -> None:
    a, b = ScriptedEngine(A), ScriptedEngine(B)

    async def play(start: StartTurn, request: TurnRequest) -> TurnAnswer:
        a.wrong = EngineError("no answer within 10 s", kind="timeout")
        await anyio.sleep_forever()
        raise AssertionError

    a.play = play
    batch = Batch([a, b], policy="fifo", watch=HASTY)
    facts = noting(batch)
    results = await batch.run(three_turns, [Sample("s"), Sample("t")])
    assert all(result.ok for result in results)
    assert [fact.cause for fact in facts if isinstance(fact, EngineLost)] == ["no answer within 10 s"]


async def test_an_engine_that_is_deaf_now_and_then_is_not() -> None:
    looks = 0

    class Moody(ScriptedEngine):
        async def sample(self, at: Nanos) -> None:
            nonlocal looks
            looks += 1
            if looks > 20:
                done.set()
            if looks % 3:  # two of three; three in a row are too many
                raise EngineError("slow", kind="overloaded")

    async def solve(sample: Sample, trajectory: Trajectory) -> None:
        await done.wait()

    done = anyio.Event()
    batch = Batch([Moody()], watch=HASTY)
    facts = noting(batch)
    await batch.run(solve, [Sample("s")])
    assert not [fact for fact in facts if isinstance(fact, EngineLost)]


async def test_a_dead_engine_is_found_by_whoever_talks_to_it() -> None:
    """The next look would be in an hour; the failed turn makes it happen now."""
    a, b = ScriptedEngine(A), ScriptedEngine(B)
    a.play, b.play = _die(a), _die(b)
    slow = Watch(interval=Nanos(3600 * SECOND), patience=Nanos(3600 * SECOND))
    batch = Batch([a, b], policy="fifo", watch=slow)
    b.play = ScriptedEngine.play
    [result] = await batch.run(three_turns, [Sample("s")])
    assert result.ok
    assert len(a.started) == 1


def _die(engine: ScriptedEngine) -> Any:
    async def play(start: StartTurn, request: TurnRequest) -> TurnAnswer:
        engine.die()
        raise EngineError("cut", kind="lost")

    return play


async def test_an_engine_that_serves_something_else_now_stays_out() -> None:
    a, b = ScriptedEngine(A), ScriptedEngine(B)
    joins = anyio.Event()
    a.play = _die(a)

    async def join(at: Nanos) -> EngineJoined:
        joins.set()
        raise ConfigError("no model 'tiny' is served there")

    async def solve(sample: Sample, trajectory: Trajectory) -> list[str]:
        a.join = join  # type: ignore[method-assign]
        said = await three_turns(sample, trajectory)
        await joins.wait()
        return said + await three_turns(sample, trajectory)

    [result] = await Batch([a, b], policy="fifo", watch=HASTY).run(solve, [Sample("s")])
    assert result.ok


async def test_patience_begins_anew_with_every_run(tmp_path: Any) -> None:
    """A resumed batch starts late on its own clock; an engine that is being restarted gets its time all the same."""
    path, engine = tmp_path / "run.headway", ScriptedEngine()

    async def ends(sample: Sample, trajectory: Trajectory) -> None:
        await trajectory.chat(ASK)
        if sample.id == "b":
            raise ValueError("boom")

    await Batch([engine], journal=path).run(ends, [Sample("a"), Sample("b")])
    losing = True

    async def play(start: StartTurn, request: TurnRequest) -> TurnAnswer:
        nonlocal losing
        if losing:
            losing = False
            engine.die()
            raise EngineError("cut", kind="lost")
        return answer()

    engine.play = play
    joined = 0

    async def join(at: Nanos) -> EngineJoined:
        nonlocal joined
        joined += 1
        if joined == 2:  # the first look after the loss fails
            engine.wrong = None
            raise EngineError("starting", kind="lost")
        return EngineJoined(at, engine.id)

    engine.join = join  # type: ignore[method-assign]
    watch = Watch(interval=Nanos(MILLISECOND), patience=Nanos(60 * SECOND))
    batch = Batch([engine], journal=path, resume=True, watch=watch)
    results = await batch.run(three_turns, [Sample("a"), Sample("b")])
    assert [(result.ok, result.recalled) for result in results] == [(True, True), (True, False)]
    assert joined == 3
