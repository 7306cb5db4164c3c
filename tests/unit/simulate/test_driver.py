"""The virtual driver: failures, lost engines, abandoned trajectories, and what can't end."""

from collections.abc import Sequence

import pytest

from headway.core.commands import CancelTurn, Command, StartTurn
from headway.core.facts import (
    ActionFailed,
    ActionFinished,
    EngineJoined,
    EngineLost,
    EngineSampled,
    Fact,
    Paused,
    Resumed,
    SampleSubmitted,
    SlotsChanged,
    TrajectoryAbandoned,
    TrajectoryFinished,
    TurnFinished,
)
from headway.core.machine import Machine
from headway.core.units import MAIN, SECOND, EngineId, EnvironmentId, Nanos, Tokens, TrajectoryId, nanos
from headway.drivers.simulate import ContinuousBatching, EngineModel, EnvironmentModel, FixedCost, Simulation
from headway.errors import BugError, FailureKind
from headway.latency import LatencyModel
from headway.policies.presets import preset
from headway.traces import Script, ScriptedAction, Step
from headway.workloads import EngineShape, EnvironmentShape

BASH, ENGINE = EnvironmentId("bash"), EngineId("e")
Rows = list[tuple[Fact, Sequence[Command]]]


def script(name: str = "a", *, failures: tuple[FailureKind, ...] = (), actions: int = 1) -> Script:
    action = ScriptedAction(BASH, Nanos(5 * SECOND), failures)
    return Script(TrajectoryId(name), (*[Step(Tokens(10), Tokens(2), action)] * actions, Step(Tokens(5), Tokens(1))))


def opening(*scripts: Script, slots: int = 1, engine: EngineJoined | None = None) -> list[Fact]:
    at = Nanos(0)
    samples = [SampleSubmitted(at, one.trajectory, index) for index, one in enumerate(scripts)]
    return [SlotsChanged(at, BASH, slots), engine or EngineJoined(at, ENGINE), Resumed(at), *samples]


def run(
    scripts: list[Script], facts: list[Fact], engine: EngineModel | None = None, **more: object
) -> tuple[Nanos, Rows]:
    rows: Rows = []
    models = {ENGINE: engine or FixedCost(lambda start, prompt, output: nanos(1))}
    simulation = Simulation(
        Machine(preset("fifo")[0]),
        scripts,
        models,
        lambda fact, commands: rows.append((fact, commands)),
        **more,  # type: ignore[arg-type]
    )
    return simulation.run(facts), rows


def of(rows: Rows, kind: type) -> list[Fact]:
    return [fact for fact, _ in rows if isinstance(fact, kind)]


def test_turns_and_actions_alternate_until_the_script_is_over() -> None:
    end, rows = run([script()], opening(script()))
    assert end == 7 * SECOND
    assert [type(fact).__name__ for fact, _ in rows[4:]] == [
        "TurnRequested",
        "TurnFinished",
        "ActionRequested",
        "ActionFinished",
        "TurnRequested",
        "TurnFinished",
        "TrajectoryFinished",
    ]


def test_an_action_whose_slot_dies_runs_again() -> None:
    one = script(failures=("lost",))
    end, rows = run([one], opening(one))
    assert end == 12 * SECOND
    assert [fact.kind for fact in of(rows, ActionFailed)] == ["lost"]  # type: ignore[attr-defined]
    assert len(of(rows, ActionFinished)) == 1


def test_an_action_that_ends_in_an_error_is_an_observation() -> None:
    one = script(failures=("error",))
    end, rows = run([one], opening(one))
    assert end == 7 * SECOND
    assert len(of(rows, ActionFinished)) == 0
    assert len(of(rows, TrajectoryFinished)) == 1


def test_an_action_that_is_lost_too_often_ends_its_trajectory() -> None:
    one = script(failures=("lost",) * 9)
    _, rows = run([one], opening(one))
    assert len(of(rows, TrajectoryAbandoned)) == 1


