"""Scripts out of the journal of an earlier run: what its trajectories did, without what they waited for.

A fold over facts; reading files is the journal's business. Of a trajectory with several streams the main one counts.
Actions that follow the same turn become one, in the first one's environment, as long as all of them together.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from headway.core.commands import Admit, Command
from headway.core.facts import (
    ActionFinished,
    ActionRequested,
    Fact,
    SampleSubmitted,
    TrajectoryFinished,
    TurnFinished,
)
from headway.core.units import MAIN, EnvironmentId, GroupId, Nanos, StreamId, TrajectoryId
from headway.traces.recorded import grow
from headway.traces.script import Script, ScriptedAction

_Turn = tuple[int, int, ScriptedAction | None]


@dataclass(slots=True)
class _Life:
    index: int
    group: GroupId | None
    turns: list[_Turn] = field(default_factory=list[_Turn])
    asked: dict[int, tuple[StreamId, EnvironmentId]] = field(default_factory=dict[int, tuple[StreamId, EnvironmentId]])
    done: bool = False


class Scripts:
    """What finished trajectories did. ``others``: turns and actions of other streams, which are left out."""

    def __init__(self) -> None:
        self.others = 0
        self._lives: dict[TrajectoryId, _Life] = {}

    def apply(self, fact: Fact, commands: Sequence[Command] = ()) -> None:
        """Take in one fact and the commands that it caused."""
        match fact:
            case SampleSubmitted():
                self._lives[fact.trajectory] = _Life(fact.index, fact.group)
            case TurnFinished():
                if fact.stream == MAIN:
                    self._lives[fact.trajectory].turns.append((fact.prompt_tokens, fact.output_tokens, None))
                else:
                    self.others += 1
            case ActionRequested():
                self._lives[fact.trajectory].asked[fact.action] = (fact.stream, fact.environment)
            case ActionFinished():
                self._acted(fact)
            case TrajectoryFinished():
                self._lives[fact.trajectory].done = True
            case _:
                pass
        for command in commands:
            if isinstance(command, Admit):
                life = self._lives[command.trajectory]
                life.turns, life.asked = [], {}

    def _acted(self, fact: ActionFinished) -> None:
        life = self._lives[fact.trajectory]
        stream, environment = life.asked.pop(fact.action)
        if stream != MAIN or not life.turns:
            self.others += 1
            return
        prompt, output, action = life.turns[-1]
        before = Nanos(0) if action is None else action.service
        place = environment if action is None else action.environment
        life.turns[-1] = (prompt, output, ScriptedAction(place, Nanos(before + fact.service)))

    def finished(self) -> tuple[Script, ...]:
        """The scripts of all that finished with at least one turn, in the order of the batch."""
        done = [(life.index, name, life) for name, life in self._lives.items() if life.done and life.turns]
        return tuple(
            Script(name, tuple(grow(iter(life.turns))), life.group)
            for _, name, life in sorted(done, key=lambda d: d[:2])
        )
