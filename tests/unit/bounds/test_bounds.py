"""Bounds hold, and are no looser than they claim."""

import random
from itertools import combinations

import pytest

from headway.core.bounds import (
    Demand,
    Engines,
    Term,
    engine_bound,
    environment_bound,
    measured,
    modelled,
    of_run,
    terms,
)
from headway.core.commands import Admit, GrantAction, StartTurn
from headway.core.facts import (
    ActionFinished,
    ActionRequested,
    EngineJoined,
    SampleSubmitted,
    SlotsChanged,
    TrajectoryFinished,
    TurnFinished,
    TurnRequested,
)
from headway.core.progress import Progress, Use
from headway.core.units import MAIN, SECOND, EngineId, EnvironmentId, GroupId, Nanos, Tokens, TrajectoryId
from headway.latency import LatencyModel
from headway.traces import ScriptedAction, Step

COST = LatencyModel(base=1.0, per_sequence=0.25, per_token=0.5, prefill=2.0)
BASH, WEB = EnvironmentId("bash"), EnvironmentId("web")


def use(service: int, head: int, tail: int) -> Use:
    return Use(1, Nanos(service), Nanos(head), Nanos(tail))


def test_the_plain_form_when_all_are_alike() -> None:
    assert environment_bound([use(10, 3, 2)] * 8, slots=4) == 8 * 10 // 4 + 3 + 2


def test_the_subset_form_is_tighter_when_a_short_head_does_not_matter() -> None:
    uses = [use(100, 50, 40)] * 4 + [use(1, 0, 0)]
    assert environment_bound(uses, slots=2) == 200 + 50 + 40
    assert environment_bound([use(100, 0, 40)] * 4 + [use(100, 0, 0)], slots=1) == 500


@pytest.mark.parametrize("seed", range(30))
def test_it_lies_between_the_plain_form_and_the_best_of_all_subsets(seed: int) -> None:
    dice = random.Random(seed)
    uses = [use(dice.randint(0, 50), dice.randint(0, 60), dice.randint(0, 60)) for _ in range(7)]
    slots = dice.randint(1, 4)

    def form(some: tuple[Use, ...] | list[Use]) -> int:
        return sum(u.service for u in some) // slots + min(u.head for u in some) + min(u.tail for u in some)

    best = max(form(some) for size in range(1, 8) for some in combinations(uses, size))
    assert form(uses) <= environment_bound(uses, slots) <= best
    assert environment_bound(uses, slots) == best  # few enough for every threshold to be tried


def demand(name: str, serial: int = 0, group: str | None = None, **more: int) -> Demand:
    fields = {"computed": 100, "first_prompt": 60, "output": 10, "weighted": 2000, **more}
    return Demand(TrajectoryId(name), GroupId(group) if group else None, Nanos(serial), **fields)


def test_engines_share_the_base_of_a_step_among_what_runs_and_fits() -> None:
    demands = [demand("a"), demand("b")]
    tokens = 2.0 * 200 + 0.25 * 20 + 0.5 * 2000
    assert engine_bound(demands, Engines(1), COST) == tokens + 20 / 2
    assert engine_bound(demands, Engines(2, max_running=1), COST) == (tokens + 20) / 2
    assert engine_bound(demands, Engines(1, kv_tokens=40), COST) == tokens + 2000 / 40


def test_a_prompt_that_a_group_shares_is_computed_once() -> None:
    alone = engine_bound([demand("a"), demand("b")], Engines(1), COST)
    shared = engine_bound([demand("a", group="g"), demand("b", group="g", first_prompt=80)], Engines(1), COST)
    assert alone - shared == 2.0 * 60
    hit = engine_bound([demand("a", group="g", computed=40), demand("b", group="g", computed=40)], Engines(1), COST)
    assert hit == 2.0 * 40 + 0.25 * 20 + 0.5 * 2000 + 10


def test_the_largest_term_binds() -> None:
    demands = [demand("a", 5 * SECOND), demand("b", 7 * SECOND)]
    found = terms(demands, {BASH: 2, WEB: 0}, Engines(1), COST)
    assert [(term.kind, term.of, term.estimate) for term in found] == [("LLM", "", True), ("CP", "b", False)]
    assert found[1] == Term("CP", "b", Nanos(7 * SECOND))
    assert [term.kind for term in terms(demands, {}, Engines(0), COST)] == ["CP"]
    assert [term.kind for term in terms(demands, {}, None, COST)] == ["CP"]
    assert terms([], {BASH: 1}, Engines(1), COST) == []


