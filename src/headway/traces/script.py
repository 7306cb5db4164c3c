"""The record of a trajectory: what it did, in lengths and durations.

A :class:`Script` is what the simulator plays and a replay follows: turns with the tokens that each adds and generates,
and between them actions with their service time. Queue time is never part of a script; it is what a run produces.
"""

import msgspec

from headway.core.units import EnvironmentId, GroupId, Nanos, Tokens, TrajectoryId
from headway.errors import FailureKind


class ScriptedAction(msgspec.Struct, frozen=True, gc=False):
    """One action: where it runs, and how long once it has a slot.

    ``failures``: how its first tries end, at the end of their service; later ones succeed.
    """

    environment: EnvironmentId
    service: Nanos
    failures: tuple[FailureKind, ...] = ()


class Step(msgspec.Struct, frozen=True, gc=False):
    """One turn and the action that follows it, if one does.

    ``new_tokens`` join the context before the turn (the first prompt, then each observation). ``fresh``: they replace
    it instead, as after a compaction, and nothing but the first prompt may be left in a cache.
    """

    new_tokens: Tokens
    output_tokens: Tokens
    action: ScriptedAction | None = None
    fresh: bool = False


class Script(msgspec.Struct, frozen=True):
    """Everything one sample will do on its main stream."""

    trajectory: TrajectoryId
    steps: tuple[Step, ...]
    group: GroupId | None = None

    @property
    def actions(self) -> int:
        """How many actions it takes."""
        return sum(step.action is not None for step in self.steps)

    def prompts(self) -> list[Tokens]:
        """Prompt tokens of each turn, history included."""
        context, prompts = 0, []
        for step in self.steps:
            context = step.new_tokens + (0 if step.fresh else context)
            prompts.append(Tokens(context))
            context += step.output_tokens
        return prompts
