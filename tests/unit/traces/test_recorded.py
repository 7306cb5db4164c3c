"""Files of recorded trajectories become scripts; what nobody measured is counted."""

import json
from pathlib import Path

import pytest

from headway.core.units import SECOND, EnvironmentId, GroupId
from headway.errors import ConfigError
from headway.traces import read_traces


def turn(prompt: int, output: int, seconds: float | None = None, name: str | None = "bash", **more: object) -> dict:
    action = None if name is None else {"name": name, "seconds": seconds, "response_tokens": 3}
    return {"prompt_tokens": prompt, "output_tokens": output, "llm_seconds": None, "action": action, **more}


def write(folder: Path, *lines: object) -> Path:
    file = folder / "some.jsonl"
    file.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines))
    return file


def test_prompts_become_what_each_adds(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        {
            "sample_id": "a",
            "group": "g",
            "other": 1,
            "turns": [turn(100, 10, 2.5), turn(150, 5, 1.0, "web"), turn(170, 4, name=None)],
        },
        "",
        {"sample_id": "b", "turns": [turn(7, 0, name=None)]},
    )
    found = read_traces(file)
    first, second = found.scripts
    assert (first.trajectory, first.group, second.group) == ("a", GroupId("g"), None)
    assert [(s.new_tokens, s.output_tokens) for s in first.steps] == [(100, 10), (40, 5), (15, 4)]
    assert first.prompts() == [100, 150, 170]
    actions = [(s.action.environment, s.action.service / SECOND) for s in first.steps if s.action]
    assert actions == [("bash", 2.5), ("web", 1.0)]
    assert (found.actions, found.assumed) == (2, 0)
    assert second.steps[0].output_tokens == 1
    (same, _) = read_traces(file, environment=EnvironmentId("all")).scripts
    assert {s.action.environment for s in same.steps if s.action} == {"all"}


def test_a_shorter_prompt_drops_reasoning_a_much_shorter_one_is_a_compaction(tmp_path: Path) -> None:
    turns = [turn(100, 50, 1.0), turn(130, 10, 1.0), turn(60, 5, 1.0), turn(80, 5, name=None)]
    (script,) = read_traces(write(tmp_path, {"sample_id": "a", "turns": turns})).scripts
    assert [(s.new_tokens, s.fresh) for s in script.steps] == [(100, False), (1, False), (60, True), (15, False)]
    assert script.prompts() == [100, 151, 60, 80]


@pytest.mark.parametrize(
    ("turns", "seconds"),
    [
        ([turn(10, 5, 4.0), turn(30, 5, 2.0), turn(50, 5), turn(90, 5, name=None)], [4.0, 2.0, 3.0]),
        ([turn(10, 5), turn(50, 5, name=None)], [1.0]),
        ([turn(10, 100, cycle_seconds=7.0), turn(150, 5, name=None)], [5.0]),
        ([{**turn(10, 100, cycle_seconds=7.0), "llm_seconds": 6.5}, turn(150, 5, name=None)], [0.5]),
        ([turn(10, 900, cycle_seconds=7.0), turn(950, 5, name=None)], [1e-9]),
    ],
)
def test_what_nobody_measured_is_assumed_and_counted(tmp_path: Path, turns: list[dict], seconds: list[float]) -> None:
    found = read_traces(write(tmp_path, {"sample_id": "a", "turns": turns}))
    assert [s.action.service / SECOND for s in found.scripts[0].steps if s.action] == seconds
    assert found.assumed == 1


@pytest.mark.parametrize(
    ("lines", "what"),
    [
        (["{"], "line 1: is no recorded trajectory"),
        ([{"sample_id": "a", "turns": [turn(1, 1, name=None)]}, {"turns": []}], "line 2: .*sample_id"),
        ([{"sample_id": "a", "turns": []}], "line 1: the trajectory has no turns"),
        ([{"sample_id": "a", "turns": [turn(5, 1, -1.0)]}], "line 1: turn 0 has a negative"),
        ([{"sample_id": "a", "turns": [turn(0, 1)]}], "empty prompt"),
        ([{"sample_id": "a", "turns": [turn(1, 1, name=None)]}] * 2, "the sample id 'a' comes twice"),
        ([""], "holds no trajectory"),
    ],
)
def test_a_file_that_can_not_be_used_says_where(tmp_path: Path, lines: list[object], what: str) -> None:
    with pytest.raises(ConfigError, match=what):
        read_traces(write(tmp_path, *lines))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="can't be read"):
        read_traces(tmp_path / "none.jsonl")
