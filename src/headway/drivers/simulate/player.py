"""An agent that follows a script: what it asks for next, once what it asked for is there."""

from dataclasses import dataclass

from headway.core.facts import ActionRequested, TrajectoryFinished, TurnRequested
from headway.core.units import MAIN, EngineId, Nanos, Tokens
from headway.traces import Script, ScriptedAction, Step


@dataclass(slots=True, eq=False)
class Player:
    """Where one trajectory stands in its script. ``engine``: where it was last.

    ``tries``: failures of the action under way so far; ``attempt``: the identity of its last grant.
    """

    script: Script
    bounded: bool
    step: int = 0
    action: int = 0
    context: int = 0
    tries: int = 0
    attempt: int = 0
    engine: EngineId | None = None

    @property
    def current(self) -> Step:
        """The step under way."""
        return self.script.steps[self.step]

    @property
    def prompt(self) -> Tokens:
        """Prompt tokens of the turn under way."""
        step = self.current
        return Tokens(step.new_tokens + (0 if step.fresh else self.context))

    @property
    def acting(self) -> ScriptedAction | None:
        """The action under way."""
        return self.current.action

    def want_turn(self, at: Nanos) -> TurnRequested:
        """Ask for the turn of this step."""
        most = self.current.output_tokens if self.bounded else None
        return TurnRequested(at, self.script.trajectory, MAIN, self.step, self.prompt, most)

    def turn_finished(self, at: Nanos) -> ActionRequested | TurnRequested | TrajectoryFinished:
        """The answer is there."""
        action = self.current.action
        if action is None:
            return self._advance(at)
        self.tries = 0
        return ActionRequested(at, self.script.trajectory, MAIN, self.action, action.environment)

    def action_finished(self, at: Nanos) -> TurnRequested | TrajectoryFinished:
        """The environment answered, if only with an error."""
        self.action += 1
        return self._advance(at)

    def _advance(self, at: Nanos) -> TurnRequested | TrajectoryFinished:
        self.context = self.prompt + self.current.output_tokens
        self.step += 1
        if self.step == len(self.script.steps):
            return TrajectoryFinished(at, self.script.trajectory)
        return self.want_turn(at)
