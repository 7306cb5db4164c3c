"""Who may act, where slots and instances are scarce."""

import pytest


@pytest.fixture
def batch(journal):
    """Five live trajectories, a to e, that may act in ``bash``, which has one slot."""

    def begin(policy="fifo", slots=1, instances=None, interval=0, **settings):
        batch = journal(policy, **settings)
        batch.engine("engine")
        batch.environment("bash", slots, instances, interval)
        for name in "abcde":
            batch.sample(name)
        return batch

    return begin


def test_a_slot_is_held_during_an_action_only(batch):
    batch = batch()
    assert batch.act("a") == ["grant a#0 in bash"]
    assert batch.act("b") == []
    assert batch.acted("a") == ["grant b#0 in bash"]


def test_most_completed_actions_go_first(batch):
    batch = batch("caas")
    for action in range(2):
        batch.act("c")
        batch.acted("c", action)
    batch.act("a")
    batch.act("b")
    batch.act("c")
    assert batch.acted("a") == ["grant c#2 in bash"]


def test_nobody_is_overtaken_more_often_than_allowed(batch):
    batch = batch("caas", overtakes=1)
    for name in "abc":
        batch.act(name)
        batch.acted(name)
    batch.act("a")
    batch.act("d")
    for name in "bc":
        batch.act(name)
    assert batch.acted("a", 1) == ["grant b#1 in bash"]
    assert batch.acted("b", 1) == ["grant d#0 in bash"], "one may pass d, not two"


def test_more_slots_are_used_at_once_and_fewer_wait_until_it_fits(batch):
    batch = batch()
    for name in "abcd":
        batch.act(name)
    assert batch.environment("bash", 3) == ["grant b#0 in bash", "grant c#0 in bash"]
    assert batch.environment("bash", 1) == []
    assert batch.acted("a") == []
    assert batch.acted("b") == []
    assert batch.acted("c") == ["grant d#0 in bash"]


def test_an_unknown_environment_is_rejected_by_name(batch):
    assert batch().act("a", "bahs") == ["reject action of a: it may not act in 'bahs' (it may in: bash)"]


def test_a_withdrawn_action_waits_no_more(batch):
    batch = batch()
    batch.act("a")
    batch.act("b")
    batch.act("c")
    assert batch.withdraw_action("b") == []
    assert batch.acted("a") == ["grant c#0 in bash"]


def test_an_instance_is_made_once_and_kept_until_the_end(batch):
    batch = batch(slots=5, instances=1)
    assert batch.act("a") == ["grant a#0 in bash, creating"]
    assert batch.act("b") == []
    assert batch.acted("a") == []
    assert batch.act("a") == ["grant a#1 in bash"]
    assert batch.finish("a") == ["grant b#0 in bash, creating"]


def test_a_second_action_of_the_same_trajectory_uses_the_instance_that_the_first_makes(batch):
    batch = batch(slots=1, instances=1)
    batch.act("a")
    batch.act("b")
    assert batch.act("a") == []
    assert batch.acted("a") == ["grant a#1 in bash"], "b needs an instance, and there is none left"


def test_actions_that_wait_together_for_an_instance_need_only_one(batch):
    batch = batch(slots=2, instances=1, interval=100)
    batch.act("b")
    assert batch.act("a") == ["wake at 100"]
    batch.act("a")
    assert batch.finish("b") == [], "too early for another creation"
    assert batch.pass_(100).woke() == ["grant a#0 in bash, creating", "grant a#1 in bash"]


def test_creations_keep_their_distance_and_a_timer_goes_on_with_them(batch):
    batch = batch(slots=5, interval=100)
    assert batch.act("a") == ["grant a#0 in bash, creating"]
    assert batch.act("b") == ["wake at 100"]
    assert batch.act("c") == [], "the timer is set already"
    assert batch.pass_(100).woke() == ["grant b#0 in bash, creating", "wake at 200"]
    assert batch.pass_(100).woke() == ["grant c#0 in bash, creating"]


def test_a_slow_creation_holds_up_nobody_who_has_an_instance(batch):
    batch = batch(slots=5, interval=100)
    batch.act("a")
    batch.act("b")
    batch.acted("a")
    assert batch.act("a") == ["grant a#1 in bash"]


def test_a_shorter_interval_counts_from_now_on(batch):
    batch = batch(slots=1, interval=1000)
    batch.act("a")
    batch.act("b")
    batch.acted("a")
    assert batch.pass_(10).environment("bash", 1, None, 50) == ["wake at 60"]


def test_an_environment_that_no_longer_keeps_instances_grants_to_those_who_waited_for_one(batch):
    batch = batch(slots=5, instances=1)
    batch.act("a")
    batch.act("b")
    assert batch.environment("bash", 5) == ["grant b#0 in bash"]


def test_places_for_instances_are_claimed_in_all_environments_together(batch):
    batch = batch(slots=5, instances=1)
    batch.environment("search", 5, 1)
    assert batch.act("a", "bash") == ["grant a#0 in bash, creating"]
    assert batch.act("b", "search") == [], "a may need search too, and will not wait for b there"
    assert batch.act("a", "search") == ["grant a#1 in search, creating"]
    assert batch.finish("a") == ["grant b#0 in search, creating"]


def test_actions_that_wait_elsewhere_profit_from_a_claim(batch):
    batch = batch(slots=5, instances=1)
    batch.environment("search", 5, 1)
    batch.act("b", "bash")
    batch.act("a", "search")
    batch.act("a", "bash")
    assert batch.finish("b") == ["grant a#1 in bash, creating", "grant a#0 in search, creating"]


def test_a_lost_slot_queues_the_action_again_as_a_new_attempt(batch):
    batch = batch()
    batch.act("a")
    first = batch.grants["a", 0].attempt
    assert batch.fail_action("a") == ["grant a#0 in bash"]
    assert batch.grants["a", 0].attempt > first


def test_an_action_lost_too_often_is_rejected(batch):
    batch = batch()
    batch.act("a")
    for _ in range(5):
        batch.fail_action("a")
    assert batch.fail_action("a") == ["reject action of a: lost after 6 tries: it broke"]


def test_a_failed_action_is_over_and_the_agent_knows(batch):
    batch = batch()
    batch.act("a")
    batch.act("b")
    assert batch.fail_action("a", "error") == ["grant b#0 in bash"]
