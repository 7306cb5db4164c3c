"""A journal read back into a world, as far as anything survives a coordinator.

Recorded facts and the commands beside them are folded; no policy is asked again. What was in flight is not rebuilt:
the next fact is a ``CoordinatorStarted``, which sends every unfinished trajectory back to the queue.
"""

from collections.abc import Iterable, Sequence

from headway.core.commands import Admit, Command, GrantAction, Reject, StartTurn
from headway.core.facts import (
    ActionFinished,
    CoordinatorStarted,
    Fact,
    SampleSubmitted,
    TrajectoryAbandoned,
    TrajectoryFinished,
    TurnFinished,
)
from headway.core.units import Nanos
from headway.core.world import World


def restore(records: Iterable[tuple[Fact, Sequence[Command]]]) -> World:
    """Fold what was recorded: samples, how they ended, attempts, and what was learnt of lengths."""
    world = World()
    for fact, commands in records:
        world.now = Nanos(max(world.now, fact.at))
        _fact(world, fact)
        for command in commands:
            _command(world, command)
    return world


def _fact(world: World, fact: Fact) -> None:
    match fact:
        case SampleSubmitted():
            world.submit(fact)
        case ActionFinished():
            world.complete(world.trajectories[fact.trajectory], fact.service)
        case TurnFinished():
            world.outputs += fact.output_tokens
            world.answered += 1
            world.attain(world.trajectories[fact.trajectory], fact.service)
        case TrajectoryFinished():
            world.end(world.trajectories[fact.trajectory], finished=True)
        case TrajectoryAbandoned():
            trajectory = world.trajectories[fact.trajectory]
            if fact.again:
                world.restart(trajectory)
            else:
                world.end(trajectory, finished=False)
        case CoordinatorStarted():
            world.take_over(retry_failed=fact.retry_failed)
        case _:
            pass


def _command(world: World, command: Command) -> None:
    match command:
        case Admit():
            trajectory = world.trajectories[command.trajectory]
            world.admit(trajectory)
            trajectory.attempt = command.attempt
        case StartTurn() | GrantAction():
            trajectory = world.trajectories[command.trajectory]
            trajectory.attempt = max(trajectory.attempt, command.attempt)
        case Reject(item="sample"):
            world.end(world.trajectories[command.trajectory], finished=False)
        case _:
            pass
