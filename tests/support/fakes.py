"""Ports that play by a script, in memory: engines, environments, journals."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import anyio

from headway.core.commands import Command, GrantAction, StartTurn
from headway.core.facts import EngineJoined, EngineSampled, Fact
from headway.core.units import MILLISECOND, EngineId, EnvironmentId, Nanos, Tokens, TrajectoryId
from headway.drivers.live import Watch
from headway.errors import EngineError, JournalError
from headway.ports import TurnAnswer, TurnRequest

HASTY = Watch(interval=Nanos(2 * MILLISECOND), patience=Nanos(30 * MILLISECOND), deaf=3)
"""Looks at engines all the time and gives up soon."""


def answer(text: str = "hi", prompt: int = 10, output: int = 2) -> TurnAnswer:
    message = {"role": "assistant", "content": text}
    return TurnAnswer({"choices": [{"message": message}]}, Tokens(prompt), Tokens(output), Nanos(1_000_000))


Play = Callable[[StartTurn, TurnRequest], Awaitable[TurnAnswer]]


async def at_once(start: StartTurn, request: TurnRequest) -> TurnAnswer:
    return answer()


@dataclass
class ScriptedEngine:
    """``wrong``: what is raised instead of any answer, when it is asked how it is, and when it is to join."""

    id: EngineId = EngineId("http://engine")
    play: Play = at_once
    geometry: dict[str, Any] = field(default_factory=dict)
    wrong: EngineError | None = None
    started: list[StartTurn] = field(default_factory=list)
    requests: list[TurnRequest] = field(default_factory=list)
    cancelled: list[StartTurn] = field(default_factory=list)
    closed: int = 0

    def die(self) -> None:
        self.wrong = EngineError(f"{self.id} is gone: refused", kind="lost")

    def _check(self) -> None:
        if self.wrong is not None:
            raise self.wrong

    async def join(self, at: Nanos) -> EngineJoined:
        self._check()
        return EngineJoined(at, self.id, **self.geometry)

    async def turn(self, start: StartTurn, request: TurnRequest) -> TurnAnswer:
        self.started.append(start)
        self.requests.append(request)
        self._check()
        try:
            return await self.play(start, request)
        except anyio.get_cancelled_exc_class():
            self.cancelled.append(start)
            raise

    async def sample(self, at: Nanos) -> EngineSampled | None:
        self._check()
        return EngineSampled(at, self.id, running=1)

    async def close(self) -> None:
        self.closed += 1


@dataclass
class WatchedPlace:
    """An environment that notes who came and went, and fails where it is told to."""

    id: EnvironmentId
    log: list[str] = field(default_factory=list)
    failing: dict[str, Exception] = field(default_factory=dict)
    hanging: set[str] = field(default_factory=set)

    async def _do(self, what: str, trajectory: str) -> None:
        self.log.append(f"{what} {trajectory}")
        if what in self.hanging:
            await anyio.sleep_forever()
        if what in self.failing:
            raise self.failing[what]

    async def enter(self, grant: GrantAction) -> object:
        await self._do("enter", grant.trajectory)
        return self

    async def leave(self, grant: GrantAction) -> None:
        await self._do("leave", grant.trajectory)

    async def release(self, trajectory: TrajectoryId) -> None:
        await self._do("release", trajectory)

    async def close(self) -> None:
        await self._do("close", "-")


@dataclass
class FailingJournal:
    """Takes ``room`` facts; then the disk is full."""

    room: int
    facts: list[Fact] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)

    def append(self, fact: Fact, commands: Sequence[Command]) -> None:
        if len(self.facts) >= self.room:
            raise JournalError("run.headway: can't be written (disk full)")
        self.facts.append(fact)

    def keep(self, trajectory: TrajectoryId, result: bytes) -> None:
        self.kept.append(trajectory)

    async def durable(self) -> None:
        if len(self.facts) >= self.room:
            raise JournalError("run.headway: can't be written (disk full)")

    async def close(self) -> None:
        await self.durable()

    def shut(self) -> None: ...
