"""One engine to drive by hand, with costs that are easy to add up."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest

from headway.core.commands import CancelTurn, StartTurn
from headway.core.facts import TurnFailed, TurnFinished
from headway.core.units import MAIN, SECOND, EngineId, Tokens, TrajectoryId, nanos
from headway.drivers.simulate import ContinuousBatching
from headway.latency import LatencyModel
from headway.workloads import EngineShape

COST = LatencyModel(base=1.0, per_sequence=0.5, per_token=0.0, prefill=0.01)


@dataclass
class Bench:
    """Turns go in at seconds, and come out as (name, seconds, cached tokens)."""

    engine: ContinuousBatching
    ended: list[tuple[str, float, int]] = field(default_factory=list)
    failed: list[TurnFailed] = field(default_factory=list)

    def until(self, at: float) -> None:
        while (due := self.engine.next_at()) is not None and due <= nanos(at):
            self.take(self.engine.finish(due))

    def take(self, facts: Sequence[TurnFinished | TurnFailed]) -> None:
        for fact in facts:
            if isinstance(fact, TurnFailed):
                self.failed.append(fact)
            else:
                self.ended.append((fact.trajectory, round(fact.at / SECOND, 6), fact.cached_tokens or 0))

    def start(self, at: float, name: str, prompt: int, output: int, *, turn: int = 0, rank: int = 0) -> None:
        self.until(at)
        command = StartTurn(TrajectoryId(name), MAIN, turn, 1, self.engine.name, rank)
        self.engine.start(nanos(at), command, Tokens(prompt), Tokens(output))

    def cancel(self, at: float, name: str, turn: int = 0) -> None:
        self.until(at)
        self.engine.cancel(nanos(at), CancelTurn(TrajectoryId(name), MAIN, turn, 1, self.engine.name))

    def rest(self) -> list[tuple[str, float, int]]:
        self.until(1e6)
        return self.ended


@pytest.fixture
def bench() -> Callable[..., Bench]:
    """Make an engine. Names of trajectories before a dash are their family: they share 100 tokens of prompt."""

    def make(**shape: object) -> Bench:
        def family(name: TrajectoryId) -> tuple[str, int]:
            return name.partition("-")[0], 100

        made = EngineShape(**{"cost": COST, **shape})  # type: ignore[arg-type]
        return Bench(ContinuousBatching(EngineId("e"), made, family))

    return make
