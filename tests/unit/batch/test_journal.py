"""What survives: nothing is acknowledged before it is on disk, nothing finished is run again."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from fakes import FailingJournal, ScriptedEngine

from headway import Batch, Sample, Slots, Trajectory
from headway.batch import BatchStopped
from headway.core.facts import CoordinatorStarted, LimitChanged, Resumed, SampleSubmitted, SlotsChanged
from headway.errors import ConfigError, JournalError
from headway.journal import read, results

pytestmark = pytest.mark.anyio
ASK = [{"role": "user", "content": "hello"}]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.headway"


def samples(*ids: str) -> list[Sample]:
    return [Sample(name) for name in ids]


def content(path: Path) -> bytes:
    return path.read_bytes()


async def collect(batch: Batch, solve: Any, samples: list[Sample], into: list[str]) -> None:
    async with batch.stream(solve, samples) as stream:
        async for result in stream:
            into.append(result.id)  # noqa: PERF401 - as they come


class Agent:
    """Solves everything but what is in ``broken``; notes what it was asked to solve."""

    def __init__(self, *broken: str) -> None:
        self.broken, self.solved = set(broken), []

    async def __call__(self, sample: Sample, trajectory: Trajectory) -> dict[str, str]:
        self.solved.append(sample.id)
        async with trajectory.action():
            await trajectory.chat(ASK)
        if sample.id in self.broken:
            raise ValueError("boom")
        return {"answer": sample.id}


def batch(path: Path, **more: Any) -> Batch:
    return Batch([ScriptedEngine()], {"bash": 2}, journal=path, resume=True, **more)


async def test_a_resumed_batch_goes_on_where_it_was(path: Path) -> None:
    first = Agent("b")
    results = await batch(path).run(first, samples("a", "b"))
    assert [(r.value, r.failure) for r in results] == [({"answer": "a"}, None), (None, "ValueError: boom")]
    again = Agent()
    results = await batch(path).run(again, samples("a", "b", "c"))
    assert again.solved == ["b", "c"]
    assert [(r.id, r.value["answer"], r.recalled, r.attempt) for r in results] == [
        ("a", "a", True, 1),
        ("b", "b", False, 2),
        ("c", "c", False, 1),
    ]
    third = Agent()
    assert all(result.recalled for result in await batch(path).run(third, samples("c", "b", "a")))
    assert not third.solved


async def test_time_goes_on_too(path: Path) -> None:
    await batch(path).run(Agent(), samples("a"))
    await batch(path).run(Agent(), samples("a", "b"))
    times = [row.fact.at for row in read(path).rows]
    assert times == sorted(times)


async def test_the_journal_begins_with_what_the_batch_has(path: Path) -> None:
    mine = Batch([ScriptedEngine()], {"bash": Slots(2, None, 5, 4.0)}, journal=path, concurrency=7, seed=3)
    await mine.run(Agent(), [Sample("a", group="g", hint=2.0, prompt_tokens=9, environments=("bash",))])
    facts = [row.fact for row in read(path).rows][:6]
    at = facts[0].at
    assert isinstance(facts[0], CoordinatorStarted)
    assert facts[1] == SlotsChanged(at, "bash", 2, 5, 250_000_000)
    assert facts[3:] == [LimitChanged(at, 7), Resumed(at), SampleSubmitted(at, "a", 0, "g", 9, 2.0, ("bash",))]
    header = read(path).header
    assert header.settings == {
        "engines": ["http://engine"],
        "environments": {"bash": 2},
        "concurrency": 7,
        "seed": 3,
    }
    assert header.policy == "default"


@pytest.mark.parametrize("lost", ["a", "b"])
async def test_a_sample_without_a_result_must_be_among_those_given(path: Path, lost: str) -> None:
    """Failed (a) or never run (b): it would run now, so it has to be known."""

    async def solve(sample: Sample, trajectory: Trajectory) -> None:
        if sample.id == "a":
            raise ValueError("boom")
        await anyio.sleep_forever()

    with pytest.raises(BatchStopped):
        await batch(path, error_budget=0, concurrency=1).run(solve, samples("a", "b"))
    with pytest.raises(ConfigError) as caught:
        await batch(path).run(Agent(), [s for s in samples("a", "b", "c") if s.id != lost])
    assert f"its sample {lost!r} has no result yet and is not among those given" in str(caught.value)
    assert all(result.ok for result in await batch(path).run(Agent(), samples("a", "b")))


async def test_two_coordinators_on_one_journal_are_refused(path: Path) -> None:
    inside, leave = anyio.Event(), anyio.Event()

    async def solve(sample: Sample, trajectory: Trajectory) -> None:
        inside.set()
        await leave.wait()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(batch(path).run, solve, samples("a"))
        await inside.wait()
        with pytest.raises(ConfigError, match="is being written by process"):
            await batch(path).run(Agent(), samples("a"))
        leave.set()


async def test_without_resume_an_existing_journal_is_left_alone(path: Path) -> None:
    await batch(path).run(Agent(), samples("a"))
    before = content(path)
    with pytest.raises(ConfigError, match="exists already"):
        await Batch([ScriptedEngine()], {"bash": 2}, journal=path).run(Agent(), samples("a"))
    assert content(path) == before


async def test_results_wait_for_the_disk(path: Path) -> None:
    """Each result that comes out can be read back from the file at that moment."""
    mine = batch(path)
    async with mine.stream(Agent(), samples(*"abcdef")) as stream:
        async for result in stream:
            stored = dict(results(path))
            ended = [row.fact.trajectory for row in read(path).rows if type(row.fact).__name__ == "TrajectoryFinished"]
            assert result.id in stored
            assert result.id in ended


@pytest.mark.parametrize("room", [0, 3, 7, 9, 12])
async def test_a_full_disk_stops_the_batch_in_one_line(path: Path, monkeypatch: pytest.MonkeyPatch, room: int) -> None:
    journal = FailingJournal(room)
    monkeypatch.setattr("headway.batch.memory.open_new", lambda path, header: journal)
    delivered: list[str] = []
    with pytest.raises(JournalError) as caught:
        await collect(batch(path), Agent(), samples("a", "b"), delivered)
    assert str(caught.value) == "run.headway: can't be written (disk full)"
    assert delivered == []


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)]
    if os.getuid() or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount a small disk")
    (disk / "ballast").write_bytes(b"x" * 850_000)
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


async def test_a_disk_that_is_really_full(small_disk: Path) -> None:
    """What was acknowledged before is there afterwards, and with some room made the batch goes on."""
    path = small_disk / "run.headway"
    acknowledged: list[str] = []
    first = anyio.Event()

    async def solve(sample: Sample, trajectory: Trajectory) -> str:
        if sample.id != "s0":  # the disk fills up only after somebody was told of a result
            await first.wait()
        async with trajectory.action():
            return "x" * 2_000

    async def fill() -> None:
        async with batch(path, concurrency=2).stream(solve, many) as stream:
            async for result in stream:
                acknowledged.append(result.id)
                first.set()

    many = samples(*(f"s{n}" for n in range(60)))
    with pytest.raises(JournalError, match="free some space, then resume"):
        await fill()
    assert 0 < len(acknowledged) < 60
    os.unlink(small_disk / "ballast")
    found = await batch(path, concurrency=2).run(solve, many)
    assert all(result.ok for result in found)
    assert {result.id for result in found if result.recalled} >= set(acknowledged)


async def test_the_file_is_closed_whatever_happens(path: Path) -> None:
    with pytest.raises(ConfigError):
        await batch(path).run(Agent(), samples("a", "a"))
    assert os.listdir(path.parent) == []
    await batch(path).run(Agent(), samples("a"))
    assert os.listdir(path.parent) == ["run.headway"]
