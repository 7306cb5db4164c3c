"""The coordinator alone: what crosses on its way to the machine, and who is told."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from fakes import ScriptedEngine, answer

from headway.adapters.clock import WallClock
from headway.batch.unrecorded import Unrecorded
from headway.core.commands import Admit, GrantAction, StartTurn
from headway.core.facts import (
    ActionFailed,
    EngineJoined,
    EngineLost,
    Fact,
    SampleSubmitted,
    SlotsChanged,
    TrajectoryAbandoned,
    TrajectoryFinished,
    TurnFailed,
)
from headway.core.machine import Machine
from headway.core.units import MAIN, EngineId, EnvironmentId, Nanos, Tokens, TrajectoryId
from headway.drivers.live import Coordinator, Ports
from headway.errors import BoundaryError, ConfigError, RefusedFact, Rejected, sole
from headway.policies.presets import preset
from headway.ports import TurnAnswer, TurnRequest

pytestmark = pytest.mark.anyio
T, BASH, E = TrajectoryId("t"), EnvironmentId("bash"), EngineId("http://engine")
ASK = TurnRequest({"prompt": "x"})


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Stage:
    """One trajectory, one engine, one slot; ``facts`` is what was recorded."""

    def __init__(self, engine: ScriptedEngine | None = None) -> None:
        self.engine = engine or ScriptedEngine()
        self.clock = WallClock()
        self.facts: list[Fact] = []
        self.ended = anyio.Event()
        ports = Ports(self.clock, Unrecorded(), {E: self.engine}, {})
        self.machine = Machine(preset("fifo")[0])
        self.coordinator = Coordinator(self.machine, ports, self.agent, observe=self.observe)
        self.script: Callable[[Stage], Awaitable[None]] | None = None

    def observe(self, fact: Fact, commands: Any) -> None:
        self.facts.append(fact)
        if isinstance(fact, TrajectoryFinished | TrajectoryAbandoned):
            self.ended.set()

    async def agent(self, admit: Admit) -> TrajectoryFinished | TrajectoryAbandoned:
        assert self.script is not None
        await self.script(self)
        return TrajectoryFinished(self.now(), T)

    def now(self) -> Nanos:
        return self.clock.now()

    async def turn(self, number: int) -> TurnAnswer:
        return await self.coordinator.turn(T, MAIN, number, ASK, prompt=Tokens(1), max_output=None)

    def named(self, name: str) -> list[Any]:
        return [fact for fact in self.facts if type(fact).__name__ == name]

    @asynccontextmanager
    async def playing(self, script: Callable[["Stage"], Awaitable[None]]) -> AsyncIterator["Stage"]:
        self.script = script
        async with self.coordinator.running():
            now = self.now()
            for fact in (SlotsChanged(now, BASH, 1), EngineJoined(now, E), SampleSubmitted(now, T)):
                self.coordinator.report(fact)
            yield self
            with anyio.fail_after(10):
                await self.ended.wait()


async def settle() -> None:
    for _ in range(60):
        await anyio.lowlevel.checkpoint()


async def test_what_can_not_be_asked_is_answered_all_the_same() -> None:
    said: list[str] = []

    async def script(stage: Stage) -> None:
        for ask in (stage.turn(5), stage.coordinator.slot(T, MAIN, 7, BASH)):
            try:
                await ask
            except Rejected as refused:
                said.append(str(refused).rpartition(": ")[2])

    async with Stage().playing(script) as stage:
        pass
    assert said == ["turns of a stream count up by one", "actions of a trajectory count up by one"]
    assert stage.coordinator.refused == 2


async def test_news_that_come_too_late_change_nothing() -> None:
    async def script(stage: Stage) -> None:
        await stage.turn(0)

    stage = Stage()
    async with stage.playing(script):
        await stage.ended.wait()
        before = len(stage.facts)
        stage.coordinator.report(TurnFailed(stage.now(), T, MAIN, 0, 1, "lost", "late"))
        stage.coordinator.report(TrajectoryFinished(stage.now(), T))
        await settle()
        assert (len(stage.facts), stage.coordinator.refused) == (before, 2)


async def test_a_trajectory_given_up_while_it_is_admitted_never_runs_on() -> None:
    ran: list[str] = []

    async def script(stage: Stage) -> None:
        ran.append("began")
        await anyio.lowlevel.checkpoint()
        ran.append("went on")

    stage = Stage()
    async with stage.playing(script):
        stage.coordinator.report(TrajectoryAbandoned(stage.now(), T, "cancelled"))  # right behind its submission
        await stage.ended.wait()
        await settle()
    assert ran == []
    assert [fact.cause for fact in stage.named("TrajectoryAbandoned")] == ["cancelled"]


async def test_an_engine_lost_before_its_turn_was_sent_is_never_asked() -> None:
    """Start and cancel come out of the same look into the inbox; the turn runs where the engine is back."""

    async def script(stage: Stage) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stage.turn, 0)
            while not stage.coordinator._turns:
                await anyio.lowlevel.checkpoint()
            stage.coordinator.report(EngineLost(stage.now(), E, "gone"))
            stage.coordinator.report(EngineJoined(stage.now(), E))

    async with Stage().playing(script) as stage:
        pass
    assert [type(fact).__name__ for fact in stage.facts[3:]] == [
        "TurnRequested",
        "EngineLost",
        "EngineJoined",
        "TurnFinished",
        "TrajectoryFinished",
    ]
    assert [start.attempt for start in stage.engine.started] == [2]


async def test_the_answer_that_counts_is_that_of_the_attempt_that_counts() -> None:
    """The first attempt's engine is declared lost, and answers in spite of being cancelled."""
    moved = anyio.Event()

    async def stubborn(start: StartTurn, request: TurnRequest) -> TurnAnswer:
        if start.attempt == 1:
            with anyio.CancelScope(shield=True):
                await moved.wait()
            return answer("old")
        moved.set()
        await settle()
        return answer("new")

    said: list[str] = []

    async def script(stage: Stage) -> None:
        said.append((await stage.turn(0)).text)

    stage = Stage(ScriptedEngine(play=stubborn))
    async with stage.playing(script):
        while not stage.engine.started:
            await anyio.lowlevel.checkpoint()
        stage.coordinator.report(EngineLost(stage.now(), E, "gone"))
        stage.coordinator.report(EngineJoined(stage.now(), E))
    assert said == ["new"]


