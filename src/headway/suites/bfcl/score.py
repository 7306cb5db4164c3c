"""Scores, by the benchmark's own checker."""

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import msgspec

from headway.errors import ConfigError
from headway.suites.bfcl.distribution import official
from headway.suites.bfcl.simulator import OWNER, borrowed_globals
from headway.suites.bfcl.tasks import Task

Calls = tuple[tuple[tuple[str, ...], ...], ...]
"""The calls of a trajectory: user turn, step (one turn of the engine), call."""

End = Literal["finished", "steps", "context"]


class BfclResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a trajectory of a task gave.

    ``calls`` reached the simulators, ``refused`` calls did not; ``outputs`` is what the model was told of both.
    ``turns`` of the engine, ``actions`` of the environment. ``ended``: ``steps`` when a user turn hit the limit on
    steps, ``context`` when the next prompt would not have fitted; such a trajectory scores 0. ``injected`` seconds of
    delay in its actions, under ``delay``. ``score``: 1 or 0; ``error``: the checker's word for what was wrong.
    """

    task: str
    category: str
    agent: str
    calls: Calls
    outputs: Calls
    turns: int
    actions: int
    ended: End
    score: float
    error: str = ""
    refused: int = 0
    injected: float = 0.0
    delay: str = ""


class Verdict(msgspec.Struct, frozen=True):
    """What the official checker says of a trajectory. ``error`` is its own error type, empty when valid."""

    valid: bool
    error: str = ""


class Scores(msgspec.Struct, frozen=True):
    """Shares of tasks that are right. ``total`` is over all tasks, ``categories`` over those of each."""

    total: float
    categories: dict[str, float]
    tasks: int


def judge(task: Task, calls: Calls) -> Verdict:
    """Check the calls of a whole trajectory: the state and the answers they lead to, user turn by user turn.

    A trajectory with fewer user turns than the task was cut off and is wrong, as upstream has it.
    """
    if len(calls) != len(task.turns):
        return Verdict(valid=False, error="multi_turn:force_terminated")
    checker = official("eval_checker.multi_turn_eval.multi_turn_checker")
    entry: dict[str, Any] = {
        "id": task.id,
        "initial_config": task.config,
        "involved_classes": list(task.classes),
    }
    steps = [[list(step) for step in turn if step] for turn in calls]
    truth = [list(turn.official) for turn in task.turns]
    with borrowed_globals({}):
        verdict = checker.multi_turn_checker(steps, truth, entry, f"multi_turn_{task.category}", OWNER)
    return Verdict(valid=bool(verdict["valid"]), error=str(verdict.get("error_type", "")))


def score(results: Iterable[BfclResult], *, tasks: Sequence[Task]) -> Scores:
    """Sum up a run. A task of ``tasks`` without a result is wrong: what failed must not raise the score.

    Raises: ``ConfigError`` for a result of another task, or a second one of the same.
    """
    points = {task.id: 0.0 for task in tasks}
    seen: set[str] = set()
    for result in results:
        if result.task not in points or result.task in seen:
            what = "is there twice" if result.task in seen else "is of no task of this batch"
            raise ConfigError(f"the result of {result.task!r} {what}", where="suite bfcl")
        seen.add(result.task)
        points[result.task] = result.score
    by_category: dict[str, list[float]] = {}
    for task in tasks:
        by_category.setdefault(task.category, []).append(points[task.id])
    return Scores(
        total=_mean(list(points.values())),
        categories={name: _mean(values) for name, values in by_category.items()},
        tasks=len(tasks),
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
