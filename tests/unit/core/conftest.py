"""A language for tests that speak in journals: one method per fact, and the commands that come back as short lines."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from headway.core.commands import Admit, CancelTurn, Command, Drop, GrantAction, Reject, StartTurn, WakeAt
from headway.core.facts import (
    ActionFailed,
    ActionFinished,
    ActionRequested,
    ActionWithdrawn,
    CoordinatorStarted,
    EngineJoined,
    EngineLost,
    Fact,
    LimitChanged,
    Paused,
    Resumed,
    SampleSubmitted,
    SlotsChanged,
    TrajectoryAbandoned,
    TrajectoryFinished,
    TurnFailed,
    TurnFinished,
    TurnRequested,
    TurnWithdrawn,
    Woke,
)
from headway.core.machine import Machine
from headway.core.restore import restore
from headway.core.units import MAIN
from headway.policies.admission import Unlimited
from headway.policies.presets import preset


def line(command: Command) -> str:
    match command:
        case Admit():
            return f"admit {command.trajectory}"
        case StartTurn():
            return f"start {_turn(command)} on {command.engine}"
        case CancelTurn():
            return f"cancel {_turn(command)} on {command.engine}"
        case GrantAction():
            creating = ", creating" if command.create else ""
            return f"grant {command.trajectory}#{command.action} in {command.environment}{creating}"
        case Drop():
            return f"drop {command.trajectory} from {command.engine}"
        case Reject():
            return f"reject {command.item} of {command.trajectory}: {command.reason}"
        case WakeAt():
            return f"wake at {command.at}"


def _turn(command: StartTurn | CancelTurn) -> str:
    stream = "" if command.stream == MAIN else f"/{command.stream}"
    return f"{command.trajectory}{stream}:{command.turn}"


class Journal:
    """A batch told fact by fact. Every method returns the commands, one line each.

    Admission is unlimited unless the settings say otherwise, so that a test of one thing meets no other.
    """

    def __init__(self, policy: str = "fifo", **settings: Any) -> None:
        self.policies = replace(preset(policy)[0], **{"admission": Unlimited()} | settings)
        self.machine = Machine(self.policies)
        self.rows: list[tuple[Fact, list[Command]]] = []
        self.starts: dict[tuple[str, str], StartTurn] = {}
        self.grants: dict[tuple[str, int], GrantAction] = {}
        self.now = 0
        self.tell(CoordinatorStarted(0, 0, "test"))
        self.tell(Resumed(0))

    @property
    def world(self) -> Any:
        return self.machine.world

    def tell(self, fact: Fact) -> list[str]:
        commands = self.machine.handle(fact)
        self.rows.append((fact, commands))
        for command in commands:
            if isinstance(command, StartTurn):
                self.starts[command.trajectory, command.stream] = command
            elif isinstance(command, GrantAction):
                self.grants[command.trajectory, command.action] = command
        return [line(command) for command in commands]

    def pass_(self, time: int) -> "Journal":
        self.now += time
        return self

    def something_in_flight(self) -> "Journal":
        """A bystander acts all the while, so that the rule for a batch with nothing in flight keeps out of it."""
        self.environment("elsewhere", 1)
        self.sample("bystander")
        self.act("bystander", "elsewhere")
        return self

    def restored(self) -> Machine:
        return Machine(self.policies, restore(self.rows))

    # -- around the batch ---------------------------------------------------------------------------------------

    def coordinator(self, *, retry_failed: bool = False) -> list[str]:
        return self.tell(CoordinatorStarted(self.now, 0, "test", retry_failed))

    def pause(self) -> list[str]:
        return self.tell(Paused(self.now))

    def resume(self) -> list[str]:
        return self.tell(Resumed(self.now))

    def limit(self, live: int | None) -> list[str]:
        return self.tell(LimitChanged(self.now, live))

    def woke(self) -> list[str]:
        return self.tell(Woke(self.now))

    def engine(self, name: str, *, kv: Any = None, states: Any = None, running: Any = None, context: Any = None) -> Any:
        return self.tell(
            EngineJoined(self.now, name, kv_tokens=kv, state_slots=states, max_running=running, max_context=context)
        )

    def lose(self, engine: str) -> list[str]:
        return self.tell(EngineLost(self.now, engine, "gone"))

    def environment(self, name: str, slots: int, instances: int | None = None, interval: int = 0) -> list[str]:
        return self.tell(SlotsChanged(self.now, name, slots, instances, interval))

    # -- samples --------------------------------------------------------------------------------------------------

    def sample(self, name: str, prompt: int = 10, **more: Any) -> list[str]:
        return self.tell(SampleSubmitted(self.now, name, len(self.rows), prompt_tokens=prompt, **more))

    def finish(self, name: str) -> list[str]:
        return self.tell(TrajectoryFinished(self.now, name))

    def abandon(self, name: str, *, again: bool = False) -> list[str]:
        return self.tell(TrajectoryAbandoned(self.now, name, "it failed", again))

    # -- turns ----------------------------------------------------------------------------------------------------

    def turn(self, name: str, prompt: int = 10, *, stream: str = MAIN, most: int | None = 10) -> list[str]:
        known = self.world.trajectories[name].streams.get(stream)
        turn = 0 if known is None else known.turn + 1
        return self.tell(TurnRequested(self.now, name, stream, turn, prompt, most))

    def answer(self, name: str, output: int = 10, *, stream: str = MAIN, prompt: int | None = None) -> list[str]:
        start = self.starts.pop((name, stream))
        prompt = self.world.trajectories[name].streams[stream].prompt if prompt is None else prompt
        return self.tell(TurnFinished(self.now, name, stream, start.turn, start.attempt, prompt, output, 5))

    def fail(self, name: str, kind: Any = "lost", *, retry_after: int | None = None, stream: str = MAIN) -> list[str]:
        start = self.starts.pop((name, stream))
        return self.tell(TurnFailed(self.now, name, stream, start.turn, start.attempt, kind, "no answer", retry_after))

    def withdraw_turn(self, name: str, *, stream: str = MAIN) -> list[str]:
        turn = self.world.trajectories[name].streams[stream].turn
        return self.tell(TurnWithdrawn(self.now, name, stream, turn))

    # -- actions --------------------------------------------------------------------------------------------------

    def act(self, name: str, environment: str = "bash") -> list[str]:
        action = self.world.trajectories[name].next_action
        return self.tell(ActionRequested(self.now, name, MAIN, action, environment))

    def acted(self, name: str, action: int = 0) -> list[str]:
        grant = self.grants.pop((name, action))
        return self.tell(ActionFinished(self.now, name, MAIN, action, grant.attempt, 7))

    def fail_action(self, name: str, kind: Any = "lost", action: int = 0) -> list[str]:
        grant = self.grants.pop((name, action))
        return self.tell(ActionFailed(self.now, name, MAIN, action, grant.attempt, kind, "it broke"))

    def withdraw_action(self, name: str, action: int = 0) -> list[str]:
        return self.tell(ActionWithdrawn(self.now, name, MAIN, action))


@pytest.fixture
def journal() -> Callable[..., Journal]:
    """Begins a journal: ``journal("caas", overtakes=3)``; the batch is not paused and knows no engine yet."""
    return Journal
