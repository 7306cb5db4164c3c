"""Task files, and the agent that works on them with a shell."""

import json
from pathlib import Path
from typing import Any

import pytest
from fake_engine import FakeEngine, calls, says
from fakes import ScriptedEngine, answer

from headway import Batch, Sample, Slots
from headway.adapters.environments import InProcess
from headway.adapters.environments.limits import Completed
from headway.core.commands import StartTurn
from headway.errors import ConfigError
from headway.ports import TurnAnswer, TurnRequest
from headway.suites.tasks import Outcome, ShellAgent, Task, load, too_long

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def written(folder: Path, content: bytes | str) -> Path:
    path = folder / "tasks.jsonl"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_a_line_is_a_task(tmp_path: Path) -> None:
    full = {"id": "b", "messages": [{"role": "user", "content": "hi"}], "group": "g", "hint": 3, "max_turns": 2}
    [first, second] = load(written(tmp_path, '{"id": "a", "prompt": "do it"}\n\n' + json.dumps(full) + "\n"))
    assert first == Sample("a", Task("a", "do it"))
    assert first.data.conversation() == [{"role": "user", "content": "do it"}]
    assert (second.group, second.hint, second.data.max_turns) == ("g", 3, 2)
    assert second.data.conversation() == full["messages"]


@pytest.mark.parametrize("odd", ["\u2028", "\x85", "\u2029"])
def test_what_looks_like_the_end_of_a_line_to_some_is_none(tmp_path: Path, odd: str) -> None:
    """JSON lets these stand in a string as they are."""
    [sample] = load(written(tmp_path, f'{{"id": "a", "prompt": "x{odd}y"}}\r\n'))
    assert sample.data.prompt == f"x{odd}y"


def test_a_byte_order_mark_is_no_mistake(tmp_path: Path) -> None:
    assert load(written(tmp_path, b'\xef\xbb\xbf{"id": "a", "prompt": "x"}'))[0].id == "a"


def test_text_that_is_not_utf_8_is_named_by_its_line(tmp_path: Path) -> None:
    path = written(tmp_path, b'{"id": "a", "prompt": "x"}\n{"id": "b", "prompt": "\xff"}')
    with pytest.raises(ConfigError, match=r"tasks\.jsonl, line 2: Invalid UTF-8"):
        load(path)


class Shell:
    """A place that notes its commands and answers them as it is told."""

    def __init__(self, *, fails: Exception | None = None, exit_code: int | None = 0, stderr: str = "") -> None:
        self.commands: list[list[str]] = []
        self.fails = fails
        self.result = Completed(exit_code, "hello\n", stderr, exit_code is None, False, 0.1)

    async def run(self, command: list[str]) -> Completed:
        self.commands.append(command)
        if self.fails is not None:
            raise self.fails
        return self.result


async def solved(messages: list[Any], shell: Shell | None = None, **task: Any) -> tuple[Outcome, list[Any]]:
    """Play the messages of a model to the agent; what came of it, and the bodies that it sent."""

    async def play(start: StartTurn, request: TurnRequest) -> TurnAnswer:
        return TurnAnswer({"choices": [{"message": messages[start.turn]}]}, 10, 2, 1_000_000)  # type: ignore[arg-type]

    engine = ScriptedEngine(play=play)
    places = {} if shell is None else {"bash": Slots(1, InProcess("bash", lambda _: shell))}
    sample = Sample("a", Task("a", "do it", **task))
    [result] = await Batch([engine], places).run(ShellAgent(None if shell is None else "bash").solve, [sample])
    assert result.failure is None
    return result.value, [request.body for request in engine.requests]


async def test_without_a_shell_one_answer_is_all() -> None:
    outcome, bodies = await solved([says("done")], max_tokens=9)
    assert (outcome.text, outcome.turns, outcome.actions) == ("done", 1, 0)
    assert bodies[0]["max_tokens"] == 9
    assert "tools" not in bodies[0]


async def test_with_a_shell_it_runs_what_the_model_asks_for() -> None:
    shell = Shell()
    outcome, bodies = await solved([calls("ls"), calls("pwd", 1), says("done")], shell)
    assert shell.commands == [["bash", "-c", "ls"], ["bash", "-c", "pwd"]]
    assert (outcome.text, outcome.turns, outcome.actions) == ("done", 3, 2)
    assert bodies[1]["messages"][-1] == {"role": "tool", "tool_call_id": "c0", "content": "hello\n"}
    assert bodies[0]["tools"][0]["function"]["name"] == "bash"
    assert [message["role"] for message in outcome.messages] == [
        "user",
        "assistant",
        "tool",
        "assistant",
        "tool",
        "assistant",
    ]


@pytest.mark.parametrize(
    ("shell", "content"),
    [
        (Shell(exit_code=3, stderr="no"), "hello\nno\n[exit code 3]"),
        (Shell(exit_code=None), "hello\n\n[timed out]"),
        (
            Shell(fails=TimeoutError("the action took longer than its 5 s")),
            "error: the action took longer than its 5 s",
        ),
    ],
)
async def test_what_a_command_did_goes_back_to_the_model(shell: Shell, content: str) -> None:
    outcome, _ = await solved([calls("x"), says("done")], shell)
    assert outcome.messages[2]["content"] == content


@pytest.mark.parametrize("arguments", ["", "[]", '{"cmd": "ls"}', "{", None])
async def test_arguments_that_make_no_sense_are_told_to_the_model(arguments: str | None) -> None:
    call: Any = calls("x")
    call["tool_calls"][0]["function"]["arguments"] = arguments
    outcome, _ = await solved([call, says("done")], shell := Shell())
    assert outcome.messages[2]["content"] == "error: the arguments must be an object with a command"
    assert not shell.commands


async def test_turns_are_bounded() -> None:
    outcome, _ = await solved([calls("x")] * 3, Shell(), max_turns=3)
    assert (outcome.turns, outcome.actions, outcome.text) == (3, 3, "")


async def test_a_prompt_is_too_long_by_the_engines_own_count() -> None:
    small, large = FakeEngine(max_context=100), FakeEngine(max_context=500)
    samples = [Sample(name, Task(name, "x" * length)) for name, length in (("a", 10), ("b", 300), ("c", 3000))]
    async with small.serving(), large.serving():
        from headway.adapters.engines import connect

        engines = [connect(small.url), connect(large.url)]
        assert await too_long(samples[:2], engines) is None
        wrong = await too_long(samples, engines)
        for engine in engines:
            await engine.close()
    assert wrong is not None
    assert wrong.startswith("the first prompt of 'c' has ")
    assert wrong.endswith(" tokens; the model's context holds 500")


async def test_where_no_context_is_known_nothing_is_too_long() -> None:
    samples = [Sample("a", Task("a", "x" * 10_000))]
    assert await too_long(samples, []) is None
    assert await too_long(samples, [ScriptedEngine()]) is None
    counted = ScriptedEngine(geometry={"max_context": 100})
    counted.tokenize = _cannot_count  # type: ignore[attr-defined]
    assert await too_long(samples, [counted]) is None
    assert answer().text == "hi"


async def _cannot_count(prompt: Any) -> None:
    return None
