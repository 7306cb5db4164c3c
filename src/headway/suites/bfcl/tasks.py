"""The tasks: what the user says turn by turn, which tools there are, and what the official answer calls."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from headway.errors import BoundaryError, ConfigError
from headway.suites.bfcl.distribution import activate
from headway.suites.bfcl.tools import Tool, openai_tool

_T = TypeVar("_T")

CATEGORIES = ("base", "miss_func", "miss_param", "long_context")

_MORE_TOOLS = "I have updated some more functions you can choose from. What about now?"
_DOCS = {
    "GorillaFileSystem": "gorilla_file_system.json",
    "MathAPI": "math_api.json",
    "MessageAPI": "message_api.json",
    "TicketAPI": "ticket_api.json",
    "TradingBot": "trading_bot.json",
    "TravelAPI": "travel_booking.json",
    "TwitterAPI": "posting_api.json",
    "VehicleControlAPI": "vehicle_control.json",
}


class UserTurn(msgspec.Struct, frozen=True):
    """One message of the user. ``added``: tools that appear with it. ``official``: the calls that answer it."""

    text: str
    official: tuple[str, ...]
    added: tuple[Tool, ...] = ()


class Task(msgspec.Struct, frozen=True):
    """One multi-turn task. ``tools`` are those of its start; ``config`` is the state its APIs start in."""

    id: str
    category: str
    turns: tuple[UserTurn, ...]
    tools: tuple[Tool, ...]
    config: Mapping[str, Any]
    classes: tuple[str, ...]

    @property
    def long_context(self) -> bool:
        """Whether the simulators pad their state with much that does not matter."""
        return self.category == "long_context"

    @property
    def official_actions(self) -> int:
        """Calls of the official answer: the length of the chain that ``scripted`` plays."""
        return sum(len(turn.official) for turn in self.turns)


class _Question(msgspec.Struct, frozen=True):
    id: str
    question: list[list[dict[str, str]]]
    initial_config: dict[str, Any]
    involved_classes: tuple[str, ...]
    missed_function: dict[str, list[str]] = {}


class _Answer(msgspec.Struct, frozen=True):
    id: str
    ground_truth: list[tuple[str, ...]]


class _Doc(msgspec.Struct, frozen=True):
    name: str
    description: str
    parameters: dict[str, Any]


def load_tasks(categories: Sequence[str] = CATEGORIES, *, ids: Sequence[str] = ()) -> list[Task]:
    """Load tasks, a round over the categories at a time, so that any first n of them is a fair mixture.

    Args:
        categories: of ``CATEGORIES``.
        ids: only these tasks, in this order; they bring their own categories.

    Raises: ``ConfigError`` for a category or id that does not exist.
    """
    wanted = {_category(name) for name in ids} if ids else dict.fromkeys(categories)
    for category in wanted:
        if category not in CATEGORIES:
            raise ConfigError(
                f"unknown category {category!r}", where="suite bfcl", hint=f"choose from {', '.join(CATEGORIES)}"
            )
    folder = activate() / "bfcl_eval" / "data"
    docs = {name: _read(folder / "multi_turn_func_doc" / file, _Doc) for name, file in _DOCS.items()}
    rounds = zip_longest(*(_category_tasks(folder, category, docs) for category in wanted))
    tasks = [task for task in chain.from_iterable(rounds) if task is not None]
    return _pick(tasks, ids) if ids else tasks


def _pick(tasks: Sequence[Task], ids: Sequence[str]) -> list[Task]:
    known = {task.id: task for task in tasks}
    for name in ids:
        if name not in known:
            raise ConfigError(f"there is no task {name!r}", where="suite bfcl", hint="e.g. multi_turn_base_0")
    return [known[name] for name in ids]


def _category(task: str) -> str:
    return task.removeprefix("multi_turn_").rpartition("_")[0]


def _category_tasks(folder: Path, category: str, docs: Mapping[str, list[_Doc]]) -> Iterator[Task]:
    file = f"BFCL_v4_multi_turn_{category}.json"
    answers = {answer.id: answer.ground_truth for answer in _read(folder / "possible_answer" / file, _Answer)}
    for question in _read(folder / file, _Question):
        yield _task(question, category, answers[question.id], docs)


def _task(
    question: _Question, category: str, answer: Sequence[tuple[str, ...]], docs: Mapping[str, list[_Doc]]
) -> Task:
    tools = {
        doc.name: openai_tool(doc.name, doc.description, doc.parameters)
        for involved in question.involved_classes
        for doc in docs[involved]
    }
    added = {
        int(turn): tuple(tools.pop(name) for name in names if name in tools)
        for turn, names in question.missed_function.items()
    }
    turns = tuple(
        UserTurn(messages[0]["content"] if messages else _MORE_TOOLS, official, added.get(index, ()))
        for index, (messages, official) in enumerate(zip(question.question, answer, strict=True))
    )
    return Task(
        id=question.id,
        category=category,
        turns=turns,
        tools=tuple(tools.values()),
        config=question.initial_config,
        classes=question.involved_classes,
    )


def _read(path: Path, kind: type[_T]) -> list[_T]:
    try:
        return msgspec.json.Decoder(kind).decode_lines(path.read_bytes())
    except (OSError, msgspec.DecodeError) as problem:
        raise BoundaryError(f"{path} is damaged: delete its folder and try again ({problem})") from problem
