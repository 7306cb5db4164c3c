"""A batch: what it runs on, and running it."""

import os
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import anyio
import msgspec

from headway.adapters.clock import WallClock
from headway.adapters.engines import connect
from headway.adapters.environments import InProcess
from headway.batch.results import ResultStream
from headway.batch.running import BatchStopped, Run, Setup, Solve, Timeouts
from headway.batch.sample import Result, Sample, checked
from headway.batch.unrecorded import Unrecorded
from headway.core.facts import (
    CoordinatorStarted,
    EngineJoined,
    Fact,
    LimitChanged,
    Paused,
    Resumed,
    SampleSubmitted,
    SlotsChanged,
    TrajectoryAbandoned,
)
from headway.core.machine import Machine
from headway.core.policy import Retries
from headway.core.progress import Progress
from headway.core.restore import restore
from headway.core.units import EnvironmentId, GroupId, Nanos, Tokens, TrajectoryId, nanos
from headway.core.world import World
from headway.drivers.live import Ports, Watch
from headway.errors import ConfigError, EngineError
from headway.journal import FileJournal, Header, open_new, open_resume, read, results
from headway.policies.presets import preset, with_seed
from headway.ports import Engine, Environment, Journal
from headway.version import __version__

__all__ = ["Batch", "BatchStopped", "Slots", "Timeouts"]


@dataclass(frozen=True, slots=True)
class Slots:
    """An environment of a batch.

    Args:
        slots: actions that may run there at once.
        place: where they run; None: nowhere in particular, a slot is all there is to hold.
        instances: how many trajectories may keep an instance of it for life; None: no limit.
        create_rate: instances made per second at most; None: no limit.
    """

    slots: int
    place: Environment | None = None
    instances: int | None = None
    create_rate: float | None = None


