"""What the forecast learns from facts, and that it forgets what is taken back."""

import pytest

from headway.core.facts import CoordinatorStarted, Resumed
from headway.core.world import World
from headway.policies.forecast import LESSONS, Forecast, pace, stage, subject
from headway.policies.presets import preset
from headway.policies.remaining import LongestRemainingFirst


@pytest.fixture
def told(batch):
    """A batch and the forecast that its machine keeps."""

    def begin(**engine):
        made = batch(preset("default")[0], **engine)
        return made, next(o for o in made.machine._observers if isinstance(o, Forecast))

    return begin


def actions(forecast, trajectory):
    return forecast.actions(subject(trajectory), trajectory.completed)


def test_a_group_that_ended_soon_has_little_left(told):
    batch, forecast = told()
    for name in ("a1", "a2", "b1", "b2"):
        batch.sample(name, group=name[0])
    batch.act("a1", 2)
    batch.finish("a1")
    batch.act("b1", 30)
    a, b = batch.world.trajectories["a2"], batch.world.trajectories["b2"]
    assert actions(forecast, a) < 5 < 15 < actions(forecast, b)


def test_an_action_that_is_asked_for_counts_at_once_and_once(told):
    batch, forecast = told()
    batch.sample("a", group="g")
    batch.sample("b", group="g")
    before = actions(forecast, batch.world.trajectories["b"])
    for _ in range(6):
        batch.act("a")
    batch.ask("a")
    asked = actions(forecast, batch.world.trajectories["b"])
    batch.ask("a")  # a second stream of it, no further in its chain
    assert actions(forecast, batch.world.trajectories["b"]) == asked > before


def test_what_is_tried_again_is_forgotten_and_what_failed_is_not(told):
    batch, forecast = told()
    for name in "abc":
        batch.sample(name, group="g")
    blank = actions(forecast, batch.world.trajectories["c"])
    batch.act("a", 12)
    batch.ask("a")
    batch.abandon("a", again=True)
    assert actions(forecast, batch.world.trajectories["c"]) == pytest.approx(blank)
    batch.act("b", 12)
    batch.ask("b")
    batch.abandon("b", again=False)
    assert actions(forecast, batch.world.trajectories["c"]) > blank


def test_singles_share_what_the_batch_shows_and_differ_by_progress(told):
    batch, forecast = told()
    for number in range(3 * LESSONS):
        batch.sample(f"s{number}")
        batch.act(f"s{number}", 3)
        batch.finish(f"s{number}")
    batch.sample("new")
    new = batch.world.trajectories["new"]
    assert subject(new) is None
    assert actions(forecast, new) < 5
    assert forecast.lessons > 5
    assert forecast.actions(None, 20) > forecast.actions(None, 0), "nobody got that far by chance"


def test_a_hint_is_heeded_once_per_group_and_for_singles(told):
    batch, forecast = told()
    batch.sample("a", group="g", hint=60.0)
    batch.sample("b", group="g", hint=2.0)
    batch.sample("c", hint=2.0)
    batch.sample("d", hint=0.0)
    a, c, d = (batch.world.trajectories[name] for name in "acd")
    assert actions(forecast, a) > 30
    assert actions(forecast, c) < 5
    assert actions(forecast, d) < 3
    assert subject(c) == "c"


def test_a_new_coordinator_knows_the_lengths_of_those_that_ended(told):
    batch, first = told()
    batch.sample("h", hint=50.0)
    for name in ("a1", "a2", "b1", "b2"):
        batch.sample(name, group=name[0])
    batch.sample("s")
    batch.act("a1", 40)
    batch.finish("a1")
    batch.act("s", 2)
    batch.finish("s")
    again = Forecast(batch.world)
    a, b, h = (batch.world.trajectories[name] for name in ("a2", "b2", "h"))
    assert actions(again, a) > 1.5 * actions(again, b)
    assert actions(again, h) > 25
    assert again.lessons == 1
    assert Forecast(World()).lessons == 0
    batch.tell(CoordinatorStarted(batch.now, 0, "test"))
    batch.tell(Resumed(batch.now))
    assert first not in batch.machine._observers


def test_pace_is_the_groups_own_once_it_has_acted(told):
    batch, _ = told()
    assert pace(batch.world.singles, batch.world) == 1.0
    batch.sample("slow", group="slow")
    batch.sample("quick", group="quick")
    batch.sample("none")
    batch.act("slow", 30, took=10)
    batch.act("quick", 30, took=1)
    slow, quick = batch.world.groups["slow"], batch.world.groups["quick"]
    assert pace(slow, batch.world) > 8 > 3 > pace(quick, batch.world) > 1
    assert pace(batch.world.singles, batch.world) == pytest.approx(5.5)


def test_stages_are_exact_at_first_then_coarser_and_few():
    assert [stage(n) for n in range(9)] == list(range(9))
    assert len({stage(n) for n in range(1000)}) < 80
    assert all(0.85 * n <= stage(n) <= n for n in range(1, 1000))


def test_only_stages_where_somebody_waits_are_moved(told):
    batch, forecast = told()
    batch.sample("a", group="g")
    batch.sample("b", group="g")
    batch.act("a", 3)
    batch.act("b", 3)
    key = ("group", "g")
    assert sorted(forecast.stages(key)) == [0, 3]
    batch.act("a")
    assert sorted(forecast.stages(key)) == [0, 3, 4]
    batch.finish("b")
    assert sorted(forecast.stages(key)) == [0, 4]
    order = LongestRemainingFirst(forecast)
    a, waiting = batch.world.trajectories["a"], {(key, 0), (key, 3), (key, 4)}
    assert set(dict(order.moved(a, batch.world, waiting))) == {(key, 0), (key, 4)}
    assert set(dict(order.moved(a, batch.world, {(key, 4)}))) == {(key, 4)}


def test_whoever_may_outlast_the_batch_is_urgent_others_hardly(told):
    batch, forecast = told(slots=2)
    for name in ("a1", "a2", "b1", "b2"):
        batch.sample(name, group=name[0])
    assert forecast.horizon == 0.0
    batch.act("b1", 30)
    batch.act("a1", 2)
    batch.finish("a1")
    assert forecast.horizon > 0
    cost = 2.0
    a, b = ((key, forecast.actions(key, 0)) for key in (("group", "a"), ("group", "b")))
    forecast.horizon = 4 * a[1] * cost
    assert forecast.urgency(b[0], 0, cost) > 20 * forecast.urgency(a[0], 0, cost) > 0
    forecast.horizon = 0.0
    assert forecast.urgency(a[0], 0, cost) == pytest.approx(a[1] * cost)


def test_without_slots_or_actions_there_is_no_horizon(told):
    batch, forecast = told(slots=0)
    for name in "abc":
        batch.sample(name)
    batch.finish("a")
    assert (forecast.lessons, forecast.horizon) == (1, 0.0)
    batch, forecast = told(slots=5)
    batch.sample("a")
    batch.finish("a")
    assert (forecast.lessons, forecast.horizon) == (1, 0.0)
