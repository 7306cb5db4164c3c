"""The door of the fold: which fact and which command means what.

Every fact costs the same however many trajectories there are; only a takeover looks at all of them.
"""

from collections.abc import Callable, Sequence
from typing import assert_never

from headway.core.commands import Admit, CancelTurn, Command, Drop, GrantAction, Reject, StartTurn, WakeAt
from headway.core.facts import (
    ActionFailed,
    ActionFinished,
    ActionRequested,
    ActionWithdrawn,
    CoordinatorStarted,
    EngineJoined,
    EngineLost,
    EngineSampled,
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
from headway.core.progress.records import EngineLoss
from headway.core.progress.services import Services, TurnSample
from headway.core.units import Nanos


class Progress(Services):
    """Everything that is known about a batch, from its facts and commands alone.

    Args:
        on_turn: called with every finished turn; the fold itself keeps none.
    """

    def __init__(self, on_turn: Callable[[TurnSample], None] | None = None) -> None:
        super().__init__(on_turn)
        self.paused = False
        self.limit: int | None = None
        self.losses: list[EngineLoss] = []
        self.coordinators = 0
        self.downtime = 0
        self.version = ""
        self._last = 0
        self._wall = 0

    # -- facts ------------------------------------------------------------------------------------------------

    def apply(self, fact: Fact, commands: Sequence[Command] = ()) -> None:
        """Fold one fact and the commands that it caused."""
        self._last, self.now = self.now, fact.at - self._skipped
        match fact:
            case TurnFinished():
                self._turn_finished(fact)
            case TurnRequested():
                self._turn_requested(fact)
            case ActionRequested():
                self._action_requested(fact)
            case ActionFinished():
                self._action_finished(fact)
            case TurnFailed():
                self._turn_failed(fact, commands)
            case ActionFailed():
                self._action_failed(fact, commands)
            case TurnWithdrawn() | ActionWithdrawn():
                self._withdrawn(fact)
            case _:
                self._life(fact)
        for command in commands:
            self._command(command)

    def _life(
        self,
        fact: CoordinatorStarted
        | SampleSubmitted
        | TrajectoryFinished
        | TrajectoryAbandoned
        | EngineJoined
        | EngineSampled
        | EngineLost
        | SlotsChanged
        | LimitChanged
        | Paused
        | Resumed
        | Woke,
    ) -> None:
        match fact:
            case SampleSubmitted():
                self._submitted(fact)
            case TrajectoryFinished():
                self._finished(fact)
            case TrajectoryAbandoned():
                self._abandoned(fact)
            case EngineJoined():
                self._engine_joined(fact)
            case EngineSampled():
                engine = self.engine(fact.engine)
                engine.kv_usage = fact.kv_usage
                engine.engine_waiting = fact.waiting
                engine.preemptions = fact.preemptions
            case EngineLost():
                engine = self.engine(fact.engine)
                self.losses.append(EngineLoss(Nanos(self.now), fact.engine, fact.cause, engine.running))
                self._engine_gone(engine)
            case SlotsChanged():
                self._slots_changed(fact)
            case CoordinatorStarted():
                self._taken_over(fact)
            case LimitChanged() | Paused() | Resumed() | Woke():
                self._steered(fact)
            case _:
                assert_never(fact)

    def _steered(self, fact: LimitChanged | Paused | Resumed | Woke) -> None:
        match fact:
            case LimitChanged():
                self.limit = fact.live
            case Paused():
                self.paused = True
            case Resumed():
                self.paused = False
            case Woke():
                pass
            case _:
                assert_never(fact)

    # -- commands ---------------------------------------------------------------------------------------------

    def _command(self, command: Command) -> None:
        match command:
            case StartTurn():
                self._turn_started(command)
            case GrantAction():
                self._action_granted(command)
            case Admit():
                self._admitted(self.chains[command.trajectory])
            case CancelTurn():
                self._turn_cancelled(command)
            case Reject():
                self._rejected(command)
            case Drop() | WakeAt():
                pass
            case _:
                assert_never(command)

    def _taken_over(self, fact: CoordinatorStarted) -> None:
        self.coordinators += 1
        self.version = fact.version
        if self.coordinators > 1:
            self._skipped += self.now - self._last
            self.now = self._last
            self.downtime += max(0, fact.wall - (self._wall + self.now))
        self._wall = fact.wall - self.now
        self._take_back(failed=fact.retry_failed)
        for engine in self.engines.values():
            self._engine_gone(engine)
        self.paused = True
