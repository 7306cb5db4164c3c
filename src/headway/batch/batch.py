"""A batch: what it runs on, and running it."""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import msgspec

from headway.adapters.clock import WallClock
from headway.adapters.control import listening
from headway.adapters.engines import connect
from headway.adapters.engines.planned import Planned
from headway.adapters.environments import InProcess
from headway.batch.declared import Slots, Tuning, checked_limit, checked_slots, opening, submissions
from headway.batch.memory import recorded
from headway.batch.ports import closed, joined_all
from headway.batch.results import Deliver, ResultStream
from headway.batch.running import Run, Setup, Solve, Timeouts
from headway.batch.sample import Result, Sample, checked
from headway.batch.steering import obey
from headway.core.facts import EngineJoined, Fact, LimitChanged, Paused, Resumed
from headway.core.machine import Machine
from headway.core.policy import Retries
from headway.core.progress import Progress
from headway.core.units import EnvironmentId, Nanos, TrajectoryId
from headway.core.world import World
from headway.drivers.live import Ports, Watch
from headway.errors import ConfigError, sole
from headway.hybrid.plan import Plan
from headway.hybrid.residency import capacity_of
from headway.journal import Header, results
from headway.policies.presets import preset, with_seed
from headway.ports import Engine, Journal
from headway.version import __version__


