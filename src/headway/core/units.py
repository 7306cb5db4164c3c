"""Units and identities. No bare number or string crosses a module boundary."""

from typing import NewType

Nanos = NewType("Nanos", int)
"""Nanoseconds; a point in time counts from the start of the batch."""

Tokens = NewType("Tokens", int)
Bytes = NewType("Bytes", int)

TrajectoryId = NewType("TrajectoryId", str)
"""Identity of a sample and of the trajectory that runs it: one sample, one trajectory, many attempts."""

GroupId = NewType("GroupId", str)
StreamId = NewType("StreamId", str)
EngineId = NewType("EngineId", str)
EnvironmentId = NewType("EnvironmentId", str)

MAIN = StreamId("main")
"""The stream of a trajectory that has only one."""

MICROSECOND = Nanos(1_000)
MILLISECOND = Nanos(1_000_000)
SECOND = Nanos(1_000_000_000)


def seconds(value: Nanos) -> float:
    """Convert nanoseconds to seconds, for people to read."""
    return value / SECOND


def nanos(value: float) -> Nanos:
    """Convert seconds to the nearest nanosecond."""
    return Nanos(round(value * SECOND))
