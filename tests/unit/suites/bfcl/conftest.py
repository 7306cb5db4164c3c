"""Fakes for the suite: an engine that says what it is told to, and a trajectory that acts for real.

The benchmark itself comes through the suite's own installer, once per machine.
"""

import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from headway.adapters.environments import InProcess
from headway.core.commands import GrantAction
from headway.core.units import MAIN, EnvironmentId, Nanos, Tokens, TrajectoryId
from headway.ports import TurnAnswer
from headway.suites.bfcl import Task, environment, load_tasks

Reply = Callable[[int, Mapping[str, Any]], Mapping[str, Any]]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def tasks() -> dict[str, Task]:
    return {task.id: task for task in load_tasks()}


def says(text: str) -> Mapping[str, Any]:
    return {"role": "assistant", "content": text}


def calls(*made: tuple[str, Any]) -> Mapping[str, Any]:
    """An answer with tool calls; arguments that are text are sent as they are."""
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {
                "id": f"x{number}",
                "type": "function",
                "function": {"name": name, "arguments": value if isinstance(value, str) else json.dumps(value)},
            }
            for number, (name, value) in enumerate(made)
        ],
    }


class FakeTrajectory:
    """Answers every turn with ``reply(number, body)`` and executes actions in a real environment."""

    def __init__(self, reply: Reply = lambda _number, _body: says("generated")) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.slots_used = 0
        self.holding = False
        self._reply = reply
        self._environment: InProcess = environment()

    async def chat(self, messages: Sequence[Mapping[str, Any]], **body: Any) -> TurnAnswer:
        assert not self.holding, "a turn inside an action would hold the slot"
        self.bodies.append({"messages": list(messages), **body})
        message = self._reply(len(self.bodies) - 1, self.bodies[-1])
        return TurnAnswer({"choices": [{"message": message}]}, Tokens(1), Tokens(1), Nanos(1))

    @asynccontextmanager
    async def action(self, environment: str) -> AsyncIterator[Any]:
        grant = GrantAction(
            trajectory=TrajectoryId("t"),
            stream=MAIN,
            action=self.slots_used,
            attempt=1,
            environment=EnvironmentId(environment),
            create=self.slots_used == 0,
        )
        self.slots_used += 1
        self.holding = True
        try:
            yield await self._environment.enter(grant)
        finally:
            self.holding = False
            await self._environment.leave(grant)


@pytest.fixture(name="fake_trajectory")
def fake_trajectory_fixture() -> type[FakeTrajectory]:
    return FakeTrajectory


@pytest.fixture(name="says")
def says_fixture():
    return says


@pytest.fixture(name="calls")
def calls_fixture():
    return calls
