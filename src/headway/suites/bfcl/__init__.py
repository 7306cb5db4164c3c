"""The multi-turn categories of the Berkeley Function-Calling Leaderboard, out of the ``bfcl-eval`` distribution.

Its data, its API simulators and its checker are used as they are; nothing of it is copied here. ``install`` fetches
it on first use. See ``docs/bfcl.md``.
"""

from headway.suites.bfcl.agents import ENVIRONMENT, ModelAgent, ScriptedAgent, environment, samples
from headway.suites.bfcl.distribution import VERSION, install, installed
from headway.suites.bfcl.fit import Fit, fit
from headway.suites.bfcl.latency import InjectedLatency
from headway.suites.bfcl.score import BfclResult, Scores, judge, score
from headway.suites.bfcl.tasks import CATEGORIES, Task, UserTurn, load_tasks

__all__ = [
    "CATEGORIES",
    "ENVIRONMENT",
    "VERSION",
    "BfclResult",
    "Fit",
    "InjectedLatency",
    "ModelAgent",
    "Scores",
    "ScriptedAgent",
    "Task",
    "UserTurn",
    "environment",
    "fit",
    "install",
    "installed",
    "judge",
    "load_tasks",
    "samples",
    "score",
]
