"""Which facts can't be true in the world as it is. Pure reading: nothing changes here."""

from typing import assert_never

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
from headway.core.world import Doing, Phase, World


def refusal(world: World, fact: Fact) -> str | None:  # noqa: C901, PLR0911, PLR0912 - one arm per fact
    """Why ``fact`` is refused, None if it is fine."""
    if fact.at < world.now:
        return f"it is from {world.now - fact.at} ns before the last fact"
    match fact:
        case TurnFinished() | TurnFailed():
            return _turn_running(world, fact)
        case ActionFinished() | ActionFailed():
            return _action_running(world, fact)
        case TurnRequested():
            return _turn_wanted(world, fact)
        case ActionRequested():
            return _action_wanted(world, fact)
        case TurnWithdrawn() | ActionWithdrawn():
            return _withdrawn(world, fact)
        case SampleSubmitted():
            places = (world.trajectories, world.done, world.failed)
            return "this sample was submitted before" if any(fact.trajectory in p for p in places) else None
        case TrajectoryFinished() | TrajectoryAbandoned():
            return _ended(world, fact)
        case EngineJoined():
            return "this engine has joined already" if fact.engine in world.engines else None
        case EngineSampled() | EngineLost():
            return None if fact.engine in world.engines else "no such engine"
        case SlotsChanged():
            return "negative" if min(fact.slots, fact.instances or 0, fact.create_interval) < 0 else None
        case LimitChanged():
            return "a limit below one" if fact.live is not None and fact.live < 1 else None
        case CoordinatorStarted() | Paused() | Resumed() | Woke():
            return None
        case _:
            assert_never(fact)


def _turn_running(world: World, fact: TurnFinished | TurnFailed) -> str | None:
    trajectory = world.trajectories.get(fact.trajectory)
    stream = trajectory.streams.get(fact.stream) if trajectory is not None else None
    if stream is None:
        return "no such stream is live"
    if stream.doing is not Doing.RUNNING or stream.turn != fact.turn or stream.attempt != fact.attempt:
        return "this attempt at the turn is not running"
    return None


def _action_running(world: World, fact: ActionFinished | ActionFailed) -> str | None:
    trajectory = world.trajectories.get(fact.trajectory)
    action = trajectory.actions.get(fact.action) if trajectory is not None else None
    if action is None:
        return "no such action is open"
    if action.doing is not Doing.RUNNING or action.attempt != fact.attempt:
        return "this attempt at the action is not running"
    return None


def _turn_wanted(world: World, fact: TurnRequested) -> str | None:
    trajectory = world.trajectories.get(fact.trajectory)
    if trajectory is None or trajectory.phase is not Phase.LIVE:
        return "the trajectory is not live"
    stream = trajectory.streams.get(fact.stream)
    if stream is not None and stream.doing is not Doing.NOTHING:
        return "a turn of this stream is under way"
    if fact.turn != (0 if stream is None else stream.turn + 1):
        return "turns of a stream count up by one"
    return None


def _action_wanted(world: World, fact: ActionRequested) -> str | None:
    trajectory = world.trajectories.get(fact.trajectory)
    if trajectory is None or trajectory.phase is not Phase.LIVE:
        return "the trajectory is not live"
    if fact.action != trajectory.next_action:
        return "actions of a trajectory count up by one"
    return None


def _withdrawn(world: World, fact: TurnWithdrawn | ActionWithdrawn) -> str | None:
    trajectory = world.trajectories.get(fact.trajectory)
    if trajectory is None:
        return "the trajectory is not live"
    if isinstance(fact, TurnWithdrawn):
        stream = trajectory.streams.get(fact.stream)
        under_way = stream is not None and stream.turn == fact.turn and stream.doing is not Doing.NOTHING
        return None if under_way else "no such turn is under way"
    action = trajectory.actions.get(fact.action)
    return None if action is not None and action.doing is not Doing.RUNNING else "no such action waits"


def _ended(world: World, fact: TrajectoryFinished | TrajectoryAbandoned) -> str | None:
    trajectory = world.trajectories.get(fact.trajectory)
    if trajectory is None:
        return "no such trajectory"
    if isinstance(fact, TrajectoryFinished) and trajectory.phase is not Phase.LIVE:
        return "the trajectory is not live"
    return None
