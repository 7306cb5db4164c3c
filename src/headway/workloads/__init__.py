"""Batches to simulate: the settings of the comparison, generators, and what engines and environments are like there.

Pure: dice come in as a seeded ``random.Random``, so a batch is the same for every policy that is tried on it.
"""

from headway.workloads.acceptance import ACCEPTANCE
from headway.workloads.generate import Generated, generate
from headway.workloads.setting import EngineShape, EnvironmentShape, Setting, Workload, moved

__all__ = [
    "ACCEPTANCE",
    "EngineShape",
    "EnvironmentShape",
    "Generated",
    "Setting",
    "Workload",
    "generate",
    "moved",
]