def steps() -> tuple[Step, ...]:
    acting = ScriptedAction(BASH, Nanos(3 * SECOND))
    return (Step(Tokens(10), Tokens(2), acting), Step(Tokens(4), Tokens(1), acting), Step(Tokens(1), Tokens(1)))


def test_a_plan_is_charged_for_each_turn_alone_on_its_engine() -> None:
    first, second, third = modelled(
        [(TrajectoryId(n), GroupId(g) if g else None, steps()) for n, g in (("a", "g"), ("b", "g"), ("c", ""))], COST
    )
    turns = [20 + 2 * (1.25 + 0.5 * 11), 8 + 1.25 + 0.5 * 16.5, 2 + 1.25 + 0.5 * 18.5]
    assert first.serial / SECOND == sum(turns) + 6
    assert second.serial / SECOND == sum(turns) + 6 - 20
    assert third.serial == first.serial
    assert (first.computed, first.first_prompt, first.output) == (15, 10, 4)
    assert first.weighted == 2 * 22 + 1 * 33 + 1 * 37
    used = first.uses[BASH]
    assert (used.actions, used.service) == (2, 6 * SECOND)
    assert (used.head / SECOND, used.tail / SECOND) == (turns[0], turns[2])
    (empty,) = modelled([(TrajectoryId("d"), None, ())], COST)
    assert (empty.serial, empty.first_prompt, empty.uses) == (0, 0, {})


def recorded(kv: int | None = 500) -> Progress:
    """Two chains of turn 2 s, action 3 s, turn 1 s over one slot; a third is still under way."""
    progress = Progress()
    progress.apply(SlotsChanged(Nanos(0), BASH, 1))
    progress.apply(EngineJoined(Nanos(0), EngineId("one"), kv_tokens=Tokens(900)))
    progress.apply(EngineJoined(Nanos(0), EngineId("two"), kv_tokens=None if kv is None else Tokens(kv)))
    for name, late in (("a", 0), ("b", 3), ("c", 6)):
        who = TrajectoryId(name)

        def at(seconds: int) -> Nanos:
            return Nanos(seconds * SECOND)

        progress.apply(SampleSubmitted(at(late), who), [Admit(who, 1)])
        progress.apply(TurnRequested(at(late), who, MAIN, 0, Tokens(10)), [StartTurn(who, MAIN, 0, 1, EngineId("one"))])
        if name == "c":
            continue
        progress.apply(TurnFinished(at(late + 2), who, MAIN, 0, 1, Tokens(10), Tokens(2), at(2), Tokens(0)))
        progress.apply(ActionRequested(at(late + 2), who, MAIN, 0, BASH), [GrantAction(who, MAIN, 0, 1, BASH)])
        progress.apply(ActionFinished(at(late + 5), who, MAIN, 0, 1, at(3)))
        progress.apply(
            TurnRequested(at(late + 5), who, MAIN, 1, Tokens(14)), [StartTurn(who, MAIN, 1, 1, EngineId("one"))]
        )
        progress.apply(TurnFinished(at(late + 6), who, MAIN, 1, 1, Tokens(14), Tokens(1), at(1), Tokens(13)))
        progress.apply(TrajectoryFinished(at(late + 6), who))
    return progress


def test_a_recorded_run_by_its_measured_service_times() -> None:
    progress = recorded()
    assert of_run(progress) == [
        Term("ENV", "bash", Nanos(9 * SECOND)),
        Term("CP", "a", Nanos(6 * SECOND)),
    ]
    one = measured(progress.chains[TrajectoryId("a")])
    assert (one.computed, one.first_prompt, one.output) == (11, 10, 3)


def test_an_estimate_needs_a_cost_and_uses_what_engines_say_they_hold() -> None:
    cost = LatencyModel(base=1.0, per_sequence=0, per_token=0, prefill=0)
    (bound,) = [term for term in of_run(recorded(), cost) if term.kind == "LLM"]
    assert (bound.value, bound.estimate) == (round(SECOND * 6 / 2 / 2), True)
    (unknown,) = [term for term in of_run(recorded(kv=None), cost) if term.kind == "LLM"]
    assert unknown == bound
