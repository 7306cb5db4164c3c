"""What a sandbox promises, under both fences. Without bubblewrap its half fails and says what to install."""

import logging
import os
import select
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import anyio
import pytest

from headway.adapters.environments import Completed, Limits, Sandbox, isolation, sandbox
from headway.core.units import Bytes
from headway.errors import ConfigError, SandboxError

pytestmark = pytest.mark.anyio

MIB = 1024 * 1024


@pytest.fixture(params=["bubblewrap", "rlimits"])
def fence(request):
    return request.param


@pytest.fixture
async def make(fence, base):
    made = []

    def new(**options) -> Sandbox:
        made.append(Sandbox("bash", fence=fence, base=base, **options))
        return made[-1]

    yield new
    for sandbox_ in made:
        await sandbox_.close()


async def run(bash: Sandbox, grant, command, **options) -> Completed:
    place = await bash.enter(grant)
    return await place.run(command, **options)


async def until_exists(path: Path) -> None:
    with anyio.fail_after(20):
        while not await anyio.Path(path).exists():  # noqa: ASYNC110 - another process makes it, no event of ours
            await anyio.sleep(0.01)


def word() -> str:
    """A length of sleep that nobody else sleeps."""
    return f"3600.{uuid.uuid4().int % 10**12:012d}"


async def test_output_exit_code_and_input_come_through(make, grant):
    bash = make()
    done = await run(bash, grant(), "echo out; echo err >&2; exit 7")
    assert (done.exit_code, done.stdout, done.stderr) == (7, "out\n", "err\n")
    assert not done.timed_out
    assert not done.truncated
    assert done.seconds > 0
    assert (await run(bash, grant(), ["cat"], stdin=b"fed")).stdout == "fed"
    assert (await run(bash, grant(), ["true"], stdin=b"x" * MIB)).exit_code == 0, "it need not listen"
    assert (await run(bash, grant(), ["no-such-program"])).exit_code == 127
    assert (await run(bash, grant(), "kill -9 $$")).exit_code == 137
    assert (await run(bash, grant(), ["printf", "%s", "a b"])).stdout == "a b"
    assert (await run(bash, grant(), "printf '\\377'")).stdout == "\ufffd"


async def test_files_stay_between_actions_and_trajectories_apart(make, grant):
    bash = make()
    await run(bash, grant("a", 0, create=True), "echo mine > file")
    await bash.leave(grant("a", 0, create=True))
    assert (await run(bash, grant("a", 1), "cat file; pwd")).stdout.startswith("mine\n")
    other = await run(bash, grant("b", 0, create=True), "cat file")
    assert other.exit_code == 1
    mine = (await bash.enter(grant("a", 1))).folder
    peek = await run(bash, grant("b", 0, create=True), ["cat", str(mine / "file")])
    if os.geteuid() == 0 or bash._fence == "bubblewrap":
        assert peek.exit_code == 1, "another trajectory's folder is closed"


async def test_create_starts_from_an_empty_folder_once_per_grant(make, grant):
    bash = make()
    await run(bash, grant("a", 0, create=True), "touch file")
    assert (await run(bash, grant("a", 0, create=True), "ls")).stdout == "file\n"
    assert (await run(bash, grant("a", 0, create=True, attempt=2), "ls")).stdout == ""


async def test_release_removes_the_folder_and_may_come_twice(make, grant):
    bash = make()
    folder = (await bash.enter(grant("a"))).folder
    await run(bash, grant("a"), "mkdir -p deep/er; touch deep/er/file; chmod 0 deep")
    await bash.release("a")
    await bash.release("a")
    await bash.release("never there")
    assert not folder.exists()


async def test_our_environment_stays_out(make, grant, monkeypatch):
    monkeypatch.setenv("API_KEY", "secret")
    bash = make(env={"FROM_SANDBOX": "1"})
    seen = (await run(bash, grant(), "env", env={"FROM_CALL": "2"})).stdout.splitlines()
    assert "API_KEY=secret" not in seen
    assert {"FROM_SANDBOX=1", "FROM_CALL=2", "LANG=C.UTF-8"} <= set(seen)


async def test_at_the_time_limit_everything_is_killed(make, grant, processes):
    bash, name = make(limits=Limits(seconds=3)), word()
    done = await run(bash, grant(), f"echo before; (setsid sleep {name} &) ; trap '' TERM; sleep {name}", timeout=60)
    assert (done.timed_out, done.exit_code, done.stdout) == (True, None, "before\n")
    assert processes(name) == []


async def test_a_command_that_ends_takes_what_it_left_running_with_it(make, grant, processes):
    bash, name = make(), word()
    done = await run(bash, grant(), f"(setsid sleep {name} &) ; nohup sleep {name} & echo started")
    assert (done.exit_code, done.stdout) == (0, "started\n")
    assert processes(name) == []


