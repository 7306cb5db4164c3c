"""Task files: one JSON object a line, and an agent that works on each with a shell, if it gets one.

A line: ``{"id": "t1", "prompt": "..."}`` or ``"messages": [...]``; optional ``group``, ``hint``, ``max_turns``,
``max_tokens``. Where the batch has an environment, the agent offers the tool ``bash`` and runs what the model asks for.
"""

import codecs
import difflib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from headway.batch import Sample, Trajectory
from headway.core.units import Nanos
from headway.errors import ConfigError


class Task(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One line of a task file."""

    id: str
    prompt: str | None = None
    messages: list[dict[str, Any]] | None = None
    group: str | None = None
    hint: float | None = None
    max_turns: int = 30
    max_tokens: int | None = None

    def conversation(self) -> list[dict[str, Any]]:
        """The messages to begin with."""
        return list(self.messages) if self.messages else [{"role": "user", "content": self.prompt or ""}]


class Outcome(msgspec.Struct, frozen=True):
    """How a task ended: the last text, the whole conversation, how many turns and actions it took."""

    text: str
    turns: int
    actions: int
    messages: list[dict[str, Any]]


BASH = {
    "type": "function",
    "function": {
        "name": "bash",
        "description": "Run a command in a shell and return what it prints.",
        "parameters": {
            "type": "object",
            "properties": {"command": {"type": "string"}},
            "required": ["command"],
        },
    },
}


def load(path: Path) -> list[Sample]:
    """Read a task file. Raises: ``ConfigError`` that names the line and what is wrong with it."""
    try:
        lines = path.read_bytes().removeprefix(codecs.BOM_UTF8).split(b"\n")
    except OSError as error:
        raise ConfigError(f"can't be read: {error.strerror}", where=str(path)) from error
    found: dict[str, int] = {}
    samples = []
    for number, line in enumerate(lines, 1):
        if line.strip():
            task = _parse(line, f"{path}, line {number}")
            if task.id in found:
                what = f"the sample id {task.id!r} stands on line {found[task.id]} already"
                raise ConfigError(what, where=f"{path}, line {number}", hint="every sample needs an id of its own")
            found[task.id] = number
            samples.append(Sample(id=task.id, data=task, group=task.group, hint=task.hint))
    if not samples:
        raise ConfigError("has no tasks", where=str(path))
    return samples


def _parse(line: bytes, where: str) -> Task:
    try:
        task = msgspec.json.decode(line, type=Task)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigError(_what(str(error)), where=where) from error
    if not task.id:
        raise ConfigError("the id is empty", where=where)
    if (task.prompt is None) == (not task.messages):
        raise ConfigError("needs either a prompt or messages", where=where)
    if task.max_turns < 1:
        raise ConfigError(f"max_turns must be at least 1, is {task.max_turns}", where=where)
    return task


def _what(message: str) -> str:
    if "unknown field" in message:
        unknown = message.split("`")[1]
        near = difflib.get_close_matches(unknown, Task.__struct_fields__, n=1, cutoff=0.0)[0]
        return f"unknown key {unknown!r} (did you mean {near!r}?)"
    return message.replace("Object missing", "missing").replace("Expected", "expected")


class ShellAgent(msgspec.Struct, frozen=True):
    """Asks the model until it answers without a tool call; runs its commands in ``environment``, if there is one."""

    environment: str | None = None
    choice: str = "auto"

    async def solve(self, sample: Sample, trajectory: Trajectory) -> Outcome:
        """Work on one task."""
        task: Task = sample.data
        messages, actions, text, turns = task.conversation(), 0, "", 0
        body: dict[str, Any] = {} if task.max_tokens is None else {"max_tokens": task.max_tokens}
        if self.environment is not None:
            body |= {"tools": [BASH], "tool_choice": self.choice}
        while turns < task.max_turns:
            turns += 1
            answer = await trajectory.chat(messages, **body)
            messages.append(dict(answer.message))
            text = answer.text
            if self.environment is None or not answer.tool_calls:
                break
            for call in answer.tool_calls:
                content = await self._run(trajectory, call["function"])
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": content})
                actions += 1
        return Outcome(text, turns, actions, messages)

    async def _run(self, trajectory: Trajectory, function: dict[str, Any]) -> str:
        try:
            arguments = msgspec.json.decode(function.get("arguments") or "{}")
            command = str(arguments["command"])
        except (msgspec.DecodeError, KeyError, TypeError):
            return "error: the arguments must be an object with a command"
        try:
            async with trajectory.action(self.environment) as place:
                done = await place.run(["bash", "-c", command])
        except TimeoutError as error:
            return f"error: {error}"
        ending = "\n[timed out]" if done.timed_out else f"\n[exit code {done.exit_code}]" if done.exit_code else ""
        return f"{done.stdout}{done.stderr}{ending}"


async def too_long(samples: Sequence[Sample], engines: Sequence[Any]) -> str | None:
    """Say which first prompt no engine can take, judging by the engine's own count; None if all fit.

    Only prompts with more bytes than the context has tokens can be too long; only those are counted.
    """
    limits = [(engine, (await engine.join(Nanos(0))).max_context) for engine in engines]
    if not limits or any(limit is None for _, limit in limits):
        return None
    engine, limit = max(limits, key=lambda pair: pair[1])
    for sample in samples:
        task: Task = sample.data
        if len(msgspec.json.encode(task.conversation())) > limit:
            tokens = await engine.tokenize(task.conversation())
            if tokens is not None and tokens >= limit:
                return f"the first prompt of {task.id!r} has {tokens} tokens; the model's context holds {limit}"
    return None