class Batch:
    """Runs samples on engines and environments, scheduled together.

    Args:
        engines: URLs of OpenAI-compatible servers, or ``Engine`` objects. Empty for batches that only act.
        environments: name to slots, or to :class:`Slots`.
        policy: a preset's name.
        concurrency: live trajectories at most; ``"auto"``: the plan's reference concurrency on every engine, and never
            more than the policy lets the caches hold.
        plan: what every engine here was planned to hold (``headway plan``); None: what each says of itself.
        journal: a file that remembers everything; None: nothing survives this process.
        resume: go on with that file if it exists. Without it an existing file is an error.
        model: the model to ask for; None: the one that is served.
        api_key: for engines given as URLs.
        seed: for policies that draw lots.
        timeouts: seconds of service, queues excluded.
        retries: what is tried again, and when.
        tuning: what the policy leaves open.
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
        plan: Plan | None = None,
        journal: str | os.PathLike[str] | None = None,
        resume: bool = False,
        model: str | None = None,
        api_key: str | None = None,
        seed: int = 0,
        timeouts: Timeouts | None = None,
        retries: Retries | None = None,
        tuning: Tuning | None = None,
        error_budget: float | None = None,
        watch: Watch | None = None,
        request_fields: Mapping[str, Any] | None = None,
        source: Mapping[str, object] | None = None,
        settings: Mapping[str, object] | None = None,
    ) -> None:
        policies, own_limit = preset(policy)
        policies = (tuning or Tuning()).applied(with_seed(policies, seed))
        self._policies = policies if retries is None else replace(policies, retries=retries)
        connected = [connect(e, model=model, api_key=api_key) if isinstance(e, str) else e for e in engines]
        live = None
        if plan is not None:
            capacity = capacity_of(plan)
            connected = [Planned(engine, capacity) for engine in connected]
            live = None if capacity.live is None else capacity.live * len(connected)
        self._limit = checked_limit(concurrency, own_limit, live)
        self._engines = {engine.id: engine for engine in connected}
        if len(self._engines) < len(connected):
            raise ConfigError("the same engine is given twice", where="engines")
        self._slots = {EnvironmentId(n): checked_slots(n, s) for n, s in (environments or {}).items()}
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
        self._began = False
        self.progress = Progress()
        self.started = anyio.Event()
        """Set when the journal is ours and the batch runs: nothing that was written can be wrong any more."""

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

    async def _execute(self, solve: Solve, samples: list[Sample], deliver: Deliver) -> None:
        if self._began:
            raise ConfigError("a batch runs once", hint="make another Batch for another run")
        self._began = True
        try:
            async with AsyncExitStack() as stack:
                for engine in self._engines.values():
                    stack.push_async_callback(closed, engine)
                for place in self._places.values():
                    stack.push_async_callback(closed, place)
                joined = await joined_all(self._engines.values())
                journal, world = stack.enter_context(self._journal())
                stack.push_async_callback(closed, journal)
                await self._go_on(solve, samples, deliver, joined, journal, world)
        except BaseExceptionGroup as group:
            raise sole(group) from group

    async def _go_on(
        self,
        solve: Solve,
        samples: list[Sample],
        deliver: Deliver,
        joined: list[EngineJoined],
        journal: Journal,
        world: World,
    ) -> None:
        ours = {TrajectoryId(sample.id): sample for sample in samples}
        self._check_known(world, ours)
        for result in self._recalled(world, ours):
            await deliver(result)
        clock = WallClock(world.now)
        now = clock.now()
        setup = Setup(
            Machine(self._policies, world),
            Ports(clock, journal, self._engines, self._places),
            self._watch,
            self.progress,
            self._timeouts,
            self._fields,
            self._allowed_failures(len(samples)),
            [
                *opening(now, time.time_ns(), self._slots, joined, self._limit),
                *submissions(now, samples, world),
            ],
        )
        todo = {name: sample for name, sample in ours.items() if name not in world.done}
        self._run = Run(setup, solve, todo, deliver)
        async with AsyncExitStack() as stack:
            if self._path is not None:
                await stack.enter_async_context(listening(self._path, lambda order: obey(self, order)))
            self.started.set()
            await self._run.execute()

    def _allowed_failures(self, samples: int) -> int | None:
        budget = self._error_budget
        if budget is None:
            return None
        return int(budget * samples) if 0 < budget < 1 else int(budget)

    # -- the journal ----------------------------------------------------------------------------------------

    def _journal(self) -> AbstractContextManager[tuple[Journal, World]]:
        header = Header(self._settings, self._policies.name, self._source, {"headway": __version__})
        return recorded(self._path, header, self.progress, resume=self._resume)

    def _check_known(self, world: World, ours: Mapping[TrajectoryId, Sample]) -> None:
        strangers = [name for name in (*world.trajectories, *world.failed) if name not in ours]
        if strangers:
            raise ConfigError(
                f"its sample {strangers[0]!r} has no result yet and is not among those given",
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
        self._tell(Paused)

    async def resume(self) -> None:
        """Go on after a pause."""
        self._tell(Resumed)

    async def cancel(self, sample: str) -> None:
        """Give up one sample; its result is a failure that says so. Raises: ``ConfigError`` if it isn't open."""
        self._running().cancel(sample)

    async def set_slots(self, environment: str, slots: int) -> None:
        """Change the slots of an environment; 0: nothing acts there. Raises: ``ConfigError``."""
        name = EnvironmentId(environment)
        known = self._slots.get(name)
        if known is None:
            has = ", ".join(self._slots) or "none"
            raise ConfigError(f"there is no environment {environment!r}", hint=f"there are: {has}")
        if slots < 0:
            raise ConfigError(f"slots must not be negative, is {slots}", where=environment)
        self._tell(lambda now: known.resized(now, name, slots))

    async def set_concurrency(self, live: int | None) -> None:
        """Change how many trajectories may be live; None lifts the limit. Raises: ``ConfigError``."""
        if live is not None and live < 1:
            raise ConfigError(f"must be at least 1, is {live}", where="concurrency", hint="pause the batch instead")
        self._tell(lambda now: LimitChanged(now, live))

    def _tell(self, fact: Callable[[Nanos], Fact]) -> None:
        run = self._running()
        run.report(fact(run.now()))

    def _running(self) -> Run:
        if self._run is None:
            raise ConfigError("the batch is not running", hint="start it, or resume it")
        return self._run