async def test_cancelling_kills(make, grant, processes):
    bash, name = make(), word()
    place = await bash.enter(grant())
    async with anyio.create_task_group() as group:
        group.start_soon(place.run, f"touch started; sleep {name}")
        await until_exists(place.folder / "started")
        assert processes(name)
        group.cancel_scope.cancel()
    assert processes(name) == []


@pytest.mark.parametrize("how", ["leave", "release", "close"])
async def test_an_action_that_is_over_stops_its_commands(make, grant, processes, how):
    bash, name = make(), word()
    place = await bash.enter(grant())
    refusals = []

    async def command() -> None:
        with pytest.raises(SandboxError, match="ended before its command") as caught:
            await place.run(f"touch started; sleep {name}")
        refusals.append(caught)

    async with anyio.create_task_group() as group:
        group.start_soon(command)
        await until_exists(place.folder / "started")
        await {"leave": lambda: bash.leave(grant()), "release": lambda: bash.release("a"), "close": bash.close}[how]()
        assert processes(name) == []
    assert len(refusals) == 1
    with pytest.raises(SandboxError, match="the action is over"):
        await place.run("true")
    await bash.leave(grant())  # once more does no harm


async def test_however_much_is_printed_little_is_kept(make, grant):
    bash = make(limits=Limits(output=Bytes(1000)))
    done = await run(bash, grant(), "head -c 30000000 /dev/zero | tr '\\0' x; echo end >&2")
    assert (done.exit_code, done.truncated) == (0, True)
    assert done.stdout == "x" * 1000
    assert done.stderr == "end\n"
    exactly = await run(bash, grant(), "head -c 1000 /dev/zero")
    assert not exactly.truncated


async def test_memory_is_limited(make, grant):
    greedy = "x=$(head -c 100000000 /dev/zero | tr '\\0' a) && echo ${#x}"
    assert (await run(make(), grant(), greedy)).stdout == "100000000\n"
    done = await run(make(limits=Limits(memory=Bytes(64 * MIB))), grant(), greedy)
    assert done.exit_code != 0
    assert done.stdout == ""


async def test_files_are_limited(make, grant):
    bash = make(limits=Limits(file=Bytes(MIB)))
    done = await run(bash, grant(), "head -c 3000000 /dev/zero > big; wc -c < big")
    assert done.stdout.strip() == str(MIB)


async def test_processes_are_limited(make, grant):
    many = "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do sleep 0.1 & done; wait; echo all"
    assert (await run(make(), grant(), many)).stdout == "all\n"
    done = await run(make(limits=Limits(processes=6)), grant(), many)
    assert done.stdout == ""
    assert "fork" in done.stderr


async def test_setup_is_part_of_creation(make, grant):
    async def prepare(place, trajectory):
        await place.run(["touch", f"for-{trajectory}"])

    assert (await run(make(setup="touch ready"), grant("a"), "ls")).stdout == "ready\n"
    assert (await run(make(setup=prepare), grant("a"), "ls")).stdout == "for-a\n"


async def test_a_setup_that_fails_leaves_no_instance(make, grant, base):
    bash = make(setup="echo no disk >&2; exit 3")
    with pytest.raises(SandboxError, match="environment bash: setup exited with 3: no disk"):
        await bash.enter(grant())
    assert [list(owned.iterdir()) for owned in base.iterdir()] == [[]]
    with pytest.raises(SandboxError, match="setup timed out"):
        await make(setup="sleep 60", limits=Limits(seconds=0.2)).enter(grant())


async def test_a_folder_that_can_not_be_made_is_one_line(make, grant, base):
    bash = make()
    await bash.enter(grant("a"))
    bash._owned = base / "gone"
    with pytest.raises(SandboxError, match=r"can't make .*gone"):
        await bash.enter(grant("b"))
    bash._owned = next(base.glob("headway-*"))


_COORDINATOR = """
import anyio, sys, pathlib
from headway.adapters.environments import Sandbox
from headway.core.commands import GrantAction

async def main(fence, base, name):
    bash = Sandbox("bash", fence=fence, base=pathlib.Path(base))
    grant = GrantAction(trajectory="a", stream="main", action=0, attempt=1, environment="bash", create=True)
    place = await bash.enter(grant)
    async with anyio.create_task_group() as group:
        group.start_soon(place.run, f"(setsid sleep {name} &); touch started; sleep {name}")
        while not (place.folder / "started").exists():
            await anyio.sleep(0.01)
        print("ready", flush=True)

anyio.run(main, *sys.argv[1:])
"""


