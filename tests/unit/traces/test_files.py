"""Trace files: what was written comes back, whatever it is packed in; what can't be true is one clear line."""

import gzip
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import made
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.core.units import EnvironmentId, StreamId, TrajectoryId
from headway.errors import ConfigError
from headway.traces import files
from headway.traces.format import Counts, Recorded, RecordedAction, RecordedTurn, Slots, Trace

HEADER = files.new_header("by hand")
BASH = EnvironmentId("bash")


def turn(new: int = 10, prompt: int = 10, output: int = 5, **more: object) -> RecordedTurn:
    return RecordedTurn(new_tokens=new, prompt_tokens=prompt, output_tokens=output, **more)


def trajectory(name: str = "a", *turns: RecordedTurn, **more: object) -> Recorded:
    return Recorded(id=TrajectoryId(name), turns=turns or (turn(),), **more)


@given(made.trajectories, st.sampled_from(files.SUFFIXES))
@settings(deadline=None, max_examples=60)
def test_what_was_written_comes_back(trajectories: list[Recorded], suffix: str) -> None:
    header = files.new_header("x", environments={BASH: Slots(slots=3)}, policy="fifo", makespan_s=1.5, assume="fixed:1")
    with TemporaryDirectory() as folder:
        file = Path(folder) / f"t{suffix}"
        written = files.write(file, header, trajectories)
        found, rows = files.read(file)
        assert list(rows) == trajectories
        assert list(Path(folder).iterdir()) == [file]
    assert found == written
    assert msgspec.structs.replace(found, counts=Counts(), label="") == header


def test_counts_and_label_are_filled_in(tmp_path: Path) -> None:
    acts = (
        RecordedAction(environment=BASH),
        RecordedAction(environment=BASH, service_s=1.0, tag="assumed"),
        RecordedAction(environment=BASH, service_s=1.0, tag="derived"),
    )
    one = trajectory("a", turn(actions=acts), turn(1, 16, lengths="derived"), setup=acts[1:])
    done = files.write(tmp_path / "t.jsonl", msgspec.structs.replace(HEADER, assume="fixed:1"), [one, trajectory("b")])
    assert done.counts == Counts(trajectories=2, turns=3, actions=5, derived=2, assumed=2, untimed=1, estimated=1)
    assert done.label == "2 of 5 action times assumed (fixed:1), not measured"
    assert files.read(tmp_path / "t.jsonl", untimed=True)[0] == done
    assert files.write(tmp_path / "t.jsonl", HEADER, [trajectory("b")]).label == ""


def test_without_durations_no_makespan(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    files.write(file, HEADER, [trajectory("a", turn(actions=(RecordedAction(environment=BASH),)))])
    with pytest.raises(ConfigError, match=r"1 of 1 actions have no duration.*--assume"):
        files.read(file)
    header, rows = files.read(file, untimed=True)
    assert len(list(rows)) == 1
    honest = msgspec.json.encode(header).replace(b'"untimed":1', b'"untimed":0')
    file.write_bytes(honest + b"\n" + file.read_bytes().split(b"\n", 1)[1])
    with pytest.raises(ConfigError, match=r"line 2: action 0 of turn 0 \(bash\) has no duration"):
        list(files.read(file)[1])
    with_setup = trajectory("a", setup=(RecordedAction(environment=BASH),))
    file.write_bytes(honest + b"\n" + msgspec.json.encode(with_setup))
    with pytest.raises(ConfigError, match="an action of its setup has no duration"):
        list(files.read(file)[1])


@pytest.mark.parametrize(
    ("one", "what"),
    [
        (trajectory("a", turn(11, 10)), "turn 0 adds 11 tokens to a prompt of 10"),
        (trajectory("a", turn(5, 10)), "turn 0 keeps 5 tokens, but its stream 'main' holds 0: .*out of order"),
        (trajectory("a", turn(), turn(1, 17)), "turn 1 keeps 16 tokens, but its stream 'main' holds 15"),
        (
            trajectory("a", turn(), turn(1, 2, stream=StreamId("b"))),
            "turn 1 keeps 1 tokens, but its stream 'b' holds 0",
        ),
        (trajectory("a", turn(cached_tokens=11)), "turn 0 found 11 tokens cached of a prompt of 10"),
        (trajectory("a", turn(prompt_ids=(1, 2))), "turn 0 has 2 ids for 10 new tokens"),
        (trajectory("a", turn(output_ids=(1, 2))), "turn 0 has 2 ids for 5 answered tokens"),
        (trajectory("a", turn(after=(0,))), "turn 0 is said to come after a turn that is not before it"),
        (trajectory("a", started_s=2.0, finished_s=1.0), "it ends before it starts"),
    ],
)
def test_what_can_not_be_true_is_refused_both_ways(tmp_path: Path, one: Recorded, what: str) -> None:
    file = tmp_path / "t.jsonl"
    with pytest.raises(ConfigError, match=f"trajectory 'a': can't be true: {what}"):
        files.write(file, HEADER, [one])
    assert list(tmp_path.iterdir()) == []
    file.write_bytes(msgspec.json.encode(HEADER) + b"\n" + msgspec.json.encode(one) + b"\n")
    with pytest.raises(ConfigError, match=f"t.jsonl, line 2: can't be true: {what}"):
        list(files.read(file)[1])


GOOD = json.loads(msgspec.json.encode(trajectory()))


def changed(**turn: object) -> str:
    return json.dumps({**GOOD, "turns": [{**GOOD["turns"][0], **turn}]})


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("{", "line 3: is no trajectory: .*cut off"),
        (changed(service_s=-1.0) + "\n", r"line 3: is no trajectory: .*>= 0.*turns\[0\].service_s.*make it again"),
        (changed(output_tokens=-1) + "\n", r"line 3: .*>= 0.*turns\[0\].output_tokens"),
        (changed(prompt_tokens=0) + "\n", r"line 3: .*>= 1.*turns\[0\].prompt_tokens"),
        (changed(output_token=1) + "\n", "line 3: .*unknown field `output_token`"),
        (changed(tag="guessed") + "\n", "line 3: .*'guessed'"),
        (changed(actions=[{"service_s": 1.0}]) + "\n", "line 3: .*missing required field `environment`"),
        (json.dumps({"id": "b"}), "line 3: .*missing required field `turns`"),
        (json.dumps(GOOD), "line 3: the trajectory 'a' comes twice"),
    ],
)
def test_a_bad_line_says_where_and_what(tmp_path: Path, line: str, what: str) -> None:
    file = tmp_path / "t.jsonl"
    files.write(file, HEADER, [trajectory()])
    with file.open("a") as stream:
        stream.write(line)
    found = files.read(file)[1]
    assert next(found) == trajectory()
    with pytest.raises(ConfigError, match=f"t.jsonl, {what}"):
        list(found)


