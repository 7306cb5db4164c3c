"""Small worlds, made of facts."""

import pytest

from headway.core.commands import Admit, GrantAction, StartTurn
from headway.core.facts import (
    ActionFinished,
    ActionRequested,
    EngineJoined,
    Resumed,
    SampleSubmitted,
    SlotsChanged,
    TrajectoryAbandoned,
    TrajectoryFinished,
    TurnFinished,
    TurnRequested,
)
from headway.core.machine import Machine
from headway.core.units import MAIN, SECOND


class Batch:
    """A machine told of whole cycles: a turn, then an action. Times in seconds."""

    def __init__(self, policies, slots=100, **engine):
        self.machine = Machine(policies)
        self.now = 0
        self.admitted, self.granted, self.started = [], [], []
        self.asked = {}
        self.tell(SlotsChanged(0, "bash", slots))
        self.engine("e", **engine)

    @property
    def world(self):
        return self.machine.world

    def tell(self, fact):
        commands = self.machine.handle(fact)
        for command in commands:
            match command:
                case Admit():
                    self.admitted.append(command.trajectory)
                case GrantAction():
                    self.granted.append(command.trajectory)
                    self.asked[command.trajectory] = command
                case StartTurn():
                    self.started.append((command.trajectory, command.engine))
                    self.asked[command.trajectory, "turn"] = command
        return commands

    def engine(self, name, **limits):
        return self.tell(EngineJoined(self.now, name, **limits))

    def sample(self, name, group=None, hint=None, prompt=10):
        return self.tell(SampleSubmitted(self.now, name, len(self.world.trajectories), group, prompt, hint))

    def turn(self, name, prompt=10):
        known = self.world.trajectories[name].streams.get(MAIN)
        turn = 0 if known is None else known.turn + 1
        return self.tell(TurnRequested(self.now, name, MAIN, turn, prompt))

    def answer(self, name, output=10, cached=None, took=1):
        start = self.asked.pop((name, "turn"))
        prompt = self.world.trajectories[name].streams[MAIN].prompt
        self.now += took * SECOND
        return self.tell(
            TurnFinished(self.now, name, MAIN, start.turn, start.attempt, prompt, output, took * SECOND, cached)
        )

    def ask(self, name):
        return self.tell(ActionRequested(self.now, name, MAIN, self.world.trajectories[name].next_action, "bash"))

    def acted(self, name, took=1):
        grant = self.asked.pop(name)
        self.now += took * SECOND
        return self.tell(ActionFinished(self.now, name, MAIN, grant.action, grant.attempt, took * SECOND))

    def act(self, name, times=1, took=1):
        for _ in range(times):
            self.ask(name)
            self.acted(name, took)

    def finish(self, name):
        return self.tell(TrajectoryFinished(self.now, name))

    def abandon(self, name, *, again):
        return self.tell(TrajectoryAbandoned(self.now, name, "it failed", again))

    def go(self):
        return self.tell(Resumed(self.now))


@pytest.fixture
def batch():
    """Begins a batch: ``batch(policies, slots=2, kv_tokens=1000)``."""
    return Batch
