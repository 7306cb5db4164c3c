"""What a batch asks of an engine, read off a recorded run or a trace: the planner's workload, and its time model."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from headway import journal
from headway.core.commands import Command
from headway.core.facts import (
    ActionFinished,
    CoordinatorStarted,
    Fact,
    TrajectoryAbandoned,
    TrajectoryFinished,
    TurnFinished,
    TurnRequested,
)
from headway.core.progress import Progress, TurnSample
from headway.core.units import Nanos, StreamId, TrajectoryId
from headway.errors import ConfigError
from headway.hybrid.timing import Fitted
from headway.hybrid.workload import TurnRecord, Workload, from_turns
from headway.latency import FEWEST, fit
from headway.traces import Script, read_traces


def profile(path: Path) -> Workload:
    """The workload of a journal (``.headway``) or of a trace (JSONL, one trajectory a line).

    An action's time is from the end of a turn to the next request of its stream: the wait for a slot belongs to it,
    since the context is held meanwhile.

    Raises:
        ConfigError: no such file, not one of these, or nothing finished in it.
    """
    if path.suffix == journal.SUFFIX:
        rows = ((row.fact, row.commands) for row in journal.read(path).rows)
        return from_turns(turn_records(rows), source=str(path))
    found = read_traces(path)
    guessed = f", {found.assumed} of {found.actions} action times assumed" if found.assumed else ""
    records = [record for script in found.scripts for record in _scripted(script)]
    return from_turns(records, source=f"{path}{guessed}")


def fitted(path: Path) -> Fitted:
    """A time model from the turns of a journal.

    Raises:
        ConfigError: it can't be read, or holds too few turns.
    """
    samples: list[TurnSample] = []
    progress = Progress(samples.append)
    for row in journal.read(path).rows:
        progress.apply(row.fact, row.commands)
    found = fit(samples)
    if found is None:
        raise ConfigError(
            f"{len(samples)} finished turns are too few to fit a time model",
            where=str(path),
            hint=f"give a run with {FEWEST} or more, or --device",
        )
    model = found.model
    return Fitted(
        base=model.base,
        per_sequence=model.per_sequence,
        per_context=model.per_token,
        per_new=model.prefill,
        error=found.median_error,
        run=path.name,
    )


# -- journals -----------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Attempt:
    """One attempt at a trajectory: its turns, and the last of each stream with the time when it ended."""

    number: int
    turns: list[TurnRecord] = field(default_factory=list[TurnRecord])
    last: dict[StreamId, tuple[int, Nanos]] = field(default_factory=dict[StreamId, tuple[int, Nanos]])
    acted: Nanos | None = None


class _Recorder:
    """Folds facts into turn records: those of attempts that finished, or of all if none did."""

    def __init__(self) -> None:
        self._open: dict[TrajectoryId, _Attempt] = {}
        self._attempts = 0
        self.finished: list[TurnRecord] = []

    def apply(self, fact: Fact) -> None:
        match fact:
            case TurnFinished():
                self._turn(fact)
            case TurnRequested():
                self._asked(fact)
            case ActionFinished():
                self._attempt(fact.trajectory).acted = fact.at
            case TrajectoryFinished():
                self._finished(fact)
            case TrajectoryAbandoned():
                self._open.pop(fact.trajectory, None)
            case CoordinatorStarted():
                self._open.clear()
            case _:
                pass

    def records(self) -> list[TurnRecord]:
        """What was found."""
        return self.finished or [turn for attempt in self._open.values() for turn in attempt.turns]

    def _attempt(self, trajectory: TrajectoryId) -> _Attempt:
        if trajectory not in self._open:
            self._attempts += 1
            self._open[trajectory] = _Attempt(self._attempts)
        return self._open[trajectory]

    def _turn(self, fact: TurnFinished) -> None:
        attempt = self._attempt(fact.trajectory)
        chain = TrajectoryId(f"{fact.trajectory}/{fact.stream}#{attempt.number}")
        record = TurnRecord(chain, fact.turn, fact.prompt_tokens, fact.output_tokens, service=fact.service)
        attempt.last[fact.stream] = (len(attempt.turns), fact.at)
        attempt.turns.append(record)

    def _asked(self, fact: TurnRequested) -> None:
        attempt = self._attempt(fact.trajectory)
        if fact.stream in attempt.last:
            place, ended = attempt.last.pop(fact.stream)
            attempt.turns[place] = _acting(attempt.turns[place], fact.at - ended)

    def _finished(self, fact: TrajectoryFinished) -> None:
        attempt = self._attempt(fact.trajectory)
        for place, ended in attempt.last.values():
            if attempt.acted is not None and attempt.acted > ended:
                attempt.turns[place] = _acting(attempt.turns[place], attempt.acted - ended)
        self.finished += self._open.pop(fact.trajectory).turns


def _acting(record: TurnRecord, action: int) -> TurnRecord:
    return msgspec.structs.replace(record, action=Nanos(max(0, action)))


def turn_records(rows: Iterable[tuple[Fact, Sequence[Command]]]) -> list[TurnRecord]:
    """The turns of recorded facts, with the time until each one's stream went on."""
    recorder = _Recorder()
    for fact, _ in rows:
        recorder.apply(fact)
    return recorder.records()


# -- traces -------------------------------------------------------------------------------------------------


def _scripted(script: Script) -> Iterable[TurnRecord]:
    for place, (prompt, step) in enumerate(zip(script.prompts(), script.steps, strict=True)):
        action = None if step.action is None else step.action.service
        yield TurnRecord(script.trajectory, place, prompt, step.output_tokens, action)
