"""Results as they come, and leaving before they are all there."""

import gc
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from fakes import HASTY, ScriptedEngine, WatchedPlace

from headway import Batch, Sample, Slots, Trajectory
from headway.core.units import EnvironmentId
from headway.drivers.live import NoEngineError

pytestmark = pytest.mark.anyio


def samples(count: int) -> list[Sample]:
    return [Sample(f"s{n}", n) for n in range(count)]


async def test_each_result_comes_when_it_is_there() -> None:
    seen = [anyio.Event() for _ in range(4)]

    async def solve(sample: Sample, trajectory: Trajectory) -> int:
        if sample.data:
            await seen[sample.data - 1].wait()  # until the one before has come out
        return int(sample.data)

    order = []
    async with Batch().stream(solve, samples(4)) as stream:
        async for result in stream:
            order.append(result.value)
            seen[result.value].set()
    assert order == [0, 1, 2, 3]


async def test_leaving_early_stops_the_batch_and_keeps_what_is_finished(tmp_path: Path) -> None:
    place = WatchedPlace(EnvironmentId("bash"))

    async def solve(sample: Sample, trajectory: Trajectory) -> str:
        async with trajectory.action():
            if sample.data:
                await anyio.sleep_forever()
        return "first"

    path = tmp_path / "run.headway"
    async with Batch(environments={"bash": Slots(3, place)}, journal=path).stream(solve, samples(3)) as stream:
        first = await anext(stream)
    assert first.value == "first"
    assert place.log.count("enter s1") == place.log.count("leave s1")
    assert place.log[-1] == "close -"
    with pytest.raises(StopAsyncIteration):
        await anext(stream)

    async def quick(sample: Sample, trajectory: Trajectory) -> str:
        return "again"

    again = Batch(environments={"bash": 3}, journal=path, resume=True)
    results = await again.run(quick, samples(3))
    assert [(result.value, result.recalled) for result in results] == [
        ("first", True),
        ("again", False),
        ("again", False),
    ]


async def test_without_closing_it_goes_on_in_the_background() -> None:
    finished = anyio.Event()

    async def solve(sample: Sample, trajectory: Trajectory) -> None:
        if sample.data == 2:
            finished.set()

    stream = Batch().stream(solve, samples(3))
    async for _ in stream:
        break
    await finished.wait()
    await stream.aclose()


async def test_a_stream_that_was_never_begun_has_nothing_to_stop() -> None:
    async def solve(sample: Sample, trajectory: Trajectory) -> None:
        raise AssertionError

    async with Batch().stream(solve, samples(1)):
        pass


async def test_what_stops_the_batch_comes_out_of_the_loop_every_time() -> None:
    engine = ScriptedEngine()
    stopped = anyio.Event()

    async def solve(sample: Sample, trajectory: Trajectory) -> None:
        engine.die()
        await stopped.wait()

    stream = Batch([engine], watch=HASTY).stream(solve, samples(1))
    for _ in range(2):
        with pytest.raises(NoEngineError):
            await anext(stream)
    await stream.aclose()


async def test_who_left_hears_no_more_of_it() -> None:
    """The batch fails after its consumer is gone: nobody is told, and nothing is logged as forgotten."""
    engine = ScriptedEngine()

    async def solve(sample: Sample, trajectory: Trajectory) -> None:
        if sample.data:
            engine.die()
            await anyio.sleep_forever()

    stream = Batch([engine], watch=HASTY).stream(solve, samples(2))
    await anext(stream)
    assert stream._task is not None
    while not stream._task.done():
        await anyio.lowlevel.checkpoint()
    await stream.aclose()
    del stream
    gc.collect()  # a forgotten exception would be reported now, and reports are errors here


async def test_a_consumer_that_is_cancelled_stops_the_batch() -> None:
    stopped = anyio.Event()

    async def solve(sample: Sample, trajectory: Trajectory) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            stopped.set()

    with anyio.CancelScope() as scope:
        batch = Batch()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_cancel_when_started, batch, scope)
            async with batch.stream(solve, samples(1)) as stream:
                await anext(stream)
    assert stopped.is_set()


async def _cancel_when_started(batch: Batch, scope: anyio.CancelScope) -> None:
    await batch.started.wait()
    for _ in range(10):
        await anyio.lowlevel.checkpoint()
    scope.cancel()
