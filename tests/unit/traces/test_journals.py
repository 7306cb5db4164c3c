"""What a run did can be played again: a simulated batch comes back out of its own journal."""

from dataclasses import replace

from headway.analysis.play import draw, play
from headway.core.commands import Admit
from headway.core.facts import (
    ActionFinished,
    ActionRequested,
    SampleSubmitted,
    TrajectoryFinished,
    TurnFinished,
)
from headway.core.units import MAIN, EnvironmentId, Nanos, StreamId, Tokens, TrajectoryId
from headway.policies.presets import preset
from headway.traces import Scripts
from headway.workloads import ACCEPTANCE

A, BASH, AT = TrajectoryId("a"), EnvironmentId("bash"), Nanos(0)


def test_a_simulated_batch_comes_back_out() -> None:
    batch = draw(replace(ACCEPTANCE["E1"], samples=16), 0)
    scripts = Scripts()
    play(batch, preset("fifo")[0], record=scripts.apply)
    assert scripts.finished() == batch.scripts
    assert scripts.others == 0


def turn(number: int, prompt: int, stream: StreamId = MAIN) -> TurnFinished:
    return TurnFinished(AT, A, stream, number, 1, Tokens(prompt), Tokens(5), Nanos(1))


def test_attempts_that_were_given_up_do_not_count() -> None:
    scripts = Scripts()
    scripts.apply(SampleSubmitted(AT, A), [Admit(A, 1)])
    scripts.apply(turn(0, 10))
    scripts.apply(TrajectoryFinished(AT, TrajectoryId("a")), [Admit(A, 2)])
    scripts.apply(turn(0, 30))
    (script,) = scripts.finished()
    assert [step.new_tokens for step in script.steps] == [30]


def test_actions_behind_one_turn_become_one_and_side_streams_are_left_out() -> None:
    scripts, side = Scripts(), StreamId("side")
    scripts.apply(SampleSubmitted(AT, A), [Admit(A, 1)])
    for index, (stream, early) in enumerate([(MAIN, True), (MAIN, False), (MAIN, False), (side, False)]):
        if index == 1:
            scripts.apply(turn(0, 10))
            scripts.apply(turn(0, 10, side))
        scripts.apply(ActionRequested(AT, A, stream, index, BASH if index < 2 else EnvironmentId("web")))
        scripts.apply(ActionFinished(AT, A, stream, index, 1, Nanos(7 if not early else 99)))
    assert scripts.finished() == ()
    scripts.apply(TrajectoryFinished(AT, A))
    (script,) = scripts.finished()
    (step,) = script.steps
    assert step.action is not None
    assert (step.action.environment, step.action.service) == ("bash", 14)
    assert scripts.others == 3
