"""Recorded trajectories from a file: one JSON object a line, with numbers only.

``{"sample_id": ..., "turns": [{"prompt_tokens", "output_tokens", "llm_seconds", "action": {"name", "seconds"},
"cycle_seconds"}]}``; other keys are ignored. ``action`` may be null, ``seconds`` and ``llm_seconds`` too.
``cycle_seconds``: from the start of a turn to the start of the next, where the two could not be told apart.

Prompts are whole prompts: what the context grows by is the difference. A prompt a little shorter than the context
before (agents drop their reasoning) counts as one new token; one much shorter is a compaction, and a fresh context.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import msgspec

from headway.core.units import EnvironmentId, GroupId, Nanos, Tokens, TrajectoryId, nanos
from headway.errors import ConfigError
from headway.traces.script import Script, ScriptedAction, Step

_COMPACTED = 0.75
"""A prompt below this share of the context before it is a compaction."""

_SECONDS_PER_TOKEN = 0.02
"""What inference is taken for where only a whole cycle was measured: 50 tokens a second."""

_UNKNOWN = 1.0
"""Seconds of an action where a file measures none at all."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """Trajectories of a file. ``assumed``: actions, of ``actions``, whose duration nobody measured."""

    scripts: tuple[Script, ...]
    actions: int
    assumed: int


class _Action(msgspec.Struct, frozen=True):
    name: str = "environment"
    seconds: float | None = None


class _Turn(msgspec.Struct, frozen=True):
    prompt_tokens: int
    output_tokens: int
    llm_seconds: float | None = None
    action: _Action | None = None
    cycle_seconds: float | None = None


class _Line(msgspec.Struct, frozen=True):
    sample_id: str
    turns: list[_Turn]
    group: str | None = None


def read_traces(path: str | os.PathLike[str], *, environment: EnvironmentId | None = None) -> Recorded:
    """Read a file of traces. ``environment``: where all actions run; None: each in one of its action's name.

    An action's unknown duration is its cycle less inference (measured, or guessed from the answer's length), else the
    median of those that are known; all of these count as assumed. Raises: ``ConfigError``.
    """
    file = Path(path)
    lines = list(_lines(file))
    known = [t.action.seconds for line in lines for t in line.turns if t.action and t.action.seconds is not None]
    usual = median(known) if known else _UNKNOWN
    scripts, names, assumed = [], set[str](), 0
    for number, line in enumerate(lines, 1):
        if line.sample_id in names:
            raise ConfigError(f"the sample id {line.sample_id!r} comes twice", where=f"{file}, line {number}")
        names.add(line.sample_id)
        group = None if line.group is None else GroupId(line.group)
        steps = tuple(grow(_step(turn, environment, usual) for turn in line.turns))
        scripts.append(Script(TrajectoryId(line.sample_id), steps, group))
        assumed += sum(turn.action is not None and turn.action.seconds is None for turn in line.turns)
    return Recorded(tuple(scripts), sum(script.actions for script in scripts), assumed)


def grow(turns: Iterator[tuple[int, int, ScriptedAction | None]]) -> Iterator[Step]:
    """Turn whole prompts (with outputs and actions) into what each adds to the context."""
    context = 0
    for prompt, output, action in turns:
        answer = Tokens(max(1, output))
        fresh = bool(context) and prompt < _COMPACTED * context
        new = max(1, prompt if fresh else prompt - context)
        context = new + answer + (0 if fresh else context)
        yield Step(Tokens(new), answer, action, fresh)


def _step(turn: _Turn, environment: EnvironmentId | None, usual: float) -> tuple[int, int, ScriptedAction | None]:
    if turn.action is None:
        return turn.prompt_tokens, turn.output_tokens, None
    seconds = turn.action.seconds
    if seconds is None and turn.cycle_seconds is not None:
        inference = turn.output_tokens * _SECONDS_PER_TOKEN if turn.llm_seconds is None else turn.llm_seconds
        seconds = max(0.0, turn.cycle_seconds - inference)
    name = EnvironmentId(turn.action.name) if environment is None else environment
    service = max(Nanos(1), nanos(usual if seconds is None else seconds))
    return turn.prompt_tokens, turn.output_tokens, ScriptedAction(name, service)


def _lines(file: Path) -> Iterator[_Line]:
    decode = msgspec.json.Decoder(_Line).decode
    try:
        text = file.read_bytes()
    except OSError as error:
        raise ConfigError(f"can't be read: {error.strerror}", where=str(file)) from error
    found = False
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        where = f"{file}, line {number}"
        try:
            one = decode(line)
        except msgspec.MsgspecError as error:
            raise ConfigError(f"is no recorded trajectory: {error}", where=where) from error
        _check(one.turns, where)
        found = True
        yield one
    if not found:
        raise ConfigError("holds no trajectory", where=str(file), hint="one JSON object a line, with its turns")


def _check(turns: Sequence[_Turn], where: str) -> None:
    if not turns:
        raise ConfigError("the trajectory has no turns", where=where)
    for place, turn in enumerate(turns):
        times = (turn.llm_seconds, turn.cycle_seconds, None if turn.action is None else turn.action.seconds)
        if turn.prompt_tokens < 1 or turn.output_tokens < 0 or any(t is not None and t < 0 for t in times):
            raise ConfigError(f"turn {place} has a negative length or duration, or an empty prompt", where=where)