def test_a_lost_engine_loses_its_cache_and_its_turns() -> None:
    cost = LatencyModel(base=1.0, per_sequence=0, per_token=0, prefill=1.0)
    one = script(actions=2)
    engine = ContinuousBatching(ENGINE, EngineShape(cost), lambda name: (name, 10))
    lost = [EngineLost(Nanos(20 * SECOND), ENGINE, "gone"), engine.join(Nanos(30 * SECOND))]
    _, rows = run([one], [*opening(one, engine=engine.join(Nanos(0))), *lost], engine)
    ends = [(fact.at / SECOND, fact.cached_tokens) for fact in of(rows, TurnFinished)]  # type: ignore[attr-defined]
    # 12 s and an action; the second turn began at 17 s, dies at 20 s, and starts from nothing at 30 s.
    assert ends == [(12.0, 0), (30 + 22 + 2, 0), (59 + 5 + 1, 24)]


def test_engines_that_are_lost_while_nobody_runs_take_fixed_turns_with_them() -> None:
    one = script()
    lost = [EngineLost(Nanos(SECOND // 2), ENGINE, "gone"), EngineJoined(Nanos(2 * SECOND), ENGINE)]
    end, _ = run([one], [*opening(one), *lost])
    assert end == 9 * SECOND


def test_what_an_abandoned_trajectory_did_is_not_waited_for() -> None:
    first, second = script("a"), script("b")
    facts = [*opening(first, second), TrajectoryAbandoned(Nanos(3 * SECOND), TrajectoryId("a"), "enough", again=True)]
    places = {BASH: EnvironmentModel(EnvironmentShape(1))}
    end, rows = run([first, second], facts, environments=places)
    assert len(of(rows, TrajectoryFinished)) == 2
    assert len(of(rows, ActionFinished)) == 2
    assert end == (3 + 5 + 5 + 1) * SECOND


def test_environments_add_what_they_cost() -> None:
    one = script(actions=2)
    places = {BASH: EnvironmentModel(EnvironmentShape(1, create_seconds=20.0))}
    facts = opening(one)
    facts[0] = SlotsChanged(Nanos(0), BASH, 1, instances=1)
    end, rows = run([one], facts, environments=places)
    assert [fact.service / SECOND for fact in of(rows, ActionFinished)] == [25.0, 5.0]  # type: ignore[attr-defined]
    assert end == (3 + 10 + 20) * SECOND


def test_engines_report_on_themselves_while_something_happens() -> None:
    cost = LatencyModel(base=1.0, per_sequence=0, per_token=0, prefill=0.0)
    one = script()
    engine = ContinuousBatching(ENGINE, EngineShape(cost), lambda name: (name, 10))
    end, rows = run([one], opening(one), engine, sample_every=Nanos(3 * SECOND))
    assert [fact.at / SECOND for fact in of(rows, EngineSampled)] == [3.0, 6.0]
    assert end == 8 * SECOND
    _, none = run([one], opening(one), sample_every=Nanos(3 * SECOND))
    assert of(none, EngineSampled) == []


def test_agents_tell_the_length_of_answers_only_if_asked_to() -> None:
    one = script()
    for bounded, expected in ((True, [2, 1]), (False, [None, None])):
        _, rows = run([one], opening(one), bounded=bounded)
        asked = [fact.max_output for fact, _ in rows if type(fact).__name__ == "TurnRequested"]  # type: ignore[attr-defined]
        assert asked == expected


def test_a_batch_that_nothing_will_ever_move_is_a_bug() -> None:
    one = script()
    with pytest.raises(BugError, match="yet these wait: a"):
        run([one], [fact for fact in opening(one) if not isinstance(fact, Resumed)] + [Paused(Nanos(0))])


def test_a_turn_that_no_engine_takes_ends_its_trajectory() -> None:
    cost = LatencyModel(base=1.0, per_sequence=0, per_token=0, prefill=0.0)
    engine = ContinuousBatching(ENGINE, EngineShape(cost, kv_tokens=20), lambda name: (name, 10))
    one = script(actions=3)
    _, rows = run([one], opening(one, engine=engine.join(Nanos(0))), engine)
    assert len(of(rows, TrajectoryAbandoned)) == 1


def test_a_turn_of_fixed_cost_can_be_given_up() -> None:
    fixed = FixedCost(lambda start, prompt, output: nanos(1))
    who = TrajectoryId("a"), MAIN, 0, 1, ENGINE
    fixed.start(Nanos(0), StartTurn(*who), Tokens(1), Tokens(1))
    assert fixed.next_at() == SECOND
    fixed.cancel(Nanos(0), CancelTurn(*who))
    assert fixed.next_at() is None
