"""One run of a batch: agents in, acknowledged results out."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import anyio
import msgspec

from headway.batch.sample import Result, Sample
from headway.batch.trajectory import ServiceBudget, Surroundings, TokenGuess, Trajectory
from headway.core.commands import Admit, Command, Reject
from headway.core.facts import Fact, TrajectoryAbandoned, TrajectoryFinished
from headway.core.machine import Machine
from headway.core.progress import Progress
from headway.core.units import Nanos, TrajectoryId
from headway.drivers.live import Coordinator, Ports, Watch
from headway.errors import BoundaryError, JournalError

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
        try:
            async with anyio.create_task_group() as tasks, self.coordinator.running():
                tasks.start_soon(self._acknowledge)
                for fact in self._setup.opening:
                    await self.coordinator.report(fact)
                if self._open:
                    await self._over.wait()
                tasks.cancel_scope.cancel()
        except BaseExceptionGroup as group:
            raise _innermost(group) from group
        if self._open and self._failed:
            raise BatchStopped(
                f"{self._failed} samples failed, more than the error budget of {self._setup.failures}; "
                f"{self._open} have no result yet"
            )

    def now(self) -> Nanos:
        """The batch's own time."""
        return self._setup.ports.clock.now()

    # -- agents ---------------------------------------------------------------------------------------------

    async def _agent(self, admit: Admit) -> TrajectoryFinished | TrajectoryAbandoned:
        sample = self._samples[admit.trajectory]
        limit = self._setup.timeouts.sample
        budget = ServiceBudget(float("inf") if limit is None else limit)
        trajectory = Trajectory(sample.id, admit.attempt, sample.group, self._around, budget)
        cause: str | None = None
        value: Any = None
        try:
            with budget.scope:
                budget.serving()
                value = await self._solve(sample, trajectory)
            if budget.scope.cancelled_caught:
                cause = f"served for longer than its {limit:g} s"
            else:
                self._keep(admit.trajectory, value)
        except JournalError:
            raise
        except Exception as error:  # noqa: BLE001 - the agent is the caller's code; how it fails is data
            cause = f"{type(error).__name__}: {error}"
        finally:
            with anyio.CancelScope(shield=True):
                for environment in self._setup.ports.environments.values():
                    await environment.release(admit.trajectory)
        now = self._setup.ports.clock.now()
        if cause is not None:
            return TrajectoryAbandoned(now, admit.trajectory, cause)
        score = getattr(value, "score", None)
        return TrajectoryFinished(now, admit.trajectory, float(score) if isinstance(score, int | float) else None)

    def _keep(self, trajectory: TrajectoryId, value: Any) -> None:  # noqa: ANN401 - the caller's own type
        self._setup.ports.journal.keep(trajectory, msgspec.json.encode(value))
        self._values[trajectory] = value

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


def _innermost(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The one error behind a group, or the group itself when there are several."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
