"""The one scheduling code path: a fact goes in, commands come out.

``Machine.handle`` validates, then changes the world, then decides. It never blocks, reads no clock and never fails
half way: a fact that it refuses (``RefusedFact``) changed nothing. Drivers differ in what they do with the commands
and in where the facts come from, in nothing else.

Handlers here change the world and say which queues may have been helped; :class:`~headway.core.dispatch.Dispatch`
owns the queues and decides what starts.
"""

from typing import assert_never

from headway.core.checks import refusal
from headway.core.commands import CancelTurn, Command, Reject
from headway.core.dispatch import Dispatch
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
from headway.core.policy import Policies
from headway.core.world import Doing, Stream, Trajectory, World
from headway.errors import RefusedFact


class Machine:
    """Applies facts in order and decides what happens next."""

    def __init__(self, policies: Policies, world: World | None = None) -> None:
        """Start from nothing, or from a world that :mod:`headway.core.restore` read out of a journal."""
        self.world = world if world is not None else World()
        self.world.coupled = policies.coupled
        self.policies = policies
        self._begin()

    def _begin(self) -> None:
        begun = self.policies.begun(self.world)
        self._observers = begun.observers
        self._dispatch = Dispatch(self.world, begun)

    def handle(self, fact: Fact) -> list[Command]:  # noqa: C901, PLR0912 - one arm per fact
        """Apply one fact and return what the driver must do now. Raises: ``RefusedFact``."""
        why = refusal(self.world, fact)
        if why is not None:
            raise RefusedFact(f"{fact!r} was refused: {why}")
        self.world.now = fact.at
        for observer in self._observers:
            observer.observe(fact, self.world)
        match fact:
            case TurnFinished():
                self._turn_finished(fact)
            case ActionRequested():
                self._action_requested(fact)
            case ActionFinished():
                self._action_finished(fact)
            case TurnRequested():
                stream = self.world.request_turn(self.world.trajectories[fact.trajectory], fact)
                self._dispatch.turns.place(stream)
            case SampleSubmitted():
                self._dispatch.submitted(self.world.submit(fact))
            case TrajectoryFinished():
                self._ended(self.world.trajectories[fact.trajectory], finished=True)
            case TurnFailed():
                self._turn_failed(fact)
            case ActionFailed():
                self._action_failed(fact)
            case TrajectoryAbandoned():
                self._abandoned(fact)
            case TurnWithdrawn():
                self._turn_withdrawn(fact)
            case ActionWithdrawn():
                self._action_withdrawn(fact)
            case _:
                self._surroundings(fact)
        return self._dispatch.commands()

    def _surroundings(
        self,
        fact: CoordinatorStarted
        | EngineJoined
        | EngineSampled
        | EngineLost
        | SlotsChanged
        | LimitChanged
        | Paused
        | Resumed
        | Woke,
    ) -> None:
        world, dispatch = self.world, self._dispatch
        match fact:
            case EngineSampled():
                world.engines[fact.engine].sample = fact
                dispatch.reconsider()
            case Woke():
                dispatch.woken()
            case SlotsChanged():
                dispatch.environment_changed(world.resize(fact))
            case EngineJoined():
                dispatch.engine_joined(world.join(fact))
            case EngineLost():
                self._engine_lost(fact)
            case LimitChanged():
                world.limit = fact.live
                dispatch.admit()
            case Paused():
                world.paused = True
            case Resumed():
                world.paused = False
                dispatch.retry_everything()
            case CoordinatorStarted():
                world.take_over(retry_failed=fact.retry_failed)
                self._begin()
            case _:
                assert_never(fact)

    # -- turns ----------------------------------------------------------------------------------------------

    def _turn_finished(self, fact: TurnFinished) -> None:
        stream = self.world.trajectories[fact.trajectory].streams[fact.stream]
        engine = stream.engine
        self.world.finish_turn(stream, fact)
        assert engine is not None  # noqa: S101 - a running turn has a home
        self._dispatch.turns.went_idle(engine)
        self._dispatch.learnt()

    def _turn_failed(self, fact: TurnFailed) -> None:
        trajectory = self.world.trajectories[fact.trajectory]
        stream = trajectory.streams[fact.stream]
        engine = stream.engine
        self._stop_turn(stream)
        if self.policies.retries.again(fact.kind, stream.tries):
            trajectory.attempt += 1
            self._dispatch.turns.back_off(stream, fact.retry_after)
        else:
            stream.doing = Doing.NOTHING
            reason = f"{fact.kind} after {stream.tries} tries: {fact.cause}"
            self._dispatch.emit(Reject(fact.trajectory, "turn", reason, fact.stream, fact.turn))
        assert engine is not None  # noqa: S101 - a running turn has a home
        self._dispatch.turns.retry(engine)

    def _turn_withdrawn(self, fact: TurnWithdrawn) -> None:
        stream = self.world.trajectories[fact.trajectory].streams[fact.stream]
        engine = stream.engine
        self._dispatch.forget(stream)
        if stream.doing is Doing.RUNNING and engine is not None:
            self._dispatch.emit(CancelTurn(fact.trajectory, fact.stream, fact.turn, stream.attempt, engine.id))
            self._stop_turn(stream)
            stream.doing = Doing.NOTHING
            self._dispatch.turns.retry(engine)
        stream.doing = Doing.NOTHING

    def _stop_turn(self, stream: Stream) -> None:
        self.world.stop_turn(stream)
        self._dispatch.turns.resort(stream.trajectory)

    # -- actions --------------------------------------------------------------------------------------------

    def _action_requested(self, fact: ActionRequested) -> None:
        trajectory = self.world.trajectories[fact.trajectory]
        scope = [environment.id for environment in self.world.scope(trajectory)]
        if fact.environment not in scope:
            trajectory.next_action += 1
            reason = f"it may not act in {fact.environment!r} (it may in: {', '.join(sorted(scope)) or 'none'})"
            self._dispatch.emit(Reject(fact.trajectory, "action", reason, fact.stream, fact.action))
        else:
            self._dispatch.slots.wait(self.world.request_action(trajectory, fact))

    def _action_finished(self, fact: ActionFinished) -> None:
        trajectory = self.world.trajectories[fact.trajectory]
        action = trajectory.actions[fact.action]
        self.world.close_action(action)
        self.world.complete(trajectory, fact.service)
        self._dispatch.progressed(trajectory)
        self._dispatch.slots.retry(action.environment)

    def _action_failed(self, fact: ActionFailed) -> None:
        trajectory = self.world.trajectories[fact.trajectory]
        action = trajectory.actions[fact.action]
        if fact.kind == "lost" and self.policies.retries.again("lost", action.tries):
            self.world.suspend_action(action)
            trajectory.attempt += 1
            self._dispatch.slots.wait(action)
        else:
            self.world.close_action(action)
            if fact.kind == "lost":
                reason = f"lost after {action.tries} tries: {fact.cause}"
                self._dispatch.emit(Reject(fact.trajectory, "action", reason, fact.stream, fact.action))
        self._dispatch.slots.retry(action.environment)

    def _action_withdrawn(self, fact: ActionWithdrawn) -> None:
        action = self.world.trajectories[fact.trajectory].actions[fact.action]
        self._dispatch.forget(action)
        self.world.close_action(action)

    # -- trajectories and engines ---------------------------------------------------------------------------

    def _abandoned(self, fact: TrajectoryAbandoned) -> None:
        trajectory = self.world.trajectories[fact.trajectory]
        if fact.again:
            trajectory.attempt += 1
        self._ended(trajectory, finished=False, again=fact.again)

    def _ended(self, trajectory: Trajectory, *, finished: bool, again: bool = False) -> None:
        dispatch = self._dispatch
        dispatch.forget(trajectory)
        engines = {}
        for stream in trajectory.streams.values():
            if stream.engine is not None:
                engines[stream.engine.id] = stream.engine
                if stream.doing is Doing.RUNNING:
                    dispatch.emit(CancelTurn(trajectory.id, stream.id, stream.turn, stream.attempt, stream.engine.id))
            dispatch.forget(stream)
        for action in trajectory.actions.values():
            dispatch.forget(action)
        if again:
            self.world.restart(trajectory)
            dispatch.submitted(trajectory)
        else:
            self.world.end(trajectory, finished=finished)
        dispatch.progressed(trajectory)
        for engine in engines.values():
            dispatch.turns.retry(engine)
        dispatch.slots.retry_all()
        dispatch.admit()

    def _engine_lost(self, fact: EngineLost) -> None:
        engine = self.world.engines[fact.engine]
        homeless = []
        for stream in self.world.lose(engine):
            if stream.doing is Doing.RUNNING:
                stream.trajectory.attempt += 1
                stream.tries -= 1
                self._dispatch.emit(CancelTurn(stream.trajectory.id, stream.id, stream.turn, stream.attempt, engine.id))
                self.world.stop_turn(stream)
            if stream.doing is Doing.WAITING:
                self._dispatch.forget(stream)
                homeless.append(stream)
            self.world.leave(stream)
            self._dispatch.turns.resort(stream.trajectory)
        self._dispatch.turns.engine_lost(engine)
        for stream in homeless:
            self._dispatch.turns.place(stream)
