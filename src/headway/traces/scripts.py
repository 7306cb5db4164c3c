"""A recorded trajectory as the script that the simulator plays: its main stream, without what it waited for.

Actions that follow the same turn become one, in the first one's environment: as long as all of them one after the
other, or, of those that were asked for in parallel, as the longest.
"""

from headway.core.units import MAIN, Nanos, Tokens, nanos
from headway.errors import FailureKind
from headway.traces.format import Recorded, RecordedAction
from headway.traces.script import Script, ScriptedAction, Step


def scripted(trajectory: Recorded) -> Script:
    """What the main stream did. Every action needs a duration: see ``read``."""
    steps, context = list[Step](), 0
    for turn in trajectory.turns:
        if turn.stream != MAIN:
            continue
        fresh = bool(context) and not turn.kept
        new = max(1, turn.prompt_tokens - (0 if fresh else context))
        output = max(1, turn.output_tokens)
        steps.append(Step(Tokens(new), Tokens(output), _together(turn.actions), fresh))
        context = new + output + (0 if fresh else context)
    return Script(trajectory.id, tuple(steps), trajectory.group)


def left_out(trajectory: Recorded) -> int:
    """Turns and actions that a script has no place for: those of side streams, and those before the first turn."""
    side = [turn for turn in trajectory.turns if turn.stream != MAIN]
    return len(side) + sum(len(turn.actions) for turn in side) + len(trajectory.setup)


def _together(actions: tuple[RecordedAction, ...]) -> ScriptedAction | None:
    if not actions:
        return None
    whole, last = 0, 0
    for action in actions:
        service = nanos(action.service_s or 0.0)
        if action.parallel:
            whole += max(0, service - last)
            last = max(last, service)
        else:
            whole += service
            last = service
    failures: tuple[FailureKind, ...] = actions[0].failures if len(actions) == 1 else ()
    return ScriptedAction(actions[0].environment, max(Nanos(1), Nanos(whole)), failures)
