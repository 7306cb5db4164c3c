"""A running batch does as it is told: pause, go on, cancel, slots, concurrency; from here and from another process."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from fakes import ScriptedEngine

from headway import Batch, Result, Sample, Trajectory
from headway.adapters.control import Order, send
from headway.core.progress import snapshot
from headway.errors import ConfigError

pytestmark = pytest.mark.anyio
ASK = [{"role": "user", "content": "hello"}]


class Held:
    """A batch whose agents act one after another, each until it is let go; ``doing`` counts who acts now."""

    def __init__(self, count: int, **more: object) -> None:
        self.batch = Batch([ScriptedEngine()], {"bash": 1}, **more)  # type: ignore[arg-type]
        self.samples = [Sample(f"s{n}") for n in range(count)]
        self.going = anyio.Semaphore(0)
        self.doing = self.most = self.live = 0
        self.results: list[Result] = []

    async def solve(self, sample: Sample, trajectory: Trajectory) -> None:
        self.live += 1
        try:
            async with trajectory.action():
                self.doing += 1
                self.most = max(self.most, self.doing)
                await self.going.acquire()
                self.doing -= 1
        finally:
            self.live -= 1

    async def until(self, held: Callable[[], bool]) -> None:
        with anyio.fail_after(10):
            while not held():
                await anyio.lowlevel.checkpoint()

    async def settle(self) -> None:
        for _ in range(50):
            await anyio.lowlevel.checkpoint()

    def let_go(self, count: int) -> None:
        for _ in range(count):
            self.going.release()

    async def steer(self, script: Callable[["Held"], Awaitable[None]]) -> list[Result]:
        async def run() -> None:
            self.results = await self.batch.run(self.solve, self.samples)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            await self.batch.started.wait()
            await script(self)
        return self.results


async def test_while_it_is_paused_nothing_new_starts() -> None:
    async def script(held: Held) -> None:
        await held.until(lambda: held.doing == 1)
        await held.batch.pause()
        held.let_go(3)
        await held.until(lambda: held.doing == 0)
        await held.settle()
        assert held.going.value == 2  # nobody took what is there
        await held.batch.resume()

    assert all(result.ok for result in await Held(3).steer(script))


async def test_slots_come_and_go() -> None:
    async def script(held: Held) -> None:
        await held.until(lambda: held.doing == 1)
        await held.batch.set_slots("bash", 3)
        await held.until(lambda: held.doing == 3)
        await held.batch.set_slots("bash", 0)
        held.let_go(3)
        await held.until(lambda: held.doing == 0)
        await held.settle()
        assert held.doing == 0
        await held.batch.set_slots("bash", 2)
        held.let_go(3)

    held = Held(6)
    assert all(result.ok for result in await held.steer(script))
    assert held.most == 3


async def test_concurrency_can_be_changed() -> None:
    async def script(held: Held) -> None:
        await held.until(lambda: held.live == 2)
        await held.settle()
        assert held.live == 2
        await held.batch.set_concurrency(4)
        await held.until(lambda: held.live == 4)
        await held.batch.set_concurrency(None)
        await held.until(lambda: held.live == 6)
        held.let_go(6)

    assert all(result.ok for result in await Held(6, concurrency=2).steer(script))


async def test_orders_that_can_not_be_carried_out_say_why() -> None:
    async def script(held: Held) -> None:
        await held.until(lambda: held.doing == 1)
        held.let_go(1)
        await held.until(lambda: snapshot(held.batch.progress).samples.done == 1)
        orders = [
            (held.batch.cancel("nobody"), "there is no sample 'nobody' to be run here"),
            (held.batch.cancel("s0"), "sample 's0' has ended already"),
            (held.batch.set_slots("web", 1), "there is no environment 'web' (there are: bash)"),
            (held.batch.set_slots("bash", -1), "bash: slots must not be negative, is -1"),
            (held.batch.set_concurrency(0), "concurrency: must be at least 1, is 0 (pause the batch instead)"),
        ]
        for order, line in orders:
            with pytest.raises(ConfigError) as caught:
                await order
            assert str(caught.value) == line
        held.let_go(1)

    await Held(2, policy="fifo").steer(script)


async def test_a_batch_that_does_not_run_takes_no_orders() -> None:
    held = Held(1)
    assert held.batch.now() == 0
    with pytest.raises(ConfigError, match="the batch is not running"):
        await held.batch.pause()

    async def script(held: Held) -> None:
        held.let_go(1)

    await held.steer(script)
    with pytest.raises(ConfigError, match="the batch is over"):
        await held.batch.pause()
    assert held.batch.now() > 0


async def test_another_process_can_steer_a_batch_with_a_journal(tmp_path: Path) -> None:
    path = tmp_path / "run.headway"

    async def script(held: Held) -> None:
        await held.until(lambda: held.doing == 1)
        await send(path, Order("pause"))
        await send(path, Order("slots", "bash=3"))
        await held.settle()
        assert held.doing == 1
        await send(path, Order("resume"))
        await held.until(lambda: held.doing == 2)
        await send(path, Order("concurrency", "none"))
        await held.until(lambda: held.doing == 3)
        await send(path, Order("concurrency", "5"))
        await send(path, Order("cancel", "s1"))
        refused = [
            (Order("cancel", "nobody"), "there is no sample 'nobody' to be run here"),
            (Order("slots", "bash"), "slots: needs a number, is 'bash'"),
            (Order("slots", "bash=-1"), "slots: needs a number, is '-1'"),
            (Order("concurrency", "few"), "concurrency: needs a number, is 'few'"),
        ]
        for order, line in refused:
            with pytest.raises(ConfigError) as caught:
                await send(path, order)
            assert str(caught.value) == line
        held.let_go(6)

    results = await Held(6, concurrency=2, journal=path).steer(script)
    assert [result.failure for result in results] == [None, "cancelled", None, None, None, None]
