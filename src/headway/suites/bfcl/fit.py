"""Which tasks an engine's context can hold, told before the run."""

import math
from collections.abc import Sequence

import msgspec

from headway.core.units import Tokens
from headway.suites.bfcl.conversation import official_conversation
from headway.suites.bfcl.tasks import Task

CHARS_PER_TOKEN = 3.0
"""Characters of a prompt (as JSON) to a token, on the low side: better to leave a task out than to lose it."""


class Fit(msgspec.Struct, frozen=True):
    """Tasks told apart by size. ``line`` says what was left out and why, for people; empty when nothing was."""

    fitting: tuple[Task, ...]
    too_long: tuple[Task, ...]
    line: str = ""


def estimated_tokens(task: Task, *, strict: bool = False, chars_per_token: float = CHARS_PER_TOKEN) -> Tokens:
    """Size of a task's whole official conversation: an estimate of the longest prompt that it will come to."""
    return Tokens(math.ceil(official_conversation(task, strict=strict).characters / chars_per_token))


def fit(
    tasks: Sequence[Task],
    max_context: Tokens | None,
    *,
    strict: bool = False,
    reserve: int = 256,
    chars_per_token: float = CHARS_PER_TOKEN,
) -> Fit:
    """Tell tasks that fit a context from those that don't.

    Args:
        tasks: what is to be run.
        max_context: tokens of prompt and answer that the engine takes; None when it does not say, so all fit.
        strict: count the longer tools of ``ModelAgent(choice="named")``.
        reserve: tokens kept free for answers that are longer than the official ones.
        chars_per_token: of the engine's tokenizer.
    """
    if max_context is None:
        return Fit(tuple(tasks), ())
    sizes = {
        task.id: estimated_tokens(task, strict=strict, chars_per_token=chars_per_token) + reserve for task in tasks
    }
    fitting = tuple(task for task in tasks if sizes[task.id] <= max_context)
    too_long = tuple(task for task in tasks if sizes[task.id] > max_context)
    if not too_long:
        return Fit(fitting, ())
    longest = max(too_long, key=lambda task: sizes[task.id])
    line = (
        f"{len(too_long)} of {len(tasks)} tasks left out: they need more than the engine's context of {max_context} "
        f"tokens (the longest, {longest.id}, about {sizes[longest.id]}); an engine with a longer context runs them"
    )
    return Fit(fitting, too_long, line)
