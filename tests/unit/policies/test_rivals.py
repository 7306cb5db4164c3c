"""What each rival does, by its own rules."""

import pytest

from headway.core.facts import EngineSampled
from headway.core.units import SECOND
from headway.core.world import UNLIMITED
from headway.policies.presets import preset
from headway.policies.rivals import concur, prime_rl
from headway.policies.rivals.thunderagent import WhereItFits


def residency(tried):
    return tried.machine._dispatch._policies.residency


def idle(tried, name, prompt, output=10, **more):
    tried.turn(name, prompt)
    tried.answer(name, output, **more)


# -- thunderagent ------------------------------------------------------------------------------------------------


def test_thunderagent_pauses_the_smallest_that_acts_at_its_ticks(batch):
    tried = batch(preset("thunderagent")[0], kv_tokens=1000)
    for name in "abc":
        tried.sample(name, prompt=10)
    idle(tried, "a", 400, took=1)
    idle(tried, "b", 290, took=1)
    tried.turn("c", 280)
    tried.turn("a", 650)
    assert tried.world.engines["e"].active + tried.world.engines["e"].idle > 1000
    assert tried.world.trajectories["b"].streams["main"].resident, "not before the tick"
    tried.now += 5 * SECOND
    dropped = tried.answer("c")
    assert [type(command).__name__ for command in dropped] == ["Drop"]
    assert dropped[0].trajectory == "c", "290 tokens against the 300 of b"


def test_thunderagent_resumes_the_smallest_first(batch):
    tried = batch(preset("thunderagent")[0], kv_tokens=1000)
    for name in "abc":
        tried.sample(name)
    tried.turn("a", 900)
    tried.turn("b", 600)
    tried.turn("c", 500)
    assert tried.started == [("a", "e")]
    tried.answer("a")
    tried.finish("a")
    assert tried.started[1:] == [("c", "e")]


def test_thunderagent_takes_new_programs_while_their_prompts_fit(batch):
    tried = batch(preset("thunderagent")[0], kv_tokens=1000)
    tried.sample("a", prompt=700)
    tried.sample("b", prompt=400)
    assert tried.admitted == ["a"]
    tried.engine("f")
    assert tried.admitted == ["a", "b"], "an engine that says nothing takes all"
    assert WhereItFits().admits(tried.world.trajectories["b"], tried.world)
    assert residency(tried).room(tried.world.engines["f"]) == UNLIMITED


# -- concur ------------------------------------------------------------------------------------------------------


def test_concur_grows_its_window_while_usage_is_low_and_cuts_it_in_thrash(batch):
    tried = batch(preset("concur")[0], kv_tokens=1000)
    windows = residency(tried)
    engine = tried.world.engines["e"]
    tried.tell(EngineSampled(tried.now, "e"))
    window = windows.windows["e"]
    assert window.size == concur.START + concur.ALPHA
    tried.sample("a")
    idle(tried, "a", 800)
    idle(tried, "a", 900, cached=100)
    assert (window.cached, window.prompts) == (100, 900), "first turns have nothing to hit"
    engine.idle = 950
    tried.tell(EngineSampled(tried.now, "e"))
    assert window.size == (concur.START + concur.ALPHA) * concur.BETA
    tried.tell(EngineSampled(tried.now, "e"))
    assert window.size == (concur.START + concur.ALPHA) * concur.BETA, "full, but with nothing missed since"


def test_concur_believes_the_engine_where_its_size_is_not_known(batch):
    tried = batch(preset("concur")[0])
    for usage in (None, 0.95):
        tried.tell(EngineSampled(tried.now, "e", kv_usage=usage))
    assert residency(tried).windows["e"].size == concur.START + concur.ALPHA
    tried.sample("a")
    idle(tried, "a", 10)
    idle(tried, "a", 40)
    assert residency(tried).windows["e"].prompts == 0, "an engine that tells no hits"


def test_concur_lets_no_more_agents_in_than_its_window_holds(batch):
    tried = batch(preset("concur")[0])
    for number in range(10):
        tried.sample(f"t{number}")
        tried.turn(f"t{number}")
    assert len(tried.started) == concur.START
    residency(tried).windows["e"].size = 3.0
    dropped = tried.answer("t0")
    assert [type(command).__name__ for command in dropped] == ["Drop"]


# -- continuum ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("took", "room"), [(1, 390), (9, 1000)])
def test_continuum_pins_contexts_of_short_tools_only(batch, took, room):
    tried = batch(preset("continuum")[0], kv_tokens=1000)
    tried.sample("a")
    idle(tried, "a", 600)
    tried.act("a", took=took)
    assert residency(tried).room(tried.world.engines["e"]) == room
    assert not residency(tried).crowded(tried.world.engines["e"])


def test_continuum_serves_programs_by_first_arrival_and_evicts_when_it_must(batch):
    tried = batch(preset("continuum")[0], max_running=1)
    for name in "abc":
        tried.sample(name)
    tried.turn("c")
    tried.turn("b")
    tried.turn("a")
    tried.answer("c")
    assert tried.started == [("c", "e"), ("a", "e")]
    engine = tried.world.engines["e"]
    assert residency(tried).room(engine) == UNLIMITED
    assert not residency(tried).crowded(engine)
    engine.kv_tokens, engine.idle = 100, 200
    assert residency(tried).crowded(engine)


# -- prime-rl ----------------------------------------------------------------------------------------------------


def test_prime_rl_admits_by_the_mean_final_context(batch):
    tried = batch(preset("prime-rl")[0], kv_tokens=1000)
    tried.sample("a", prompt=200)
    idle(tried, "a", 190)
    for number in range(8):
        tried.sample(f"t{number}", prompt=100)
    assert tried.world.live == 5, "the largest so far was 200"
    tried.finish("a")
    assert tried.world.live == 5
    idle(tried, "t0", 90)
    tried.finish("t0")
    assert tried.world.live == 6, "0.9 * 200 + 0.1 * 100 = 190"


def test_prime_rl_cuts_at_preemptions_and_recovers_slowly(batch):
    tried = batch(preset("prime-rl")[0], kv_tokens=1000)
    admission = tried.machine._dispatch._policies.admission
    tried.tell(EngineSampled(tried.now, "e", preemptions=None))
    assert admission.factor == pytest.approx(prime_rl.RAISE)
    tried.tell(EngineSampled(tried.now, "e", preemptions=2))
    assert admission.factor == pytest.approx(prime_rl.RAISE * prime_rl.CUT)
    tried.tell(EngineSampled(tried.now, "e", preemptions=2))
    assert admission.factor == pytest.approx(prime_rl.RAISE**2 * prime_rl.CUT)


def test_prime_rl_knows_no_bound_where_an_engine_says_nothing(batch):
    tried = batch(preset("prime-rl")[0])
    for number in range(200):
        tried.sample(f"t{number}", prompt=10**6)
    assert tried.world.live == 200
