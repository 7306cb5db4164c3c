"""Memory of one engine: who may come in, who is parked, who is dropped."""


def test_a_newcomer_is_parked_until_there_is_memory_for_it(journal):
    batch = journal().something_in_flight()
    batch.engine("e", kv=1000)
    batch.sample("a")
    batch.sample("b")
    assert batch.turn("a", 600) == ["start a:0 on e"]
    assert batch.turn("b", 600) == []
    assert batch.answer("a") == [], "its context stays resident while it acts"
    assert batch.finish("a") == ["start b:0 on e"]


def test_an_idle_trajectory_comes_back_before_any_newcomer(journal):
    batch = journal().something_in_flight()
    batch.engine("e", kv=1000)
    batch.environment("bash", 1)
    batch.sample("a")
    batch.sample("b")
    batch.turn("a", 600)
    batch.turn("b", 600)
    batch.answer("a")
    batch.act("a")
    batch.acted("a")
    assert batch.turn("a", 700) == ["start a:1 on e"]


def test_states_are_counted_beside_tokens(journal):
    batch = journal().something_in_flight()
    batch.engine("e", kv=100_000, states=1)
    batch.sample("a")
    batch.sample("b")
    assert batch.turn("a") == ["start a:0 on e"]
    assert batch.turn("b") == []
    batch.answer("a")
    assert batch.finish("a") == ["start b:0 on e"]


def test_growth_drops_the_least_urgent_idle_context(journal):
    batch = journal("caas")
    batch.engine("e", kv=1000)
    batch.environment("bash", 9)
    for name in "ab":
        batch.sample(name)
        batch.turn(name, 300)
        batch.answer(name)
        batch.act(name)
    batch.acted("a")
    assert batch.turn("a", 800) == ["drop b from e", "start a:1 on e"]


def test_what_was_dropped_is_expected_to_recompute(journal):
    batch = journal()
    batch.engine("e", kv=1000)
    batch.environment("bash", 9)
    for name in "ab":
        batch.sample(name)
        batch.turn(name, 300)
        batch.answer(name)
    batch.turn("a", 800)
    assert batch.starts["a", "main"].expected_cached == 310
    batch.answer("a")
    batch.finish("a")
    batch.turn("b", 320)
    assert batch.starts["b", "main"].expected_cached == 0


def test_room_made_by_a_drop_is_given_to_a_parked_turn(journal):
    batch = journal().something_in_flight()
    batch.engine("e", kv=1000)
    for name in "abc":
        batch.sample(name)
    batch.turn("a", 90)
    batch.answer("a")
    batch.turn("b", 700)
    batch.answer("b")
    assert batch.turn("c", 200) == []
    assert batch.turn("a", 290) == ["drop b from e", "start a:1 on e", "start c:0 on e"]


def test_a_waiting_turn_whose_context_is_dropped_is_parked(journal):
    batch = journal().something_in_flight()
    batch.engine("e", kv=1000, running=1)
    for name in "ab":
        batch.sample(name)
    batch.turn("b", 400)
    batch.answer("b")
    batch.turn("a", 300)
    assert batch.turn("b", 450) == [], "it may return, but the one place is taken"
    assert batch.answer("a", 400) == ["drop b from e"], "a context of 700 leaves no room for it"
    assert batch.finish("a") == ["start b:1 on e"]


def test_returning_turns_wait_while_running_ones_fill_the_cache(journal):
    batch = journal()
    batch.engine("e", kv=1000)
    for name in "ab":
        batch.sample(name)
        batch.turn(name, 100)
        batch.answer(name)
    batch.turn("a", 800)
    assert batch.turn("b", 300) == []
    assert batch.answer("a") == ["drop a from e", "start b:1 on e"]


def test_where_nothing_is_in_flight_the_first_who_waits_starts_whatever_is_counted(journal):
    batch = journal()
    batch.engine("e", kv=1000)
    for name in "ab":
        batch.sample(name)
    batch.turn("a", 600)
    batch.answer("a")
    assert batch.turn("b", 600)[-1] == "start b:0 on e", "a thinks, for as long as it likes"


def test_an_engine_that_says_nothing_of_its_cache_is_limited_by_its_places_alone(journal):
    batch = journal()
    batch.engine("e", running=2)
    for name in "abc":
        batch.sample(name)
    assert batch.turn("a", 10**6) == ["start a:0 on e"]
    assert batch.turn("b", 10**6) == ["start b:0 on e"]
    assert batch.turn("c", 10) == []
    assert batch.answer("a") == ["start c:0 on e"]


def test_many_idle_contexts_are_forgotten_as_their_trajectories_come_back(journal):
    batch = journal()
    batch.engine("e", kv=100_000)
    batch.sample("a")
    for turn in range(200):
        batch.turn("a", 10 + 20 * turn)
        batch.answer("a")
    assert len(batch.world.engines["e"].kept) < 80
