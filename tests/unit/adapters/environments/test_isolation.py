import anyio
import pytest

from headway.adapters.environments import isolation
from headway.adapters.environments.isolation import Bubblewrap, Rlimits, Room

pytestmark = pytest.mark.anyio

_DEAF = "trap '' TERM; echo ready; while :; do sleep 1000; done"


@pytest.mark.parametrize("fence", [Rlimits(), Bubblewrap("bwrap", base=isolation.Path("/nowhere"))])
async def test_what_does_not_obey_is_shot_with_its_group(monkeypatch, fence):
    monkeypatch.setattr(isolation, "_PATIENCE", 0.05)
    async with await anyio.open_process(_DEAF, start_new_session=True) as process:
        assert process.stdout is not None
        assert await process.stdout.receive() == b"ready\n"
        await fence.stop(process)
        assert process.returncode is not None
        assert process.returncode < 0
        await fence.stop(process)  # once more does no harm
        with anyio.fail_after(20), pytest.raises(anyio.EndOfStream):
            await process.stdout.receive()  # nobody of the group is left to hold the other end


async def test_a_namespace_without_a_first_process_yet_is_shot_too():
    async with await anyio.open_process(["sleep", "3600"], start_new_session=True) as process:
        await Bubblewrap("bwrap", base=isolation.Path("/nowhere")).stop(process)
        assert process.returncode == -9


async def test_a_process_that_is_gone_needs_no_stopping():
    assert isolation._children(2**22 + 1) == []
    isolation._signal(2**22 + 1, isolation.signal.SIGTERM)


@pytest.mark.parametrize(
    ("ours", "inside"),
    [
        ("/usr/bin:/root/bin:/home/me/bin:/bin", "/usr/bin:/bin"),
        ("/root/bin:relative:", isolation._SYSTEM_PATH),
    ],
)
def test_the_search_path_has_no_hidden_places(monkeypatch, ours, inside):
    monkeypatch.setenv("PATH", ours)
    assert Rlimits().environment(Room(isolation.Path("/room")))["PATH"] == inside


def test_a_base_outside_the_usual_places_is_hidden_as_well(base):
    argv = Bubblewrap("bwrap", base=base).argv(Room(base / "1"), ["true"], isolation.Limits(), network=False)
    assert "--share-net" not in argv
    assert str(base) in argv
