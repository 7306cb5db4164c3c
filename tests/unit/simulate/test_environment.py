"""What slots cost that last served somebody else, and instances that must be made."""

from headway.core.commands import GrantAction
from headway.core.units import MAIN, SECOND, Nanos, TrajectoryId
from headway.drivers.simulate import EnvironmentModel
from headway.workloads import EnvironmentShape
from headway.workloads.setting import ACTING


def begin(place: EnvironmentModel, name: str, *, create: bool = False) -> float:
    grant = GrantAction(TrajectoryId(name), MAIN, 0, 1, ACTING, create)
    return place.begin(grant, Nanos(SECOND)) / SECOND


def test_an_instance_takes_its_time_once() -> None:
    place = EnvironmentModel(EnvironmentShape(2, create_seconds=20.0))
    assert begin(place, "a", create=True) == 21.0
    assert begin(place, "a") == 1.0
    place.end(TrajectoryId("a"))  # nothing to remember: coming back costs nothing here


def test_coming_back_to_ones_own_slot_is_free() -> None:
    place = EnvironmentModel(EnvironmentShape(2, resume_seconds=3.0))
    assert begin(place, "a") == 1.0
    place.end(TrajectoryId("a"))
    assert begin(place, "b") == 1.0  # in the slot that nobody had
    place.end(TrajectoryId("b"))
    assert [begin(place, "a"), begin(place, "b")] == [1.0, 1.0]
    assert place.resumes == 0


def test_a_slot_that_served_another_costs_time() -> None:
    place = EnvironmentModel(EnvironmentShape(1, resume_seconds=3.0))
    begin(place, "a")
    place.end(TrajectoryId("a"))
    assert begin(place, "b") == 4.0
    place.end(TrajectoryId("b"))
    assert begin(place, "a") == 4.0
    assert place.resumes == 2


def test_slots_of_the_dead_go_first_then_those_unused_for_longest() -> None:
    place = EnvironmentModel(EnvironmentShape(3, resume_seconds=3.0))
    for name in ("a", "b", "c"):
        begin(place, name)
    for name in ("a", "b", "c"):
        place.end(TrajectoryId(name))
    place.release(TrajectoryId("b"))
    assert [begin(place, "d"), begin(place, "e")] == [4.0, 4.0]  # b's, then a's
    assert begin(place, "c") == 1.0
    place.end(TrajectoryId("d"))
    assert begin(place, "a") == 4.0


def test_a_trajectory_that_ends_while_it_acts_frees_its_slot() -> None:
    place = EnvironmentModel(EnvironmentShape(1, resume_seconds=3.0))
    begin(place, "a")
    place.release(TrajectoryId("a"))
    assert begin(place, "b") == 4.0


def test_more_slots_than_it_had() -> None:
    place = EnvironmentModel(EnvironmentShape(1, resume_seconds=3.0))
    begin(place, "a")
    assert begin(place, "b") == 1.0  # one more than it knows of, so the machine knows better
    place.resize(3)
    assert begin(place, "c") == 1.0
