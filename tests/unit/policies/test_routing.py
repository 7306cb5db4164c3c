"""Homes: kept while that pays, shared where it should be, and the same for the same name."""

import pytest

from headway.core.facts import EngineJoined, SampleSubmitted
from headway.core.units import SECOND
from headway.core.world import Stream, World
from headway.policies.rivals.plain import StickyLeastLoaded
from headway.policies.rivals.thunderagent import FewestActiveTokens
from headway.policies.routing import CostAwareSticky, HashedHome


@pytest.fixture
def world():
    world = World()
    for name in "ef":
        world.join(EngineJoined(0, name, kv_tokens=1000, max_running=4))
    world.answered, world.served = 10, 10 * 30 * SECOND
    return world


def stream(world, name="a", group=None, prompt=100, home="e"):
    made = Stream("main", world.submit(SampleSubmitted(0, name, group=group)), prompt=prompt, max_output=50)
    made.engine = world.engines.get(home)
    return made


def choice(policy, stream, world):
    return policy.choose(stream, world).id


def test_a_first_turn_goes_where_fewest_live(world):
    world.engines["e"].homed = 1
    assert choice(CostAwareSticky(), stream(world, home=None), world) == "f"


def test_it_stays_where_it_can_start(world):
    world.engines["e"].running, world.engines["e"].active = 3, 800
    assert choice(CostAwareSticky(), stream(world), world) == "e"


def test_it_leaves_when_the_wait_exceeds_the_recompute_by_far(world):
    home = world.engines["e"]
    home.running, home.active = 4, 400
    assert choice(CostAwareSticky(), stream(world), world) == "f", "30 s of waiting, 40 times 0.01 s of computing"
    assert choice(CostAwareSticky(weight=4000.0), stream(world, "b"), world) == "e"


def test_memory_makes_it_wait_as_well(world):
    home = world.engines["e"]
    home.running, home.active = 2, 950
    assert choice(CostAwareSticky(), stream(world), world) == "f"
    home.kv_tokens = None
    assert choice(CostAwareSticky(), stream(world, "b"), world) == "e"


def test_it_stays_where_nobody_else_has_room_or_nothing_is_known(world):
    for engine in world.engines.values():
        engine.running = 4
    assert choice(CostAwareSticky(), stream(world), world) == "e"
    world.engines["f"].running = 0
    world.answered = 0
    assert choice(CostAwareSticky(), stream(world, "b"), world) == "e"


def test_a_hashed_home_does_not_depend_on_load_or_on_other_engines(world):
    homes = {f"t{n}": choice(HashedHome(), stream(world, f"t{n}", home=None), world) for n in range(40)}
    assert set(homes.values()) == {"e", "f"}
    world.engines["e"].running = 4
    world.join(EngineJoined(0, "g"))
    again = {name: choice(HashedHome(), Stream("main", world.trajectories[name]), world) for name in homes}
    assert all(now in {homes[name], "g"} for name, now in again.items())


def test_members_of_a_group_can_share_a_hashed_home(world):
    members = [stream(world, f"m{n}", group="g", home=None) for n in range(20)]
    assert len({choice(HashedHome(by_group=True), member, world) for member in members}) == 1
    singles = [stream(world, f"s{n}", home=None) for n in range(20)]
    assert len({choice(HashedHome(by_group=True), single, world) for single in singles}) == 2


def test_sticky_least_loaded_counts_tokens_once(world):
    world.engines["e"].idle = 5
    first = stream(world, home=None)
    assert choice(StickyLeastLoaded(), first, world) == "f"
    first.engine = world.engines["e"]
    assert choice(StickyLeastLoaded(), first, world) == "e"


def test_thunderagent_moves_what_is_not_resident(world):
    world.engines["e"].active = 5
    moved = stream(world)
    assert choice(FewestActiveTokens(), moved, world) == "f"
    moved.resident = True
    assert choice(FewestActiveTokens(), moved, world) == "e"
