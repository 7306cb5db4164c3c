"""Engines that are attached to a running coordinator, and detached from it."""

import anyio
import pytest
from fakes import HASTY, ScriptedEngine, answer

from headway.adapters.clock import WallClock
from headway.batch.unrecorded import Unrecorded
from headway.core.commands import Admit
from headway.core.facts import EngineJoined, Fact, SampleSubmitted, TrajectoryFinished
from headway.core.machine import Machine
from headway.core.units import MAIN, EngineId, Nanos, TrajectoryId
from headway.drivers.live import Coordinator, Ports
from headway.policies.presets import preset
from headway.ports import TurnRequest


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.anyio
async def test_turns_move_to_an_engine_that_came_later_when_theirs_is_taken_away() -> None:
    async def never(start: object, request: object) -> object:
        await anyio.sleep_forever()

    first = ScriptedEngine(EngineId("first"), never)
    second = ScriptedEngine(EngineId("second"))
    clock = WallClock()
    joined = anyio.Event()

    async def agent(admit: Admit) -> TrajectoryFinished:
        got = await coordinator.turn(admit.trajectory, MAIN, 0, TurnRequest({}), prompt=1, max_output=None)
        assert got.text == answer().text
        over.set()
        return TrajectoryFinished(clock.now(), admit.trajectory)

    def observe(fact: Fact, commands: object) -> None:
        if isinstance(fact, EngineJoined) and fact.engine == "second":
            joined.set()

    over = anyio.Event()
    ports = Ports(clock, Unrecorded(), {first.id: first}, {})
    coordinator = Coordinator(Machine(preset("fifo")[0]), ports, agent, watch=HASTY, observe=observe)
    with anyio.fail_after(10):
        async with coordinator.running():
            coordinator.report(await first.join(Nanos(0)))
            coordinator.report(SampleSubmitted(clock.now(), TrajectoryId("a")))
            while not first.started:
                await anyio.lowlevel.checkpoint()
            coordinator.attach(second)
            await joined.wait()
            assert coordinator.detach(first.id) is first
            await over.wait()
    assert [start.engine for start in second.started] == ["second"]
    assert len(first.cancelled) == 1
    assert coordinator.detach(EngineId("nobody")) is None