class Batch:
    """Runs samples on engines and environments, scheduled together.

    Args:
        engines: URLs of OpenAI-compatible servers, or ``Engine`` objects. Empty for batches that only act.
        environments: name to slots, or to :class:`Slots`.
        policy: a preset's name.
        concurrency: live trajectories at most; ``"auto"``: as many as the policy lets the caches hold.
        journal: a file that remembers everything; None: nothing survives this process.
        resume: go on with that file if it exists. Without it an existing file is an error.
        model: the model to ask for; None: the one that is served.
        api_key: for engines given as URLs.
        seed: for policies that draw lots.
        timeouts: seconds of service, queues excluded.
        retries: what is tried again, and when.
        error_budget: how many samples may fail before the batch stops: a number, a share below 1, None for all.
        watch: how engines are watched.
        request_fields: added to the body of every request that doesn't have them (``cache_salt``, ``temperature`` ...).
        source: noted in the journal: where the samples come from.
        settings: noted in the journal: what the batch was told, if more than this; no secrets.

    Raises: ``ConfigError`` for anything that can't be used as it is.
    """

    def __init__(  # noqa: PLR0913 - one keyword for each thing that a batch can be told
        self,
        engines: Sequence[str | Engine] = (),
        environments: Mapping[str, int | Slots] | None = None,
        *,
        policy: str = "default",
        concurrency: int | str = "auto",
        journal: str | os.PathLike[str] | None = None,
        resume: bool = False,
        model: str | None = None,
        api_key: str | None = None,
        seed: int = 0,
        timeouts: Timeouts | None = None,
        retries: Retries | None = None,
        error_budget: float | None = None,
        watch: Watch | None = None,
        request_fields: Mapping[str, Any] | None = None,
        source: Mapping[str, object] | None = None,
        settings: Mapping[str, object] | None = None,
    ) -> None:
        policies, own_limit = preset(policy)
        policies = with_seed(policies, seed)
        self._policies = policies if retries is None else replace(policies, retries=retries)
        self._limit = _limit(concurrency, own_limit)
        connected = [connect(e, model=model, api_key=api_key) if isinstance(e, str) else e for e in engines]
        self._engines = {engine.id: engine for engine in connected}
        if len(self._engines) < len(connected):
            raise ConfigError("the same engine is given twice", where="engines")
        self._slots = {EnvironmentId(n): _slots(n, s) for n, s in (environments or {}).items()}
        self._places = {n: s.place or InProcess(n) for n, s in self._slots.items()}
        self._path = None if journal is None else Path(journal)
        self._resume = resume
        self._timeouts = timeouts or Timeouts()
        self._error_budget = error_budget
        self._watch = watch or Watch()
        self._fields = dict(request_fields or {})
        self._source = dict(source or {})
        self._settings: dict[str, object] = dict(settings or {}) or {
            "engines": [str(name) for name in self._engines],
            "environments": {str(n): s.slots for n, s in self._slots.items()},
            "concurrency": concurrency,
            "seed": seed,
        }
        self._run: Run | None = None
        self.progress = Progress()

    # -- running --------------------------------------------------------------------------------------------

    async def run(self, solve: Solve, samples: Iterable[Sample]) -> list[Result]:
        """Run all samples; their results in the order of the samples.

        Raises: ``ConfigError`` before anything ran; ``BatchStopped``, ``NoEngineError``, ``JournalError`` later, with
        what is finished kept in the journal.
        """
        listed = checked(samples)
        found: dict[str, Result] = {}

        async def note(result: Result) -> None:
            found[result.id] = result

        await self._execute(solve, listed, note)
        return [found[sample.id] for sample in listed]

    def stream(self, solve: Solve, samples: Iterable[Sample]) -> ResultStream:
        """Run all samples; ``async for`` gives each result as soon as it is durable.

        Leaving the loop early goes on in the background until the stream is closed: ``async with`` it, or ``aclose``.
        """
        listed = checked(samples)
        return ResultStream(lambda deliver: self._execute(solve, listed, deliver))

    async def _execute(self, solve: Solve, samples: list[Sample], deliver: Any) -> None:  # noqa: ANN401
        if self._run is not None:
            raise ConfigError("a batch runs once", hint="make another Batch for another run")
        async with self._closing():
            joined = await self._join()
            with self._journal() as (journal, world):
                ours = {TrajectoryId(sample.id): sample for sample in samples}
                self._check_known(world, ours)
                for result in self._recalled(world, ours):
                    await deliver(result)
                todo = {name: sample for name, sample in ours.items() if name not in world.done}
                clock = WallClock(world.now)
                ports = Ports(clock, journal, self._engines, self._places)
                machine = Machine(self._policies, world)
                opening = self._opening(joined, clock, world, samples)
                setup = Setup(
                    machine,
                    ports,
                    self._watch,
                    self.progress,
                    self._timeouts,
                    self._fields,
                    self._allowed_failures(len(samples)),
                    opening,
                )
                self._run = Run(setup, solve, todo, deliver)
                try:
                    await self._run.execute()
                finally:
                    with anyio.CancelScope(shield=True):
                        await journal.close()

    @asynccontextmanager
    async def _closing(self) -> AsyncIterator[None]:
        try:
            yield
        finally:
            with anyio.CancelScope(shield=True):
                for place in self._places.values():
                    await place.close()
                for engine in self._engines.values():
                    await engine.close()

    async def _join(self) -> list[EngineJoined]:
        joined: dict[str, EngineJoined] = {}
        wrong: list[ConfigError] = []

        async def ask(engine: Engine) -> None:
            try:
                joined[engine.id] = await engine.join(Nanos(0))
            except ConfigError as error:
                wrong.append(error)
            except EngineError as error:
                wrong.append(ConfigError(str(error), where=str(engine.id)))

        async with anyio.create_task_group() as tasks:
            for engine in self._engines.values():
                tasks.start_soon(ask, engine)
        if wrong:
            raise wrong[0]
        return [joined[name] for name in self._engines]

    def _opening(self, joined: list[EngineJoined], clock: WallClock, world: World, samples: list[Sample]) -> list[Fact]:
        now = clock.now()
        facts: list[Fact] = [CoordinatorStarted(now, time.time_ns(), __version__, retry_failed=True)]
        for name, slots in self._slots.items():
            interval = nanos(1 / slots.create_rate) if slots.create_rate else Nanos(0)
            facts.append(SlotsChanged(now, name, slots.slots, slots.instances, interval))
        facts.extend(msgspec.structs.replace(fact, at=now) for fact in joined)
        facts.extend((LimitChanged(now, self._limit), Resumed(now)))
        known = world.trajectories.keys() | world.done | world.failed.keys()
        for index, sample in enumerate(samples):
            if TrajectoryId(sample.id) not in known:
                facts.append(_submitted(now, index, sample))
        return facts

    def _allowed_failures(self, samples: int) -> int | None:
        budget = self._error_budget
        if budget is None:
            return None
        return int(budget * samples) if 0 < budget < 1 else int(budget)

    # -- the journal ----------------------------------------------------------------------------------------

    @contextmanager
    def _journal(self) -> Iterator[tuple[Journal, World]]:
        if self._path is None:
            yield Unrecorded(), World()
            return
        if not (self._resume and self._path.exists()):
            header = Header(self._settings, self._policies.name, self._source, {"headway": __version__})
            with _shut(open_new(self._path, header)) as journal:
                yield journal, World()
            return
        with _shut(open_resume(self._path)) as journal:
            yield journal, restore(self._replayed())

    def _replayed(self) -> Iterator[tuple[Fact, Sequence[Any]]]:
        assert self._path is not None  # noqa: S101 - only called with a journal
        for row in read(self._path).rows:
            self.progress.apply(row.fact, row.commands)
            yield row.fact, row.commands

    def _check_known(self, world: World, ours: Mapping[TrajectoryId, Sample]) -> None:
        strangers = [name for name in world.trajectories if name not in ours]
        if strangers:
            raise ConfigError(
                f"its sample {strangers[0]!r} is unfinished and not among those given",
                where=str(self._path),
                hint="resume with the samples that it was started with",
            )

    def _recalled(self, world: World, ours: Mapping[TrajectoryId, Sample]) -> Iterator[Result]:
        if self._path is None or not world.done:
            return
        for name, stored in results(self._path):
            if name in world.done and name in ours:
                sample = ours[name]
                yield Result(
                    sample.id,
                    msgspec.json.decode(stored),
                    None,
                    sample.group,
                    self.progress.attempts(name),
                    recalled=True,
                )

    def now(self) -> Nanos:
        """The batch's own time; 0 before it runs."""
        return Nanos(0) if self._run is None else self._run.now()

    # -- steering a running batch ---------------------------------------------------------------------------

    async def pause(self) -> None:
        """Start nothing new; what runs goes on."""
        run = self._running()
        await run.coordinator.report(Paused(run.now()))

    async def resume(self) -> None:
        """Go on after a pause."""
        run = self._running()
        await run.coordinator.report(Resumed(run.now()))

    async def cancel(self, sample: str) -> None:
        """Give up one sample; its result is a failure that says so."""
        run = self._running()
        if not run.coordinator.cancel(TrajectoryId(sample)):
            await run.coordinator.report(TrajectoryAbandoned(run.now(), TrajectoryId(sample), "cancelled"))

    async def set_slots(self, environment: str, slots: int) -> None:
        """Change the slots of an environment. Raises: ``ConfigError`` if there is none of that name."""
        known = self._slots.get(EnvironmentId(environment))
        if known is None:
            raise ConfigError(f"there is no environment {environment!r}", hint=f"one of: {', '.join(self._slots)}")
        if slots < 0:
            raise ConfigError(f"slots must not be negative, is {slots}", where=environment)
        run = self._running()
        interval = nanos(1 / known.create_rate) if known.create_rate else Nanos(0)
        await run.coordinator.report(
            SlotsChanged(run.now(), EnvironmentId(environment), slots, known.instances, interval)
        )

    async def set_concurrency(self, live: int | None) -> None:
        """Change how many trajectories may be live; None lifts the limit."""
        run = self._running()
        await run.coordinator.report(LimitChanged(run.now(), live))

    def _running(self) -> Run:
        if self._run is None:
            raise ConfigError("the batch is not running")
        return self._run


