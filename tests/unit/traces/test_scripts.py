"""A recorded trajectory as a script: the main stream, actions of one turn as one."""

from headway.core.units import SECOND, EnvironmentId, GroupId, StreamId, TrajectoryId
from headway.traces.format import Recorded, RecordedAction, RecordedTurn
from headway.traces.scripts import left_out, scripted

BASH, WEB = EnvironmentId("bash"), EnvironmentId("web")


def turn(new: int, prompt: int, output: int, *actions: RecordedAction, stream: str = "main") -> RecordedTurn:
    more = {"new_tokens": new, "prompt_tokens": prompt, "output_tokens": output}
    return RecordedTurn(**more, actions=actions, stream=StreamId(stream))


def action(seconds: float, *, parallel: bool = False, place: EnvironmentId = BASH, **more: object) -> RecordedAction:
    return RecordedAction(environment=place, service_s=seconds, parallel=parallel, **more)


def test_the_main_stream_counts_and_the_rest_is_counted() -> None:
    one = Recorded(
        id=TrajectoryId("a"),
        group=GroupId("g"),
        turns=(
            turn(10, 10, 5, action(2.0, failures=("lost",))),
            turn(7, 7, 1, action(1.0), stream="side"),
            turn(30, 40, 0),  # keeps the first 10 tokens: the answer before was dropped
            turn(20, 20, 4, action(0.0)),
        ),
        setup=(action(9.0),),
    )
    script = scripted(one)
    assert (script.trajectory, script.group) == ("a", "g")
    assert [(s.new_tokens, s.output_tokens, s.fresh) for s in script.steps] == [
        (10, 5, False),
        (25, 1, False),
        (20, 4, True),
    ]
    assert script.prompts() == [10, 40, 20]
    assert [s.action and s.action.service for s in script.steps] == [2 * SECOND, None, 1]
    assert script.steps[0].action is not None
    assert script.steps[0].action.failures == ("lost",)
    assert left_out(one) == 3


def test_actions_of_one_turn_become_one() -> None:
    acts = (action(2.0, failures=("lost",)), action(3.0, parallel=True, place=WEB), action(1.0))
    (step,) = scripted(Recorded(id=TrajectoryId("a"), turns=(turn(1, 1, 1, *acts),))).steps
    assert step.action is not None
    assert (step.action.environment, step.action.service / SECOND, step.action.failures) == ("bash", 4.0, ())
