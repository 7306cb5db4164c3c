"""The prompt of a trajectory as it grows, in OpenAI's messages."""

import itertools
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from headway.suites.bfcl.simulator import Simulator, parse_call
from headway.suites.bfcl.tasks import Task
from headway.suites.bfcl.tools import Tool
from headway.suites.bfcl.tools import strict as strict_tool

CLOSING = "That is done. Is there anything else?"
"""What ``scripted`` says when a user turn is over; the benchmark has no official words for it."""

_CHARS_PER_TOKEN = 4  # about English text and common tokenizers; a convention, not a measurement


class Conversation:
    """Messages, and the tools that the model may use so far; ``strict`` bounds what it may fill in."""

    def __init__(self, tools: Sequence[Tool], *, strict: bool = False) -> None:
        self.messages: list[Mapping[str, Any]] = []
        self.tools: list[Tool] = []
        self._strict = strict
        self._add(tools)
        self._ids = itertools.count()

    def ask(self, text: str, added: Sequence[Tool] = ()) -> None:
        """The user speaks; new tools may appear with it."""
        self._add(added)
        self.messages.append({"role": "user", "content": text})

    def _add(self, tools: Sequence[Tool]) -> None:
        self.tools.extend(strict_tool(tool) if self._strict else tool for tool in tools)

    def answer(self, text: str) -> None:
        """The assistant speaks."""
        self.messages.append({"role": "assistant", "content": text})

    def call(self, calls: Sequence[tuple[str, str]], results: Sequence[str]) -> None:
        """The assistant calls functions (name, arguments as JSON), the tools answer, in the same order."""
        made = [
            {"id": f"call_{next(self._ids)}", "type": "function", "function": {"name": name, "arguments": arguments}}
            for name, arguments in calls
        ]
        self.messages.append({"role": "assistant", "content": "", "tool_calls": made})
        self.messages.extend(
            {"role": "tool", "tool_call_id": call["id"], "content": result}
            for call, result in zip(made, results, strict=True)
        )

    @property
    def characters(self) -> int:
        """Size of messages and tools as JSON, near to what a chat template makes of them."""
        return len(msgspec.json.encode(self.messages)) + len(msgspec.json.encode(self.tools))


def official_call(line: str, tools: Sequence[Tool]) -> tuple[str, str]:
    """An official call as name and JSON arguments; values given by place take their names from the tool."""
    call = parse_call(line)
    if call is None:
        return line, "{}"  # not reached with the pinned data; shown to the model as it is
    name, values, named = call
    words = next((list(t["function"]["parameters"]["properties"]) for t in tools if t["function"]["name"] == name), [])
    return name, json.dumps({**dict(zip(words, values, strict=False)), **named}, ensure_ascii=False)


def call_tokens(name: str, arguments: str) -> int:
    """How many tokens ``scripted`` lets the engine generate for a call: its text at four characters a token.

    The same for every engine and policy, so that comparisons are paired.
    """
    return math.ceil(len(f'{{"name": "{name}", "arguments": {arguments}}}') / _CHARS_PER_TOKEN)


def closing_tokens() -> int:
    """How many tokens ``scripted`` lets the engine generate to close a user turn."""
    return math.ceil(len(CLOSING) / _CHARS_PER_TOKEN)


def official_conversation(task: Task, *, strict: bool = False) -> Conversation:
    """The whole conversation as ``scripted`` would have it, played without an engine.

    ``strict``: with the longer tools of the model agent's named choice.
    """
    conversation, simulator = Conversation(task.tools, strict=strict), Simulator()
    for turn in task.turns:
        conversation.ask(turn.text, turn.added)
        for line in turn.official:
            outcome = simulator.execute(task, [line])
            conversation.call([official_call(line, conversation.tools)], outcome.results)
        conversation.answer(CLOSING)
    return conversation
