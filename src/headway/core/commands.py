"""Everything the machine can ask for, in the imperative.

Identity of a command: (trajectory, stream, turn or action, attempt).
"""

from typing import Literal

import msgspec

from headway.core.units import EngineId, EnvironmentId, Nanos, StreamId, TrajectoryId


class _Command(msgspec.Struct, frozen=True, gc=False, tag=True, omit_defaults=True):
    pass


class Admit(_Command, frozen=True, gc=False, tag=True, omit_defaults=True):
    """Start the agent of this sample. ``attempt`` grows over everything that is tried again."""

    trajectory: TrajectoryId
    attempt: int


class StartTurn(_Command, frozen=True, gc=False, tag=True, omit_defaults=True):
    """Send the pending turn of a stream to an engine.

    ``rank``: smaller is sooner; an adapter translates it to its engine's sense of priority.
    ``expected_cached``: prompt tokens that should already be in that engine's cache, 0 for a cold start.
    """

    trajectory: TrajectoryId
    stream: StreamId
    turn: int
    attempt: int
    engine: EngineId
    rank: int = 0
    expected_cached: int = 0


class CancelTurn(_Command, frozen=True, gc=False, tag=True, omit_defaults=True):
    """Stop waiting for a turn: its engine is lost, or its trajectory is over."""

    trajectory: TrajectoryId
    stream: StreamId
    turn: int
    attempt: int
    engine: EngineId


class GrantAction(_Command, frozen=True, gc=False, tag=True, omit_defaults=True):
    """The action may run now. ``create``: the trajectory has no instance there yet and may make one."""

    trajectory: TrajectoryId
    stream: StreamId
    action: int
    attempt: int
    environment: EnvironmentId
    create: bool = False


class Drop(_Command, frozen=True, gc=False, tag=True, omit_defaults=True):
    """Stop counting a stream as resident on an engine; its next turn there is expected to recompute."""

    trajectory: TrajectoryId
    stream: StreamId
    engine: EngineId


class Reject(_Command, frozen=True, gc=False, tag=True, omit_defaults=True):
    """What was asked can never be done, or has failed for good; the asker gets ``reason``."""

    trajectory: TrajectoryId
    item: Literal["sample", "turn", "action"]
    reason: str
    stream: StreamId | None = None
    index: int | None = None


class WakeAt(_Command, frozen=True, gc=False, tag=True, omit_defaults=True):
    """Report ``Woke`` at this time."""

    at: Nanos


Command = Admit | StartTurn | CancelTurn | GrantAction | Drop | Reject | WakeAt