def _submitted(now: Nanos, index: int, sample: Sample) -> SampleSubmitted:
    return SampleSubmitted(
        now,
        TrajectoryId(sample.id),
        index,
        None if sample.group is None else GroupId(sample.group),
        Tokens(sample.prompt_tokens),
        sample.hint,
        tuple(EnvironmentId(name) for name in sample.environments),
    )


def _limit(concurrency: int | str, own: int | None) -> int | None:
    if concurrency == "auto":
        return own
    if not isinstance(concurrency, int) or concurrency < 1:
        raise ConfigError(f"must be a number from 1 or 'auto', is {concurrency!r}", where="concurrency")
    return concurrency if own is None else min(own, concurrency)


def _slots(name: str, given: int | Slots) -> Slots:
    slots = given if isinstance(given, Slots) else Slots(given)
    if slots.slots < 1:
        raise ConfigError(f"slots must be at least 1, is {slots.slots}", where=f"environment {name!r}")
    if slots.instances is not None and slots.instances < 1:
        raise ConfigError(f"instances must be at least 1, is {slots.instances}", where=f"environment {name!r}")
    if slots.create_rate is not None and slots.create_rate <= 0:
        raise ConfigError(f"create_rate must be above 0, is {slots.create_rate}", where=f"environment {name!r}")
    return slots


@contextmanager
def _shut(journal: FileJournal) -> Iterator[FileJournal]:
    """Let go of the file, also when the batch never began."""
    try:
        yield journal
    finally:
        journal.shut()
