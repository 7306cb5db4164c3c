"""One small batch with a bit of everything, as a journal."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from headway import journal
from headway.core.commands import Admit, CancelTurn, Command, GrantAction, Reject, StartTurn
from headway.core.facts import (
    ActionFailed,
    ActionFinished,
    ActionRequested,
    CoordinatorStarted,
    EngineJoined,
    EngineLost,
    Fact,
    Resumed,
    SampleSubmitted,
    SlotsChanged,
    TrajectoryAbandoned,
    TrajectoryFinished,
    TurnFailed,
    TurnFinished,
    TurnRequested,
)
from headway.core.progress import Progress
from headway.core.units import MAIN, EngineId, EnvironmentId, Nanos, Tokens, TrajectoryId, nanos

ONE, TWO = EngineId("http://127.0.0.1:8001"), EngineId("http://127.0.0.1:8002")
A, B, C = (TrajectoryId(f"multi_turn_base_{n}") for n in (1, 22, 333))
BASH = EnvironmentId("bash")
Rows = list[tuple[Fact, Sequence[Command]]]
HEADER = journal.Header({"seed": 0}, "default", {"suite": "bfcl"}, {"headway": "0.1.0"})


def request(
    at: float, who: TrajectoryId, turn: int, prompt: int, engine: EngineId | None
) -> tuple[Fact, list[Command]]:
    start: list[Command] = (
        [] if engine is None else [StartTurn(who, MAIN, turn, 1, engine, expected_cached=prompt // 2)]
    )
    return TurnRequested(nanos(at), who, MAIN, turn, Tokens(prompt)), start


def answer(
    at: float, who: TrajectoryId, turn: int, prompt: int, service: float, cached: int
) -> tuple[Fact, list[Command]]:
    fact = TurnFinished(nanos(at), who, MAIN, turn, 1, Tokens(prompt), Tokens(40), nanos(service), Tokens(cached))
    return fact, []


def beginning() -> Rows:
    """Until 12 s: one sample finished, one acts, one waits for a slot, the fourth for admission."""
    rows: Rows = [
        (CoordinatorStarted(Nanos(0), wall=10**18, version="0.1.0"), []),
        (SlotsChanged(Nanos(0), BASH, 1), []),
        (EngineJoined(Nanos(0), ONE, "vllm", Tokens(9000), max_running=8), []),
        (EngineJoined(Nanos(0), TWO, "vllm", Tokens(9000), max_running=8), []),
        (Resumed(Nanos(0)), []),
        *((SampleSubmitted(nanos(1), who), [Admit(who, 1)]) for who in (A, B, C)),
        (SampleSubmitted(nanos(1), TrajectoryId("late")), []),
        request(1, A, 0, 1000, ONE),
        request(1, B, 0, 1200, TWO),
        request(1, C, 0, 800, None),
        answer(3, A, 0, 1000, 2, 0),
        (
            ActionRequested(nanos(3), A, MAIN, 0, BASH),
            [GrantAction(A, MAIN, 0, 1, BASH), StartTurn(C, MAIN, 0, 1, ONE)],
        ),
        answer(4, B, 0, 1200, 3, 0),
        (ActionRequested(nanos(4), B, MAIN, 0, BASH), []),
        (TurnFailed(nanos(5), C, MAIN, 0, 1, "overloaded", "429"), []),
        (ActionFinished(nanos(8), A, MAIN, 0, 1, nanos(5)), [GrantAction(B, MAIN, 0, 1, BASH)]),
        request(8, A, 1, 1100, ONE),
        answer(9, A, 1, 1100, 1, 960),
        (TrajectoryFinished(nanos(9.5), A, 1.0), [StartTurn(C, MAIN, 0, 2, ONE)]),
        answer(11, C, 0, 800, 1.5, 0),
        (ActionRequested(nanos(12), C, MAIN, 0, BASH), []),
    ]
    return rows


def ending() -> Rows:
    """An engine is lost, the coordinator too; the second one brings it home with one sample failed."""
    late = TrajectoryId("late")
    rows: Rows = [
        (ActionFailed(nanos(13), B, MAIN, 0, 1, "lost", "sandbox died"), [GrantAction(B, MAIN, 0, 2, BASH)]),
        (ActionFinished(nanos(15), B, MAIN, 0, 2, nanos(2)), [GrantAction(C, MAIN, 0, 2, BASH)]),
        request(15, B, 1, 1300, TWO),
        (
            EngineLost(nanos(16), TWO, "connection refused"),
            [CancelTurn(B, MAIN, 1, 1, TWO), StartTurn(B, MAIN, 1, 2, ONE)],
        ),
        answer(19, B, 1, 1300, 3, 0),
        (TrajectoryFinished(nanos(20), B, 0.0), []),
        (CoordinatorStarted(nanos(20), wall=10**18 + nanos(80), version="0.1.0"), []),
        (EngineJoined(nanos(20), ONE, "vllm", Tokens(9000), max_running=8), []),
        (Resumed(nanos(20)), [Admit(C, 3), Reject(late, "sample", "its prompt fits no engine")]),
        request(20, C, 0, 800, ONE),
        answer(21, C, 0, 800, 1, 0),
        (TrajectoryAbandoned(nanos(21), C, "ValueError: no such file", again=True), [Admit(C, 4)]),
        request(21, C, 0, 800, ONE),
        answer(22.5, C, 0, 800, 1.5, 0),
        (TrajectoryFinished(nanos(23), C, 1.0), []),
    ]
    return rows


def write(path: Path, rows: Rows) -> journal.FileJournal:
    recorder = journal.open_new(path, HEADER)
    for fact, commands in rows:
        recorder.append(fact, commands)
    recorder.flush()
    return recorder


@pytest.fixture
def begun() -> Progress:
    return fold(beginning())


@pytest.fixture
def ended() -> Progress:
    return fold(beginning() + ending())


def fold(rows: Rows) -> Progress:
    progress = Progress()
    for fact, commands in rows:
        progress.apply(fact, commands)
    return progress


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The whole batch as ``run.headway`` in the current directory."""
    monkeypatch.chdir(tmp_path)
    write(Path("run.headway"), beginning() + ending()).shut()
    return Path("run.headway")


@pytest.fixture
def half(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Its beginning only."""
    monkeypatch.chdir(tmp_path)
    write(Path("half.headway"), beginning()).shut()
    return Path("half.headway")
