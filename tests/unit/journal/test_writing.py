"""What is recorded comes back, in order; what was acknowledged is on disk."""

import os
import sqlite3
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import anyio
import pytest

from headway import journal
from headway.core.commands import Admit, GrantAction, StartTurn
from headway.core.facts import CoordinatorStarted, SampleSubmitted, TurnFinished, Woke
from headway.core.units import EngineId, EnvironmentId, Nanos, StreamId, Tokens, TrajectoryId
from headway.errors import ConfigError, JournalError
from headway.journal import ownership
from headway.ports import Journal

HEADER = journal.Header({"seed": 0}, "default", {"tasks": "tasks.jsonl"}, {"headway": "0.1.0"})
T, S = TrajectoryId("a#1"), StreamId("main")
FACTS = [
    (CoordinatorStarted(Nanos(0), wall=17, version="0.1.0"), []),
    (SampleSubmitted(Nanos(1), T, index=3, environments=(EnvironmentId("bash"),)), [Admit(T, 1)]),
    (
        TurnFinished(Nanos(2), T, S, 0, 1, Tokens(10), Tokens(2), Nanos(7), Tokens(4)),
        [StartTurn(T, S, 1, 1, EngineId("http://e"), -2, 4), GrantAction(T, S, 0, 1, EnvironmentId("bash"))],
    ),
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.headway"


def written(path: Path, count: int = 0) -> Path:
    """A closed journal of FACTS and ``count`` more."""
    recorder = journal.open_new(path, HEADER)
    for fact, commands in FACTS:
        recorder.append(fact, commands)
    for at in range(count):
        recorder.append(Woke(Nanos(3 + at)), [])
    recorder.shut()
    return path


def test_everything_comes_back_in_order(path: Path) -> None:
    header, rows = journal.read(written(path))
    assert header == HEADER
    assert [(row.seq, row.fact, list(row.commands)) for row in rows] == [
        (place, fact, commands) for place, (fact, commands) in enumerate(FACTS, 1)
    ]


def test_reading_on_from_a_place_crosses_chunks(path: Path) -> None:
    rows = list(journal.read(written(path, 3000), after=2000).rows)
    assert [row.seq for row in rows] == list(range(2001, 3004))


def test_a_closed_journal_is_one_file(path: Path) -> None:
    written(path)
    assert os.listdir(path.parent) == [path.name]


def test_resuming_counts_on(path: Path) -> None:
    recorder = journal.open_resume(written(path))
    assert recorder.header == HEADER
    recorder.append(Woke(Nanos(9)), [])
    recorder.shut()
    assert [row.seq for row in journal.read(path).rows] == [1, 2, 3, 4]


def test_a_later_result_of_a_sample_replaces_the_earlier(path: Path) -> None:
    recorder = journal.open_new(path, HEADER)
    for name, result in (("a", b"1"), ("b", b"2"), ("a", b"3")):
        recorder.keep(TrajectoryId(name), result)
    recorder.shut()
    assert list(journal.results(path)) == [("b", b"2"), ("a", b"3")]


def test_readers_see_what_is_durable_while_it_is_written(path: Path) -> None:
    recorder = journal.open_new(path, HEADER)
    recorder.append(*FACTS[0])
    recorder.keep(T, b"result")
    recorder.flush()
    assert recorder.backlog == 0
    rows = journal.read(path).rows
    assert next(rows).fact == FACTS[0][0]
    recorder.append(*FACTS[1])
    recorder.flush()
    assert [row.seq for row in rows] == [2]
    assert list(journal.results(path)) == [(T, b"result")]
    recorder.shut()


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_durable_serves_many_at_once_on_any_loop(path: Path, backend: str) -> None:
    seen: list[int] = []

    async def finish(recorder: journal.FileJournal, number: int) -> None:
        recorder.keep(TrajectoryId(str(number)), b"%d" % number)
        await recorder.durable()
        seen.append(sum(1 for name, _ in journal.results(path) if name == str(number)))

    async def main() -> None:
        recorder = journal.open_new(path, HEADER)
        port: Journal = recorder
        async with anyio.create_task_group() as tasks:
            for number in range(20):
                tasks.start_soon(finish, recorder, number)
        await port.close()
        await port.close()

    anyio.run(main, backend=backend)
    assert seen == [1] * 20


def test_a_cancelled_wait_harms_nobody_and_closing_waits(path: Path) -> None:
    async def main() -> None:
        recorder = journal.open_new(path, HEADER)
        with anyio.CancelScope() as scope:
            recorder.append(*FACTS[0])
            scope.cancel()
            await recorder.durable()
        recorder.append(*FACTS[1])
        await recorder.durable()
        await recorder.durable()
        with anyio.CancelScope() as scope:
            recorder.append(*FACTS[2])
            scope.cancel()
            await recorder.close()
        assert len(list(journal.read(path).rows)) == 3

    anyio.run(main)


def test_any_thread_may_record(path: Path) -> None:
    recorder = journal.open_new(path, HEADER)

    def record() -> None:
        for at in range(3000):
            recorder.append(Woke(Nanos(at)), [])

    threads = [threading.Thread(target=record) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    recorder.shut()
    assert [row.seq for row in journal.read(path).rows] == list(range(1, 9001))


def test_nothing_is_recorded_after_closing(path: Path) -> None:
    recorder = journal.open_new(path, HEADER)
    recorder.shut()
    with pytest.raises(JournalError, match=r"run\.headway: is closed"):
        recorder.append(*FACTS[0])


FULL_DISK = """
import resource, signal, sys
from headway import journal
from headway.journal import ownership
from headway.core.facts import Woke
from headway.errors import JournalError

recorder = journal.open_new(sys.argv[1], journal.Header({}, "fifo", {}, {}))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))
acknowledged = 0
try:
    while True:
        recorder.keep(f"t{acknowledged}", bytes(1000))
        recorder.append(Woke(acknowledged), [])
        recorder.flush()
        acknowledged += 1
except JournalError as error:
    print(acknowledged, error, sep="|")
for call in (lambda: recorder.append(Woke(0), []), lambda: recorder.keep("x", b""), recorder.flush, recorder.shut):
    try:
        call()
    except JournalError:
        print("refused")
"""


def test_a_full_disk_is_said_plainly_and_loses_nothing_acknowledged(path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", FULL_DISK, path], capture_output=True, text=True, check=True)
    first, *others = done.stdout.splitlines()
    acknowledged, line = first.split("|")
    assert int(acknowledged) > 10
    assert "run.headway: can't be written (" in line
    assert "free some space" in line
    assert others == ["refused"] * 4
    names = [name for name, _ in journal.results(path)]
    assert names[: int(acknowledged)] == [f"t{number}" for number in range(int(acknowledged))]
    journal.open_resume(path).shut()


def test_a_writer_that_dies_for_another_reason_is_no_hang(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    recorder = journal.open_new(path, HEADER)
    recorder.keep(T, object())  # type: ignore[arg-type]
    with pytest.raises(JournalError):
        recorder.flush()
    with pytest.raises(JournalError):
        recorder.shut()


KILLED = textwrap.dedent("""
    import sys
    from headway import journal
    from headway.core.commands import Admit
    from headway.core.facts import SampleSubmitted

    recorder = journal.open_resume(sys.argv[1]) if len(sys.argv) > 2 else journal.open_new(
        sys.argv[1], journal.Header({}, "fifo", {}, {}))
    number = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    while True:
        for _ in range(50):
            recorder.append(SampleSubmitted(number, f"t{number}"), [Admit(f"t{number}", 1)])
            number += 1
        recorder.keep(f"t{number}", b"%d" % number)
        recorder.flush()
        print(number, flush=True)
""")


def test_kill_9_leaves_a_prefix_and_every_acknowledged_result(path: Path) -> None:
    acknowledged: list[str] = []
    count = 0
    for patience in (1, 7, 2, 19):
        more = [str(count)] if count else []
        with subprocess.Popen(
            [sys.executable, "-c", KILLED, path, *more], stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            acknowledged += [f"t{process.stdout.readline().strip()}" for _ in range(patience)]
            assert journal.owner(path) == process.pid
            process.kill()
            acknowledged += [f"t{line.strip()}" for line in process.stdout if line.endswith("\n")]
        assert journal.owner(path) is None
        facts = [row.fact for row in journal.read(path).rows]
        count = len(facts)
        assert [fact.at for fact in facts] == list(range(count))
        assert count >= int(acknowledged[-1][1:])
        assert set(acknowledged) <= {name for name, _ in journal.results(path)}


def test_a_second_coordinator_is_refused_by_the_first_ones_pid(path: Path) -> None:
    recorder = journal.open_new(path, HEADER)
    for again in (lambda: journal.open_resume(path), lambda: journal.open_new(path, HEADER)):
        with pytest.raises(ConfigError, match=rf"is being written by process {os.getpid()} \(wait for it"):
            again()
    assert journal.owner(path) == os.getpid()
    recorder.shut()
    assert journal.owner(path) is None
    journal.open_resume(path).shut()


def test_a_reader_that_stays_does_not_stop_the_closing(path: Path) -> None:
    recorder = journal.open_new(path, HEADER)
    recorder.append(*FACTS[0])
    recorder.flush()
    rows = journal.read(path).rows
    next(rows)
    recorder.append(*FACTS[1])
    recorder.shut()
    assert [row.seq for row in rows] == [2]
    journal.open_resume(path).shut()


def test_it_is_a_table_that_anyone_can_query(path: Path) -> None:
    with sqlite3.connect(written(path)) as connection:
        query = "SELECT json_extract(fact, '$.type'), json_extract(commands, '$[0].type') FROM facts"
        assert connection.execute(query).fetchall()[1] == ("SampleSubmitted", "Admit")
    connection.close()


def test_ownership_survives_those_who_only_ask_and_those_who_leave(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    locked, lock = ownership._locked, path.with_name("run.headway-lock")
    happens = [lambda: False, lambda: lock.unlink() or True, lambda: lock.rename(lock.with_name("old")) or True]

    def racing(descriptor: int) -> bool:
        return locked(descriptor) and (not happens or bool(happens.pop(0)()))

    monkeypatch.setattr(ownership, "_locked", racing)
    recorder = journal.open_new(path, HEADER)
    assert not happens
    assert journal.owner(path) == os.getpid()
    recorder.shut()


def test_closing_gives_up_on_a_disk_that_takes_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headway.journal.writer._CLOSE_LIMIT", 0.05)
    other = sqlite3.connect(written(path), isolation_level=None)

    async def main() -> None:
        recorder = journal.open_resume(path)
        other.execute("BEGIN IMMEDIATE")
        recorder.append(Woke(Nanos(9)), [])
        with pytest.raises(JournalError, match="took no write"):
            await recorder.close()
        other.execute("ROLLBACK")
        recorder._thread.join()

    anyio.run(main)
    other.close()
    assert len(list(journal.read(path).rows)) == len(FACTS) + 1
