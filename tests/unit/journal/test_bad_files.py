"""Each way in which a file can fail to be a journal: one clear line."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from headway import journal
from headway.core.facts import Woke
from headway.core.units import Nanos, TrajectoryId
from headway.errors import ConfigError

HEADER = journal.Header({}, "default", {}, {})


def good(path: Path, count: int = 500) -> Path:
    recorder = journal.open_new(path, HEADER)
    for at in range(count):
        recorder.append(Woke(Nanos(at)), [])
        recorder.keep(TrajectoryId(str(at)), bytes(100))
    recorder.shut()
    return path


def sql(path: Path, *statements: str) -> Path:
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()
    return path


def missing(path: Path) -> None:
    pass


def directory(path: Path) -> None:
    path.mkdir()


def empty(path: Path) -> None:
    path.touch()


def foreign(path: Path) -> None:
    path.write_text("this is a shopping list, longer than a header of SQLite is, and of no use to anyone here\n" * 3)


def other_database(path: Path) -> None:
    sql(path, "CREATE TABLE facts (x)")


def other_version(path: Path) -> None:
    sql(good(path), "PRAGMA user_version = 7")


def no_header(path: Path) -> None:
    sql(good(path), "DELETE FROM header")


def garbled_header(path: Path) -> None:
    sql(good(path), "UPDATE header SET batch = '{\"policy\": 3}'")


def no_table(path: Path) -> None:
    sql(good(path), "DROP TABLE header")


def unreachable(path: Path) -> None:
    path.parent.joinpath("file").touch()
    path.symlink_to("file/run.headway")


@pytest.mark.parametrize(
    ("make", "line"),
    [
        (missing, "there is no such journal"),
        (directory, "is not a file; a journal is one file, NAME.headway"),
        (empty, "is empty: its batch never began (delete it)"),
        (foreign, "is not a Headway journal"),
        (other_database, "is an SQLite database, but not a Headway journal"),
        (
            other_version,
            "is a journal of format 7; this Headway reads format 1 (use the version of Headway that wrote it)",
        ),
        (no_header, "is damaged: its header is missing (restore a copy, or start the batch again)"),
        (garbled_header, "is damaged: its header: Expected `str`, got `int` - at `$.policy` (restore"),
        (no_table, "can't be opened: no such table: header"),
        (unreachable, "can't be read: Not a directory"),
    ],
)
def test_a_file_that_is_no_journal(tmp_path: Path, make, line: str) -> None:
    path = tmp_path / "run.headway"
    make(path)
    for use in (journal.read, journal.open_resume, lambda path: list(journal.results(path))):
        with pytest.raises(ConfigError) as caught:
            use(path)
        message = str(caught.value)
        assert message.startswith(f"{path}: {line}")
        assert "\n" not in message
    assert not (tmp_path / "run.headway-lock").exists()


def test_no_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = good(tmp_path / "run.headway")
    monkeypatch.setattr("os.access", lambda *_: False)  # root may read everything
    with pytest.raises(ConfigError, match="may not be read by you"):
        journal.read(path)


def test_a_place_that_takes_no_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="can't be written here: No such file or directory"):
        journal.open_new(tmp_path / "nowhere" / "run.headway", HEADER)


def test_a_name_without_the_suffix(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"run\.db: a journal's name ends in \.headway"):
        journal.open_new(tmp_path / "run.db", HEADER)


def test_what_exists_is_not_overwritten(tmp_path: Path) -> None:
    path = good(tmp_path / "run.headway")
    before = path.read_bytes()
    with pytest.raises(ConfigError, match="exists already"):
        journal.open_new(path, HEADER)
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("share", [0.001, 0.02, 0.2, 0.5, 0.8, 0.99, 0.9999])
def test_a_torn_file(tmp_path: Path, share: float) -> None:
    path = good(tmp_path / "run.headway")
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(ConfigError, match=r"is damaged|is not a Headway journal"):
        journal.open_resume(path)
    with pytest.raises(ConfigError, match=r"is damaged|is not a Headway journal"):
        list(journal.read(path).rows), list(journal.results(path))


def test_facts_that_are_gone_or_unknown(tmp_path: Path) -> None:
    path = sql(good(tmp_path / "a.headway"), "DELETE FROM facts WHERE seq BETWEEN 5 AND 7")
    with pytest.raises(ConfigError, match="is damaged: facts 5 to 7 are missing"):
        list(journal.read(path).rows)
    path = sql(good(tmp_path / "b.headway"), """UPDATE facts SET fact = '{"type": "Vanished"}' WHERE seq = 9""")
    with pytest.raises(ConfigError, match="is damaged: fact 9: Invalid value 'Vanished'"):
        list(journal.read(path).rows)


def test_damage_inside_is_found_before_a_batch_goes_on(tmp_path: Path) -> None:
    path = good(tmp_path / "run.headway", 5000)
    content = bytearray(path.read_bytes())
    middle = len(content) // 2 // 4096 * 4096
    content[middle : middle + 64] = bytes(64)
    path.write_bytes(content)
    with pytest.raises(ConfigError, match="is damaged: "):
        journal.open_resume(path)


def test_results_that_repeat_are_damage_and_no_endless_stream(tmp_path: Path) -> None:
    twice = "CREATE VIEW results AS SELECT 5 AS id, 'a' AS trajectory, x'00' AS result UNION ALL SELECT 5, 'b', x'00'"
    path = sql(good(tmp_path / "run.headway"), "DROP TABLE results", twice)
    with pytest.raises(ConfigError, match="is damaged: its results are out of order"):
        list(journal.results(path))
