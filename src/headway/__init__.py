"""Headway finishes batches of LLM-agent tasks sooner: inference and environments scheduled together.

>>> import anyio, headway
>>> async def solve(sample, trajectory):
...     async with trajectory.action("calculator"):
...         return sample.data * 2
>>> async def main():
...     batch = headway.Batch(environments={"calculator": 2})
...     results = await batch.run(solve, [headway.Sample(id=f"s{n}", data=n) for n in range(3)])
...     return [result.value for result in results]
>>> anyio.run(main)
[0, 2, 4]
"""

from typing import TYPE_CHECKING

from headway.errors import BoundaryError, BugError, ConfigError, HeadwayError, Rejected
from headway.version import __version__

if TYPE_CHECKING:
    from headway.batch import Batch, BatchStopped, Result, Sample, Slots, Timeouts, Trajectory

__all__ = [
    "Batch",
    "BatchStopped",
    "BoundaryError",
    "BugError",
    "ConfigError",
    "HeadwayError",
    "Rejected",
    "Result",
    "Sample",
    "Slots",
    "Timeouts",
    "Trajectory",
    "__version__",
]


def __getattr__(name: str) -> object:
    """Load the batch and all that it needs when it is first asked for, not for every ``import headway``."""
    if name not in __all__:
        raise AttributeError(f"module 'headway' has no attribute {name!r}")
    from headway import batch

    value: object = getattr(batch, name)
    return value
