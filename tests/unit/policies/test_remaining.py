"""Who goes first under the policies that look ahead: decisions of a machine, told fact by fact."""

from dataclasses import replace

from headway.core.facts import LimitChanged
from headway.policies.admission import Unlimited
from headway.policies.forecast import Forecast
from headway.policies.presets import preset
from headway.policies.remaining import LongestRemainingFirst, ProbeThenLongest


def default(**settings):
    return replace(preset("default")[0], **settings)


def test_a_free_slot_goes_to_the_group_with_most_left(batch):
    tried = batch(default(), slots=1)
    for name in ("a1", "a2", "b1", "b2"):
        tried.sample(name, group=name[0])
    tried.act("a1", 2)
    tried.finish("a1")
    tried.act("b1", 20)
    tried.ask("b1")
    tried.ask("a2")
    tried.ask("b2")
    tried.acted("b1")
    assert tried.granted[-1] == "b2", "though a2 asked before"
    tried.acted("b2")
    assert tried.granted[-1] == "a2"


def test_those_who_wait_move_when_their_group_shows_more(batch):
    tried = batch(default(), slots=1)
    for name in ("a1", "a2", "a3", "b1", "b2", "x"):
        tried.sample(name, group=name[0])
    tried.act("b1", 4)
    tried.act("a1", 4)
    tried.act("a3", 4)
    tried.ask("x")
    tried.ask("a2")
    tried.ask("b2")
    tried.finish("a1")
    tried.finish("a3")
    tried.acted("x")
    assert tried.granted[-1] == "b2", "the group of a2 has turned out short while it waited"


def test_one_of_each_group_is_admitted_first_then_the_longest_group(batch):
    tried = batch(default())
    tried.tell(LimitChanged(0, 3))
    tried.sample("keeper")
    for name in ("a1", "a2", "a3", "b1", "b2", "b3"):
        tried.sample(name, group=name[0])
    assert tried.admitted == ["keeper", "a1", "a2"], "there was room when they came"
    tried.act("a1", 2)
    tried.finish("a1")
    assert tried.admitted[3:] == ["b1"], "a probe of the other group"
    tried.act("b1", 30)
    tried.finish("a2")
    assert tried.admitted[4:] == ["b2"], "its group is the longer one"


def test_everybody_moves_after_a_lesson_and_nobody_without_a_subject(batch):
    tried = batch(default(admission=Unlimited()))
    tried.sample("a", group="g")
    tried.sample("s")
    forecast = next(o for o in tried.machine._observers if isinstance(o, Forecast))
    a, s = tried.world.trajectories["a"], tried.world.trajectories["s"]
    for kind in (LongestRemainingFirst, ProbeThenLongest):
        order = kind(forecast)
        waiting = {order.bucket(a)}
        assert order.moved(a, tried.world, waiting) is not None
        forecast._learn()
        assert order.moved(a, tried.world, waiting) is None
        assert order.moved(a, tried.world, waiting) is not None
        assert list(order.moved(a, tried.world, set())) == [], "nobody of it waits"
        assert order.member(a) == 0.0
    assert LongestRemainingFirst(forecast).moved(s, tried.world, {None}) == ()
    probe = ProbeThenLongest(forecast)
    assert probe.bucket(a) != probe.bucket(s)
