"""One run of a batch: agents in, acknowledged results out."""

import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import anyio
import msgspec

from headway.batch.budget import ServiceBudget
from headway.batch.lengths import TokenGuess
from headway.batch.sample import Result, Sample
from headway.batch.trajectory import Surroundings, Trajectory
from headway.core.commands import Admit, Command, Reject
from headway.core.facts import Fact, TrajectoryAbandoned, TrajectoryFinished
from headway.core.machine import Machine
from headway.core.progress import Progress
from headway.core.units import Nanos, TrajectoryId
from headway.drivers.live import Coordinator, Ports, Watch, let_go
from headway.errors import BoundaryError, ConfigError, sole

Solve = Callable[[Sample, Trajectory], Awaitable[Any]]
"""The agent: solves one sample on one trajectory; what it returns is the result's value."""


class BatchStopped(BoundaryError):  # noqa: N818 - it says what happened
    """Too many samples failed; what is finished is kept, and the batch can be resumed."""


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds of service, None for no limit. Waiting in a queue never counts.

    ``turn``: one answer of an engine. ``action``: one action. ``sample``: everything one attempt is served.
    """

    turn: float | None = None
    action: float | None = None
    sample: float | None = None


@dataclass(frozen=True, slots=True)
class Setup:
    """Everything a run needs, made by :class:`headway.Batch`. ``failures`` is how many samples may fail."""

    machine: Machine
    ports: Ports
    watch: Watch
    progress: Progress
    timeouts: Timeouts
    fields: Mapping[str, Any]
    failures: int | None
    opening: Sequence[Fact]


class Run:
    """Runs what is unfinished and delivers each result once it is durable."""

    def __init__(
        self,
        setup: Setup,
        solve: Solve,
        samples: Mapping[TrajectoryId, Sample],
        deliver: Callable[[Result], Awaitable[None]],
    ) -> None:
        """``samples`` are those of the batch that have no result yet."""
        self._setup = setup
        self._solve = solve
        self._samples = samples
        self._deliver = deliver
        self._open = len(samples)
        self._failed = 0
        self._over = anyio.Event()
        self._values: dict[TrajectoryId, Any] = {}
        self._news: list[tuple[Result, bool]] = []
        self._more = anyio.Event()
        self.coordinator = Coordinator(
            setup.machine, setup.ports, self._agent, watch=setup.watch, observe=self._observe
        )
        self._around = Surroundings(
            self.coordinator,
            setup.ports.environments,
            setup.ports.clock,
            TokenGuess(),
            setup.fields,
            setup.timeouts.turn,
            setup.timeouts.action,
        )

    async def execute(self) -> None:
        """Run to the end. Raises: ``BatchStopped``, ``NoEngineError``, ``JournalError``."""
        async with anyio.create_task_group() as tasks, self.coordinator.running():
            tasks.start_soon(self._acknowledge)
            for fact in self._setup.opening:
                self.coordinator.report(fact)
            if self._open:
                await self._over.wait()
            tasks.cancel_scope.cancel()
        if self._open and self._failed:
            raise BatchStopped(
                f"{self._failed} samples failed, more than the error budget of {self._setup.failures}; "
                f"{self._open} have no result yet"
            )

    def report(self, fact: Fact) -> None:
        """Tell it a fact from outside. Raises: ``ConfigError`` when it is over."""
        try:
            self.coordinator.report(fact)
        except (anyio.ClosedResourceError, anyio.BrokenResourceError) as error:
            raise ConfigError("the batch is over") from error

    def cancel(self, sample: str) -> None:
        """Give up one sample. Raises: ``ConfigError`` if there is none, or it has ended."""
        name = TrajectoryId(sample)
        if name not in self._samples:
            raise ConfigError(f"there is no sample {sample!r} to be run here")
        world = self._setup.machine.world
        if name in world.done or name in world.failed:
            raise ConfigError(f"sample {sample!r} has ended already")
        if not self.coordinator.cancel(name):
            self.report(TrajectoryAbandoned(self.now(), name, "cancelled"))

    def now(self) -> Nanos:
        """The batch's own time."""
        return self._setup.ports.clock.now()

    # -- agents ---------------------------------------------------------------------------------------------

    async def _agent(self, admit: Admit) -> TrajectoryFinished | TrajectoryAbandoned:
        try:
            value, cause = await self._solved(self._samples[admit.trajectory], admit.attempt)
        finally:
            for environment in self._setup.ports.environments.values():
                await let_go(environment, environment.release(admit.trajectory), admit.trajectory)
        cause = cause or self._kept(admit.trajectory, value)
        if cause is not None:
            return TrajectoryAbandoned(self.now(), admit.trajectory, cause)
        score = getattr(value, "score", None)
        return TrajectoryFinished(
            self.now(), admit.trajectory, float(score) if isinstance(score, int | float) else None
        )

    async def _solved(self, sample: Sample, attempt: int) -> tuple[Any, str | None]:
        """Run the agent: what it returned, or why it returned nothing."""
        limit = self._setup.timeouts.sample
        budget = ServiceBudget(math.inf if limit is None else limit)
        trajectory = Trajectory(sample.id, attempt, sample.group, self._around, budget)
        try:
            with budget.spending():
                return await self._solve(sample, trajectory), None
        except BaseExceptionGroup as group:
            error = sole(group)
            if not isinstance(error, Exception):
                raise
            return None, f"{type(error).__name__}: {error}"
        except Exception as error:  # noqa: BLE001 - the agent is the caller's code; how it fails is data
            return None, f"{type(error).__name__}: {error}"
        return None, f"served for longer than its {limit:g} s"

    def _kept(self, trajectory: TrajectoryId, value: Any) -> str | None:  # noqa: ANN401 - the caller's own type
        """Record a result. Returns why it can't be, None if it could. Raises: ``JournalError``."""
        try:
            encoded = msgspec.json.encode(value)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            return f"what it returned can't be kept as JSON: {error}"
        self._setup.ports.journal.keep(trajectory, encoded)
        self._values[trajectory] = value
        return None

    # -- results --------------------------------------------------------------------------------------------

    def _observe(self, fact: Fact, commands: Sequence[Command]) -> None:
        self._setup.progress.apply(fact, commands)
        match fact:
            case TrajectoryFinished():
                self._ended(fact.trajectory, None)
            case TrajectoryAbandoned(again=False):
                self._ended(fact.trajectory, fact.cause)
            case _:
                pass
        for command in commands:
            if isinstance(command, Reject) and command.item == "sample":
                self._ended(command.trajectory, command.reason)

    def _ended(self, trajectory: TrajectoryId, failure: str | None) -> None:
        sample = self._samples[trajectory]
        attempt = self._setup.progress.attempts(trajectory)
        value = self._values.pop(trajectory, None)
        if failure is not None:
            value = None
        self._news.append((Result(sample.id, value, failure, sample.group, attempt), failure is not None))
        self._more.set()

    async def _acknowledge(self) -> None:
        """Deliver results once they are on disk, many at a time when many end together."""
        while True:
            await self._more.wait()
            self._more = anyio.Event()
            news, self._news = self._news, []
            await self._setup.ports.journal.durable()
            for result, failed in news:
                await self._deliver(result)
                self._open -= 1
                self._failed += failed
            allowed = self._setup.failures
            if not self._open or (allowed is not None and self._failed > allowed):
                self._over.set()
