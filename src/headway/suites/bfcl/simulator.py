"""The benchmark's APIs, executed for real: one set of instances per trajectory.

Calls are lines of Python (``cd(folder='temp')``). The official executor evaluates them in this process, so a line
is checked first: it must be one call, of a function that the task's APIs offer, with nothing but literals in it.
All of it is synchronous and belongs to one thread, as the benchmark's own global state does.
"""

import ast
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from headway.suites.bfcl.distribution import official
from headway.suites.bfcl.tasks import Task
from headway.suites.bfcl.tools import tool_name

OWNER = "headway"
"""What the official code calls the model; the names of its global instances begin with it."""

_MOST_DIGITS = 1_000
# Functions of MathAPI that work as long as an argument says: the argument's name and place.
_DIGITS = {
    "logarithm": ("precision", 2),
    "power": ("exponent", 1),
    "round_number": ("decimal_places", 1),
    "square_root": ("precision", 1),
}


class Outcome(msgspec.Struct, frozen=True):
    """What the calls of one action gave.

    ``results``: one text per call that was asked for. ``executed``: the calls that reached the simulators; a
    refused call is not among them and has the reason for its result.
    """

    results: tuple[str, ...]
    executed: tuple[str, ...]


class Simulator:
    """The APIs of one trajectory; their state begins with the first call."""

    def __init__(self) -> None:
        self._instances: dict[str, object] = {}

    def execute(self, task: Task, calls: Sequence[str]) -> Outcome:
        """Run calls in order against this trajectory's state. A call that fails gives a text that says so."""
        refused = [refusal(task, call) for call in calls]
        executed = tuple(call for call, reason in zip(calls, refused, strict=True) if reason is None)
        with borrowed_globals(self._instances) as executor:
            results, _ = executor.execute_multi_turn_func_call(
                list(executed), task.config, list(task.classes), OWNER, task.id, long_context=task.long_context
            )
        given = iter(results)
        return Outcome(tuple(next(given) if reason is None else reason for reason in refused), executed)


@contextmanager
def borrowed_globals(instances: dict[str, object]) -> Iterator[Any]:
    """Lend instances to the official executor, which keeps them as globals of its module, and take them back."""
    executor = official("eval_checker.multi_turn_eval.multi_turn_utils")
    space = vars(executor)
    space.update(instances)
    try:
        yield executor
    finally:
        instances.update({name: space.pop(name) for name in list(space) if name.startswith(f"{OWNER}_")})


def call_line(name: str, arguments: Mapping[str, Any]) -> str:
    """Write a call the way the official executor reads it."""
    return f"{name}({','.join(f'{key}={value!r}' for key, value in arguments.items())})"


def parse_call(line: str) -> tuple[str, list[Any], dict[str, Any]] | None:
    """Read a line as function, values by place and values by name; None when it is no call of literals."""
    try:
        node = ast.parse(line, mode="eval").body
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            return None
        values = [ast.literal_eval(value) for value in node.args]
        named = {word.arg: ast.literal_eval(word.value) for word in node.keywords if word.arg is not None}
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        return None
    return (node.func.id, values, named) if len(named) == len(node.keywords) else None


def refusal(task: Task, line: str) -> str | None:
    """Why a call must not be evaluated in this process, as its result; None when it may.

    Refused are lines that are no call of a function of the task's APIs with literal arguments, and sums that would
    keep the process busy for hours: those that ask for more than 1000 digits.
    """
    call = parse_call(line)
    if call is None:
        return "Error during execution: not a function call with plain values"
    name, values, named = call
    offered = (*task.tools, *(tool for turn in task.turns for tool in turn.added))
    if name not in {tool_name(tool) for tool in offered}:
        return f"Error during execution: name '{name}' is not defined"
    if name in _DIGITS:
        word, place = _DIGITS[name]
        digits = named.get(word, values[place] if place < len(values) else 0)
        if not isinstance(digits, int | float) or abs(digits) > _MOST_DIGITS:
            return f"Error during execution: {word} must be a number up to {_MOST_DIGITS}"
    return None