async def test_a_slot_granted_to_nobody_goes_back() -> None:
    async def script(stage: Stage) -> None:
        grant = await stage.coordinator.slot(T, MAIN, 0, BASH)
        # the slot died: the action waits again, but nobody waits for it
        stage.coordinator._acts.clear()
        stage.coordinator.report(ActionFailed(stage.now(), T, MAIN, 0, grant.attempt, "lost", "the place died"))
        await settle()
        assert isinstance(await stage.coordinator.slot(T, MAIN, 1, BASH), GrantAction)

    async with Stage().playing(script) as stage:
        pass
    assert [fact.cause for fact in stage.named("ActionFailed")] == ["the place died", "nobody wants it any more"]


async def test_a_cancelled_agent_is_abandoned_once_it_has_let_go() -> None:
    let_go: list[bool] = []
    began = anyio.Event()

    async def script(stage: Stage) -> None:
        began.set()
        try:
            await anyio.sleep_forever()
        finally:
            let_go.append(stage.ended.is_set())

    stage = Stage()
    async with stage.playing(script):
        await began.wait()
        assert stage.coordinator.cancel(T)
    assert let_go == [False]
    assert not stage.coordinator.cancel(T)


def test_one_error_out_of_many() -> None:
    ours, theirs = ConfigError("wrong"), ValueError("boom")
    nested = BaseExceptionGroup("outer", [ExceptionGroup("inner", [theirs]), KeyboardInterrupt()])
    assert sole(ExceptionGroup("g", [ExceptionGroup("h", [theirs])])) is theirs
    assert sole(ExceptionGroup("g", [theirs, ExceptionGroup("h", [ours, BoundaryError("later")])])) is ours
    assert sole(nested) is nested
    assert issubclass(RefusedFact, Exception)
