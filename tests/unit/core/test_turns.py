"""Engines, failures of turns, and what the agent takes back."""


def test_turns_of_a_trajectory_stay_on_its_engine(journal):
    batch = journal()
    batch.engine("e")
    batch.engine("f")
    for name in "ab":
        batch.sample(name)
    assert batch.turn("a") == ["start a:0 on e"]
    assert batch.turn("b") == ["start b:0 on f"]
    batch.answer("b")
    assert batch.turn("b") == ["start b:1 on f"]


def test_a_prompt_that_its_engine_cannot_hold_goes_to_one_that_can(journal):
    batch = journal()
    batch.engine("e", context=100)
    batch.engine("f", context=1000)
    batch.sample("a")
    assert batch.turn("a", 500) == ["start a:0 on f"]


def test_a_prompt_that_no_engine_can_hold_is_rejected(journal):
    batch = journal()
    batch.engine("e", context=100)
    batch.sample("a")
    reason = "its prompt of about 500 tokens fits no engine (the largest takes 100)"
    assert batch.turn("a", 500) == [f"reject turn of a: {reason}"]


def test_a_lost_engine_moves_its_turns_as_new_attempts(journal):
    batch = journal()
    batch.engine("e")
    batch.sample("a")
    batch.turn("a")
    batch.engine("f")
    assert batch.lose("e") == ["cancel a:0 on e", "start a:0 on f"]
    assert batch.starts["a", "main"].attempt == 2


def test_turns_wait_for_any_engine_when_the_last_is_lost(journal):
    batch = journal()
    batch.engine("e", running=1)
    for name in "ab":
        batch.sample(name)
        batch.turn(name)
    assert batch.lose("e") == ["cancel a:0 on e"]
    assert batch.engine("f") == ["start a:0 on f", "start b:0 on f"]


def test_a_lost_engine_is_no_try_of_the_turn(journal):
    batch = journal()
    batch.engine("e0")
    batch.sample("a")
    batch.turn("a")
    for n in range(9):
        batch.engine(f"e{n + 1}")
        assert batch.lose(f"e{n}")[-1] == f"start a:0 on e{n + 1}"


def test_idle_contexts_are_gone_with_their_engine(journal):
    batch = journal()
    batch.engine("e", kv=1000)
    batch.sample("a")
    batch.turn("a", 100)
    batch.answer("a")
    batch.lose("e")
    batch.engine("f", kv=1000)
    assert batch.turn("a", 120) == ["start a:1 on f"]
    assert batch.starts["a", "main"].expected_cached == 0


def test_a_failed_turn_backs_off_and_tries_again(journal):
    batch = journal()
    batch.engine("e")
    batch.sample("a")
    batch.turn("a")
    (wake,) = batch.fail("a")
    at = int(wake.removeprefix("wake at "))
    assert 250_000_000 <= at <= 375_000_000
    assert batch.pass_(at).woke() == ["start a:0 on e"]


def test_an_engine_that_asks_for_more_time_gets_it(journal):
    batch = journal()
    batch.engine("e")
    batch.sample("a")
    batch.turn("a")
    assert batch.fail("a", "overloaded", retry_after=9 * 10**9) == ["wake at 9000000000"]


def test_what_backs_off_leaves_its_place_to_others(journal):
    batch = journal()
    batch.engine("e", running=1)
    for name in "ab":
        batch.sample(name)
        batch.turn(name)
    assert batch.fail("a")[-1] == "start b:0 on e"


def test_a_turn_that_failed_for_good_is_rejected_with_the_cause(journal):
    batch = journal()
    batch.engine("e")
    batch.sample("a")
    batch.turn("a")
    assert batch.fail("a", "invalid") == ["reject turn of a: invalid after 1 tries: no answer"]


def test_what_ended_while_it_backed_off_is_left_alone(journal):
    batch = journal()
    batch.engine("e")
    for name in "ab":
        batch.sample(name)
        batch.turn(name)
        batch.fail(name)
    batch.abandon("a")
    batch.withdraw_turn("b")
    assert batch.pass_(10**9).woke() == []


def test_a_withdrawn_turn_is_cancelled_or_waits_no_more(journal):
    batch = journal()
    batch.engine("e", running=1)
    for name in "abc":
        batch.sample(name)
        batch.turn(name)
    assert batch.withdraw_turn("b") == []
    assert batch.withdraw_turn("a") == ["cancel a:0 on e", "start c:0 on e"]


def test_an_ended_trajectory_leaves_nothing_behind(journal):
    batch = journal()
    batch.engine("e", running=1)
    batch.environment("bash", 1)
    for name in "ab":
        batch.sample(name)
    batch.turn("a")
    batch.act("a")
    batch.turn("b")
    batch.act("b")
    assert batch.abandon("a") == ["cancel a:0 on e", "start b:0 on e", "grant b#0 in bash"]


def test_streams_of_one_trajectory_are_one_in_memory(journal):
    batch = journal().something_in_flight()
    batch.engine("e", kv=1000)
    for name in "ab":
        batch.sample(name)
    batch.turn("b", 300)
    batch.turn("a", 400)
    batch.answer("a")
    assert batch.turn("a", 250, stream="helper") == ["start a/helper:0 on e"], "a is in already"


def test_a_stream_that_starts_brings_the_others_of_its_trajectory_in(journal):
    batch = journal().something_in_flight()
    batch.engine("e", kv=1000)
    for name in "ab":
        batch.sample(name)
    batch.turn("b", 500)
    assert batch.turn("a", 450) == []
    assert batch.turn("a", 300, stream="helper") == ["start a/helper:0 on e"]
    assert batch.answer("a", stream="helper") == ["drop a from e", "start a:0 on e"], "the helper's context goes"


def test_a_turn_that_moves_to_another_engine_leaves_its_memory_to_others(journal):
    batch = journal("round-robin").something_in_flight()
    batch.engine("e", kv=1000)
    batch.sample("a")
    batch.turn("a", 700)
    batch.answer("a")
    batch.sample("b")
    assert batch.turn("b", 700) == []
    batch.engine("f", kv=1000)
    moves = batch.world.trajectories["a"].index % 2 == 0
    assert batch.turn("a", 720) == (["start a:1 on f", "start b:0 on e"] if moves else ["start a:1 on e"])


def test_what_backs_off_on_a_lost_engine_comes_back_elsewhere(journal):
    batch = journal()
    batch.engine("e")
    batch.sample("a")
    batch.turn("a")
    batch.fail("a")
    batch.engine("f")
    assert batch.lose("e") == []
    assert batch.pass_(10**9).woke() == ["start a:0 on f"]


def test_what_ends_while_no_engine_is_left_waits_for_none(journal):
    batch = journal()
    batch.engine("e")
    batch.sample("a")
    batch.lose("e")
    batch.turn("a")
    assert batch.abandon("a") == []
    assert batch.engine("f") == []
