"""Who becomes a trajectory, and when."""

from headway.policies.admission import WithinMemory


def test_a_sample_is_admitted_at_once_where_nothing_limits(journal):
    batch = journal()
    batch.engine("e")
    assert batch.sample("a") == ["admit a"]


def test_the_limit_on_live_trajectories_holds_and_a_finish_lets_the_next_in(journal):
    batch = journal()
    batch.engine("e")
    batch.limit(1)
    assert batch.sample("a") == ["admit a"]
    assert batch.sample("b") == []
    assert batch.finish("a") == ["admit b"]


def test_a_lifted_limit_lets_everybody_in(journal):
    batch = journal()
    batch.engine("e")
    batch.limit(1)
    for name in "abc":
        batch.sample(name)
    assert batch.limit(None) == ["admit b", "admit c"]


def test_samples_wait_while_every_engine_is_lost_and_go_on_with_a_new_one(journal):
    batch = journal()
    batch.engine("e")
    batch.lose("e")
    assert batch.sample("a") == []
    assert batch.engine("f") == ["admit a"]


def test_a_sample_that_fits_no_engine_is_rejected_with_the_size_that_would(journal):
    batch = journal()
    batch.engine("e", kv=100)
    batch.engine("f", kv=900, context=200)
    reason = "its prompt of about 500 tokens fits no engine (the largest takes 200)"
    assert batch.sample("a", 500) == [f"reject sample of a: {reason}"]
    assert "a" in batch.world.failed


def test_longest_first_admits_by_the_hint(journal):
    batch = journal("longest-first")
    batch.engine("e")
    batch.limit(1)
    batch.sample("a")
    batch.sample("short", hint=1.0)
    batch.sample("long", hint=9.0)
    assert batch.finish("a") == ["admit long"]


def test_within_memory_a_turn_that_proves_small_lets_the_next_sample_in(journal):
    batch = journal(admission=WithinMemory())
    batch.engine("e", kv=8000)
    batch.sample("a", 6000)
    assert batch.sample("b", 5000) == [], "6000 + 5000 and growth are more than 1.3 times 8000"
    batch.turn("a", 100)
    assert batch.answer("a") == ["admit b"]


def test_coupled_a_trajectory_holds_a_slot_for_life(journal):
    batch = journal("coupled-fifo")
    batch.engine("e")
    batch.environment("bash", 1)
    assert batch.sample("a") == ["admit a"]
    assert batch.sample("b") == []
    assert batch.act("a") == ["grant a#0 in bash"]
    assert batch.acted("a") == [], "the slot stays with a"
    assert batch.finish("a") == ["admit b"]


def test_coupled_only_the_environments_that_a_sample_names_are_held(journal):
    batch = journal("coupled-fifo")
    batch.engine("e")
    batch.environment("bash", 1)
    batch.environment("search", 1)
    assert batch.sample("a", environments=("bash",)) == ["admit a"]
    assert batch.sample("b", environments=("search",)) == ["admit b"]
    assert batch.sample("c", environments=("elsewhere",)) == ["admit c"]


def test_coupled_an_instance_for_each_bounds_admission_too(journal):
    batch = journal("coupled-fifo")
    batch.engine("e")
    batch.environment("bash", 5, instances=1)
    assert batch.sample("a") == ["admit a"]
    assert batch.sample("b") == []


def test_coupled_an_action_that_asks_in_a_pause_gets_its_own_slot_afterwards(journal):
    batch = journal("coupled-fifo")
    batch.engine("e")
    batch.environment("bash", 1)
    batch.sample("a")
    batch.pause()
    assert batch.act("a") == []
    assert batch.resume() == ["grant a#0 in bash"]


def test_what_abandons_again_waits_for_admission_with_a_new_attempt(journal):
    batch = journal()
    batch.engine("e")
    batch.sample("a")
    first = batch.world.trajectories["a"].attempt
    assert batch.abandon("a", again=True) == ["admit a"]
    assert batch.world.trajectories["a"].attempt > first


def test_a_pending_sample_can_be_cancelled(journal):
    batch = journal()
    batch.engine("e")
    batch.limit(1)
    batch.sample("a")
    batch.sample("b")
    assert batch.abandon("b") == []
    assert batch.finish("a") == []
