"""Batches to simulate: the settings of the comparison, generators, and what engines and environments are like there.

Pure: dice come in as a seeded ``random.Random``, so a batch is the same for every policy that is tried on it.
"""

from headway.workloads.acceptance import ACCEPTANCE, MOST_OVER_BOUND
from headway.workloads.generate import Generated, generate
from headway.workloads.published import PUBLISHED
from headway.workloads.reading import find_setting, read_settings
from headway.workloads.setting import EngineShape, EnvironmentShape, Setting, Workload, moved

__all__ = [
    "ACCEPTANCE",
    "MOST_OVER_BOUND",
    "PUBLISHED",
    "EngineShape",
    "EnvironmentShape",
    "Generated",
    "Setting",
    "Workload",
    "find_setting",
    "generate",
    "moved",
    "read_settings",
]
