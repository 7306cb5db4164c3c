"""The one read model: a fold over the journal that every view, report and bound is computed from.

:class:`Progress` is fed each fact with the commands it caused, live or read back; it knows no policy and asks nobody.
:func:`snapshot` turns it into plain numbers with stable names, for people, JSON and metrics alike.
"""

from headway.core.progress.fold import Progress
from headway.core.progress.outlook import eta
from headway.core.progress.records import Chain, Engine, Environment, Phase, State, Use, Work
from headway.core.progress.services import TurnSample
from headway.core.progress.snapshot import (
    ChainSnapshot,
    EngineSnapshot,
    EnvironmentSnapshot,
    LossSnapshot,
    LostWork,
    PhaseCounts,
    PhaseSeconds,
    Retries,
    SampleCounts,
    Snapshot,
    describe,
    snapshot,
)

__all__ = [
    "Chain",
    "ChainSnapshot",
    "Engine",
    "EngineSnapshot",
    "Environment",
    "EnvironmentSnapshot",
    "LossSnapshot",
    "LostWork",
    "Phase",
    "PhaseCounts",
    "PhaseSeconds",
    "Progress",
    "Retries",
    "SampleCounts",
    "Snapshot",
    "State",
    "TurnSample",
    "Use",
    "Work",
    "describe",
    "eta",
    "snapshot",
]
