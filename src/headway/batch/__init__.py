"""The Python way in: samples, an agent as ``async def solve(sample, trajectory)``, results."""

from headway.batch.batch import Batch
from headway.batch.declared import Slots, Tuning
from headway.batch.running import BatchStopped, Timeouts
from headway.batch.sample import Result, Sample
from headway.batch.trajectory import Trajectory

__all__ = ["Batch", "BatchStopped", "Result", "Sample", "Slots", "Timeouts", "Trajectory", "Tuning"]