async def test_nothing_outlives_a_coordinator_that_is_killed(make, grant, base, fence, processes):
    name = word()
    coordinator = subprocess.Popen(  # noqa: ASYNC220 - nothing else runs here
        [sys.executable, "-c", _COORDINATOR, fence, str(base), name], stdout=subprocess.PIPE, text=True
    )
    assert coordinator.stdout is not None
    with coordinator.stdout:
        assert coordinator.stdout.readline() == "ready\n"
    handles = [os.pidfd_open(pid) for pid in processes(name)]
    assert len(handles) >= 2
    coordinator.send_signal(signal.SIGKILL)
    coordinator.wait(20)
    for handle in handles:
        assert select.select([handle], [], [], 20)[0] == [handle], "a process of the command is still alive"
        os.close(handle)
    left = set(base.iterdir())
    assert len(left) == 1
    await make().enter(grant())
    assert not left & set(base.iterdir()), "the next start sweeps"


@pytest.mark.parametrize("fence", ["bubblewrap"], indirect=False)
async def test_bubblewrap_hides_network_processes_and_homes(make, grant):
    bash = make()
    assert "lo:" in (await run(bash, grant(), "cat /proc/net/dev")).stdout
    assert len((await run(bash, grant(), "tail -n +3 /proc/net/dev")).stdout.splitlines()) == 1
    assert (await run(bash, grant(), "ls -A /home /root 2>&1 | grep -v : | tr -d '\\n'")).stdout == ""
    assert int((await run(bash, grant(), "ls -d /proc/[0-9]* | wc -l")).stdout) <= 5
    for path in ("/etc/x", "/usr/x", "/home/x", "/dev/x", "/var/tmp/x"):
        assert (await run(bash, grant(), ["touch", path])).exit_code == 1
    done = await run(bash, grant(), "touch /tmp/x /dev/shm/y && ls /dev/shm && cat /dev/null")
    assert (done.exit_code, done.stdout) == (0, "y\n")


@pytest.mark.parametrize("fence", ["bubblewrap"], indirect=False)
async def test_bubblewrap_shows_what_it_is_told_to(make, grant, base):
    shown = base / "shown"
    shown.mkdir()
    (shown / "file").write_text("seen")
    (base / "hidden").write_text("unseen")
    bash = make(network=True, readable=[shown])
    assert (await run(bash, grant(), ["cat", str(shown / "file")])).stdout == "seen"
    assert (await run(bash, grant(), ["touch", str(shown / "new")])).exit_code == 1
    assert (await run(bash, grant(), ["cat", str(base / "hidden")])).exit_code == 1
    outside = (await anyio.Path("/proc/net/dev").read_text()).splitlines()
    assert len((await run(bash, grant(), ["cat", "/proc/net/dev"])).stdout.splitlines()) == len(outside)
    (shown / "file").unlink()
    shown.rmdir()
    (base / "hidden").unlink()


async def test_auto_prefers_bubblewrap(base, grant):
    bash = Sandbox("bash", base=base)
    await bash.enter(grant())
    assert isinstance(bash._rules.isolation, isolation.Bubblewrap)
    await bash.close()


@pytest.mark.parametrize(("program", "reason"), [(None, "bwrap is not installed"), ("/bin/false", "exit code 1")])
async def test_without_bubblewrap_one_warning_says_what_is_missing(base, grant, monkeypatch, caplog, program, reason):
    monkeypatch.setattr(sandbox, "find_bubblewrap", lambda: program)
    bash = Sandbox("bash", base=base)
    with caplog.at_level(logging.WARNING):
        assert (await run(bash, grant("a"), "echo works")).stdout == "works\n"
        assert (await run(bash, grant("b"), "echo works")).stdout == "works\n"
    await bash.close()
    assert [record.message for record in caplog.records] == [
        f"environment bash: no bubblewrap ({reason}): commands can see the network, other processes and every file "
        "that their user can read"
    ]
    insisting = Sandbox("bash", fence="bubblewrap", base=base)
    with pytest.raises(ConfigError, match=f"{reason} .*install the package bubblewrap"):
        await insisting.check()
    await insisting.close()


async def test_a_program_that_can_not_start_is_the_sandbox_s_fault(base, grant, monkeypatch):
    monkeypatch.setattr(sandbox, "find_bubblewrap", lambda: "/no/such/bwrap")
    bash = Sandbox("bash", fence="bubblewrap", base=base)
    with pytest.raises(ConfigError, match="can't start /no/such/bwrap: No such file"):
        await bash.enter(grant())
    await bash.close()


def test_a_limit_of_nothing_is_refused():
    with pytest.raises(ConfigError, match="limit memory: must be greater than zero, not 0"):
        Limits(memory=Bytes(0))