def test_headers_that_are_none(tmp_path: Path) -> None:
    for name, content, what in (
        ("none.jsonl", None, "can't be read: No such file"),
        ("empty.jsonl", b"", "is not a Headway trace.*headway import"),
        ("other.jsonl", b'{"sample_id": "x", "turns": []}\n', "is not a Headway trace.*headway import"),
        ("binary.jsonl", b"\xff\xfe\x00", "is not a Headway trace"),
        ("old.jsonl", b'{"format":"headway-trace","version":1}\n', "line 1: its header can't be read: .*`source`"),
        ("new.jsonl", msgspec.json.encode(msgspec.structs.replace(HEADER, version=9)), "version 9; .* reads version 1"),
        ("packed.jsonl.gz", b"no gzip", "is damaged: Not a gzipped file"),
        ("cut.jsonl.gz", gzip.compress(msgspec.json.encode(HEADER) * 9)[:60], "is damaged"),
        ("none.parquet", None, "can't be read: there is no such file"),
        ("wrong.parquet", b"x", "is no Parquet file"),
    ):
        file = tmp_path / name
        if content is not None:
            file.write_bytes(content)
        with pytest.raises(ConfigError, match=what):
            files.read(file)


def test_gzip_that_ends_too_early(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl.gz"
    files.write(file, HEADER, (trajectory(str(n), turn(prompt_ids=tuple(range(10)))) for n in range(20_000)))
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(ConfigError, match=r"is damaged: .*make it again"):
        list(files.read(file)[1])


def test_parquet_files_that_are_no_trace(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = tmp_path / "t.parquet"
    pq.write_table(pa.table({"id": ["a"]}), file)
    with pytest.raises(ConfigError, match="is a Parquet file, but not a Headway trace"):
        files.read(file)
    pq.write_table(pa.table({"id": ["a"]}).replace_schema_metadata({"headway-trace": "{"}), file)
    with pytest.raises(ConfigError, match="its header can't be read"):
        files.read(file)
    known = msgspec.json.encode(HEADER)
    pq.write_table(pa.table({"id": ["a"]}).replace_schema_metadata({"headway-trace": known}), file)
    with pytest.raises(ConfigError, match=r"row 1: is no trajectory: .*`turns`"):
        list(files.read(file)[1])


def test_parquet_says_what_it_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ConfigError, match=r"need pyarrow \(pip install 'headway\[parquet\]'"):
        files.write(tmp_path / "t.parquet", HEADER, [])


def test_where_nothing_can_be_written(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"must end in .jsonl, .jsonl.gz, .parquet"):
        files.write(tmp_path / "t.txt", HEADER, [])
    with pytest.raises(ConfigError, match="can't be written"):
        files.write(tmp_path / "no" / "t.jsonl", HEADER, [])
    (tmp_path / "t.jsonl").write_text("old")

    def breaks() -> Iterator[Recorded]:
        yield trajectory()
        raise ConfigError("the source broke")

    with pytest.raises(ConfigError, match="the source broke"):
        files.write(tmp_path / "t.jsonl", HEADER, breaks())
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("t.jsonl", "old")]


@pytest.mark.parametrize("suffix", files.SUFFIXES)
def test_both_ways_take_one_trajectory_at_a_time(tmp_path: Path, suffix: str) -> None:
    """Memory is bounded by construction: what was passed on is not held, and what is read is not read ahead of need."""
    alive = 0

    class Counted(Recorded, frozen=True, weakref=True):
        pass

    import weakref

    most = 0

    def gone(_: object) -> None:
        nonlocal alive
        alive -= 1

    refs = []

    def source() -> Iterator[Recorded]:
        nonlocal alive, most
        for number in range(3_000):
            one = Counted(id=TrajectoryId(str(number)), turns=(turn(),) * 1)
            refs.append(weakref.ref(one, gone))
            alive += 1
            most = max(most, alive)
            yield one

    file = tmp_path / f"t{suffix}"
    files.write(file, HEADER, source())
    assert most < 5
    assert sum(1 for _ in files.read(file)[1]) == 3_000


def test_reading_needs_no_extra() -> None:
    code = "import sys, headway.traces; assert not any(m.split('.')[0] == 'pyarrow' for m in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_header_names_its_format() -> None:
    assert json.loads(msgspec.json.encode(HEADER))["format"] == "headway-trace"
    assert msgspec.json.decode(msgspec.json.encode(HEADER), type=Trace) == HEADER
