import pytest

from headway.adapters.environments import InProcess
from headway.ports import Environment

pytestmark = pytest.mark.anyio


async def test_a_trajectory_keeps_its_place_over_its_actions(grant):
    tools = InProcess("tools", lambda trajectory: [trajectory])
    first = await tools.enter(grant("a", 0, create=True))
    assert first == ["a"]
    assert await tools.enter(grant("a", 0, create=True)) is first, "the same grant twice is one grant"
    await tools.leave(grant("a", 0, create=True))
    assert await tools.enter(grant("a", 1)) is first
    assert await tools.enter(grant("b", 0)) == ["b"]


async def test_create_makes_a_fresh_place_and_destroys_the_old_one(grant):
    gone: list[object] = []
    tools = InProcess("tools", lambda _: object(), destroy=gone.append)
    old = await tools.enter(grant("a", 0, create=True))
    new = await tools.enter(grant("a", 0, create=True, attempt=2))
    assert new is not old
    assert gone == [old]


async def test_release_destroys_once_and_close_destroys_the_rest(grant):
    gone: list[object] = []

    async def make(trajectory: str) -> str:
        return trajectory.upper()

    async def destroy(place: object) -> None:
        gone.append(place)

    tools = InProcess("tools", make, destroy=destroy)
    for name in "abc":
        await tools.enter(grant(name))
    await tools.release("b")
    await tools.release("b")
    assert gone == ["B"]
    await tools.close()
    assert gone == ["B", "A", "C"]


async def test_without_a_maker_the_slot_is_all_there_is(grant):
    tools: Environment = InProcess("search")
    assert tools.id == "search"
    assert await tools.enter(grant()) is None
