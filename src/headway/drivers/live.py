"""Real clock, real engines, real environments. One task owns the machine; every other only reports facts.

:class:`Coordinator` is the whole of it. Agents (one task per live trajectory) ask it for turns and actions and wait;
effects (one task per turn in flight) talk to engines and report. All of them put facts into one inbox. The owner takes
what is there, sorts it canonically, and for each fact: the machine handles it, the journal gets fact and commands,
the commands are performed. A fact that the machine refuses is late news (a turn that was cancelled meanwhile): it
changes nothing and is not recorded.
"""

import math
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import assert_never

import anyio
from anyio.abc import TaskGroup
from msgspec.structs import replace

from headway.core.commands import Admit, CancelTurn, Command, Drop, GrantAction, Reject, StartTurn, WakeAt
from headway.core.facts import (
    ActionFailed,
    ActionFinished,
    ActionRequested,
    ActionWithdrawn,
    EngineJoined,
    EngineLost,
    Fact,
    TrajectoryAbandoned,
    TrajectoryFinished,
    TurnFailed,
    TurnFinished,
    TurnRequested,
    TurnWithdrawn,
    Woke,
    canonical,
)
from headway.core.machine import Machine
from headway.core.units import SECOND, EngineId, EnvironmentId, Nanos, StreamId, Tokens, TrajectoryId
from headway.errors import BoundaryError, ConfigError, EngineError, RefusedFact, Rejected, SandboxError
from headway.ports import Clock, Engine, Environment, Journal, TurnAnswer, TurnRequest

Agent = Callable[[Admit], Awaitable[TrajectoryFinished | TrajectoryAbandoned]]
"""Runs one attempt at a trajectory and says how it ended. It never raises but for cancellation."""

_QUIET_ROUNDS = 4
"""Scheduler rounds without news after which the facts of one instant are taken to be all there."""

_BATCH = 512


@dataclass(frozen=True, slots=True)
class Ports:
    """The outside world, as one argument."""

    clock: Clock
    journal: Journal
    engines: Mapping[EngineId, Engine]
    environments: Mapping[EnvironmentId, Environment]


@dataclass(frozen=True, slots=True)
class Watch:
    """How engines are watched: look every ``interval``; with none alive for ``patience``, the batch stops.

    An engine that doesn't answer ``deaf`` looks in a row, and yet isn't plainly gone, is taken to be lost too.
    """

    interval: Nanos = Nanos(2 * SECOND)
    patience: Nanos = Nanos(60 * SECOND)
    deaf: int = 5


class NoEngineError(BoundaryError):
    """No engine has been alive for longer than the patience; the batch stopped and can be resumed."""


@dataclass(slots=True, eq=False)
class _Turn:
    """A turn that an agent waits for."""

    request: TurnRequest
    done: anyio.Event = field(default_factory=anyio.Event)
    started: Nanos | None = None
    answer: TurnAnswer | None = None
    failure: str | None = None


@dataclass(slots=True, eq=False)
class _Act:
    """An action that an agent waits for, or holds."""

    done: anyio.Event = field(default_factory=anyio.Event)
    grant: GrantAction | None = None
    failure: str | None = None


class Coordinator:
    """Owns the machine, and is the only one who touches it."""

    def __init__(
        self,
        machine: Machine,
        ports: Ports,
        agent: Agent,
        *,
        watch: Watch | None = None,
        observe: Callable[[Fact, Sequence[Command]], None] | None = None,
    ) -> None:
        """``watch`` None: engines are not watched (tests on a virtual clock). ``observe`` sees what is recorded."""
        self.machine = machine
        self.refused = 0
        self._ports = ports
        self._agent = agent
        self._watch = watch
        self._observe = observe
        # As many facts as there are live streams at most: a report must never block, least of all a clean-up's.
        self._inbox, self._outbox = anyio.create_memory_object_stream[Fact](math.inf)
        self._turns: dict[tuple[TrajectoryId, StreamId], _Turn] = {}
        self._acts: dict[tuple[TrajectoryId, int], _Act] = {}
        self._effects: dict[tuple[TrajectoryId, StreamId, int, int], anyio.CancelScope] = {}
        self._agents: dict[TrajectoryId, anyio.CancelScope] = {}
        self._suspect: dict[EngineId, anyio.Event] = {}
        self._alive_since: Nanos = Nanos(0)

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Coordinator"]:
        """Serve while the block runs; on leaving, whatever is in flight is cancelled."""
        async with self._inbox, self._outbox, anyio.create_task_group() as tasks:
            tasks.start_soon(self._own, tasks)
            if self._watch is not None:
                for engine in self._ports.engines.values():
                    tasks.start_soon(self._watch_engine, engine, self._watch)
            yield self
            tasks.cancel_scope.cancel()

    async def report(self, fact: Fact) -> None:
        """Put a fact into the inbox. Order of arrival is kept but for facts of one instant."""
        await self._inbox.send(fact)

    def cancel(self, trajectory: TrajectoryId) -> bool:
        """Cancel the agent of a live trajectory; False if it is not live."""
        scope = self._agents.get(trajectory)
        if scope is not None:
            scope.cancel()
        return scope is not None

    # -- what agents call -----------------------------------------------------------------------------------

    async def turn(
        self,
        trajectory: TrajectoryId,
        stream: StreamId,
        turn: int,
        request: TurnRequest,
        *,
        prompt: Tokens,
        max_output: Tokens | None,
    ) -> TurnAnswer:
        """Ask for a turn and wait for its answer. Raises: ``Rejected`` when it will never come."""
        waiter = self._turns[trajectory, stream] = _Turn(request)
        await self.report(TurnRequested(self._now(), trajectory, stream, turn, prompt, max_output))
        try:
            await waiter.done.wait()
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                await self.report(TurnWithdrawn(self._now(), trajectory, stream, turn))
            raise
        finally:
            self._turns.pop((trajectory, stream), None)
        if waiter.answer is None:
            raise Rejected(waiter.failure or "no reason given")
        return waiter.answer

    async def slot(
        self, trajectory: TrajectoryId, stream: StreamId, action: int, environment: EnvironmentId
    ) -> GrantAction:
        """Ask for a slot and wait until it is granted. Raises: ``Rejected`` when it never will be."""
        waiter = self._acts[trajectory, action] = _Act()
        await self.report(ActionRequested(self._now(), trajectory, stream, action, environment))
        try:
            await waiter.done.wait()
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                await self._give_up(trajectory, stream, action, waiter)
            raise
        if waiter.grant is None:
            del self._acts[trajectory, action]
            raise Rejected(waiter.failure or "no reason given")
        return waiter.grant

    async def _give_up(self, trajectory: TrajectoryId, stream: StreamId, action: int, waiter: _Act) -> None:
        if waiter.grant is None:
            await self.report(ActionWithdrawn(self._now(), trajectory, stream, action))
        else:
            await self.free(waiter.grant, None, "withdrawn when it was granted")

    async def free(self, grant: GrantAction, service: Nanos | None, failure: str | None = None) -> None:
        """Give a granted slot back: after ``service`` nanoseconds of work, or with a failure."""
        self._acts.pop((grant.trajectory, grant.action), None)
        who = (grant.trajectory, grant.stream, grant.action, grant.attempt)
        if failure is None:
            await self.report(ActionFinished(self._now(), *who, service or Nanos(0)))
        else:
            await self.report(ActionFailed(self._now(), *who, "error", failure))

    # -- the owner ------------------------------------------------------------------------------------------

    def _now(self) -> Nanos:
        return self._ports.clock.now()

    async def _own(self, tasks: TaskGroup) -> None:
        while True:
            for fact in sorted(await self._news(), key=canonical):
                self._apply(fact, tasks)

    async def _news(self) -> list[Fact]:
        """Every fact of this instant: what is there, and what running tasks are about to report."""
        facts = [await self._outbox.receive()]
        quiet = 0
        while quiet < _QUIET_ROUNDS and len(facts) < _BATCH:
            await anyio.lowlevel.checkpoint()
            quiet += 1
            while self._outbox.statistics().current_buffer_used:
                facts.append(self._outbox.receive_nowait())
                quiet = 0
        return facts

    def _apply(self, fact: Fact, tasks: TaskGroup) -> None:
        fact = self._as_it_is_now(fact)
        try:
            commands = self.machine.handle(fact)
        except RefusedFact:
            self.refused += 1
            return
        self._ports.journal.append(fact, commands)
        if self._observe is not None:
            self._observe(fact, commands)
        if isinstance(fact, TurnFinished) and (turn := self._turns.get((fact.trajectory, fact.stream))):
            turn.done.set()
        for command in commands:
            self._perform(command, tasks)

    def _as_it_is_now(self, fact: Fact) -> Fact:
        """Facts race on their way here: none is older than the last, and what was granted can't be withdrawn."""
        if fact.at < self.machine.world.now:
            fact = replace(fact, at=self.machine.world.now)
        if isinstance(fact, ActionWithdrawn):
            act = self._acts.pop((fact.trajectory, fact.action), None)
            if act is not None and (grant := act.grant) is not None:
                who = (grant.trajectory, grant.stream, grant.action, grant.attempt)
                return ActionFailed(fact.at, *who, "error", "withdrawn when it was granted")
        return fact

    def _perform(self, command: Command, tasks: TaskGroup) -> None:
        match command:
            case StartTurn():
                tasks.start_soon(self._run_turn, command)
            case GrantAction():
                act = self._acts.get((command.trajectory, command.action))
                if act is not None:
                    act.grant = command
                    act.done.set()
            case Admit():
                tasks.start_soon(self._run_agent, command)
            case CancelTurn():
                key = (command.trajectory, command.stream, command.turn, command.attempt)
                if (scope := self._effects.get(key)) is not None:
                    scope.cancel()
            case Reject():
                self._reject(command)
            case WakeAt():
                tasks.start_soon(self._wake, command.at)
            case Drop():
                pass
            case _:
                assert_never(command)

    def _reject(self, reject: Reject) -> None:
        waiter: _Turn | _Act | None = None
        if reject.item == "turn" and reject.stream is not None:
            waiter = self._turns.get((reject.trajectory, reject.stream))
        elif reject.item == "action" and reject.index is not None:
            waiter = self._acts.get((reject.trajectory, reject.index))
        if waiter is not None:
            waiter.failure = reject.reason
            waiter.done.set()

    # -- effects --------------------------------------------------------------------------------------------

    async def _wake(self, at: Nanos) -> None:
        await self._ports.clock.sleep_until(at)
        await self.report(Woke(at))

    async def _run_agent(self, admit: Admit) -> None:
        with anyio.CancelScope() as scope:
            self._agents[admit.trajectory] = scope
            try:
                end = await self._agent(admit)
            except anyio.get_cancelled_exc_class():
                end = TrajectoryAbandoned(self._now(), admit.trajectory, "cancelled")
                if not scope.cancel_called:
                    raise
            finally:
                self._agents.pop(admit.trajectory, None)
            with anyio.CancelScope(shield=True):
                await self.report(end)

    async def _run_turn(self, start: StartTurn) -> None:
        key = (start.trajectory, start.stream, start.turn, start.attempt)
        waiter = self._turns.get((start.trajectory, start.stream))
        if waiter is None:
            return
        waiter.started = self._now()
        with anyio.CancelScope() as scope:
            self._effects[key] = scope
            try:
                fact = await self._ask(start, waiter)
            finally:
                self._effects.pop(key, None)
            await self.report(fact)

    async def _ask(self, start: StartTurn, waiter: _Turn) -> TurnFinished | TurnFailed:
        who = (start.trajectory, start.stream, start.turn, start.attempt)
        try:
            answer = await self._ports.engines[start.engine].turn(start, waiter.request)
        except EngineError as error:
            if error.kind == "lost" and start.engine in self._suspect:
                self._suspect[start.engine].set()
            after = None if error.retry_after is None else Nanos(error.retry_after)
            return TurnFailed(self._now(), *who, error.kind, str(error), after)
        waiter.answer = answer
        return TurnFinished(
            self._now(),
            *who,
            answer.prompt_tokens,
            answer.output_tokens,
            answer.service,
            answer.cached_tokens,
            answer.engine_queue,
        )

    # -- engines --------------------------------------------------------------------------------------------

    async def _watch_engine(self, engine: Engine, watch: Watch) -> None:
        """Report what an engine says of itself, that it is gone, and that it is back."""
        deaf = 0
        while True:
            suspect = self._suspect[engine.id] = anyio.Event()
            with anyio.move_on_after(watch.interval / SECOND):
                await suspect.wait()
            known = engine.id in self.machine.world.engines
            cause, slow = await self._look(engine, known=known)
            deaf = deaf + 1 if slow else 0
            if cause is None or (slow and deaf < watch.deaf):
                self._alive_since = self._now()
            elif known:
                await self.report(EngineLost(self._now(), engine.id, cause))
            elif not self.machine.world.engines and self._now() - self._alive_since > watch.patience:
                waited = watch.patience // SECOND
                raise NoEngineError(f"no engine has been alive for {waited} s; the last to fail, {engine.id}: {cause}")

    async def _look(self, engine: Engine, *, known: bool) -> tuple[str | None, bool]:
        """Look at an engine and report what it says. Returns what is wrong, if something is; and if it may be slow."""
        try:
            if known:
                sample = await engine.sample(self._now())
                if sample is not None:
                    await self.report(sample)
                return None, False
            joined: EngineJoined = await engine.join(self._now())
        except (EngineError, ConfigError) as error:
            return str(error), known and isinstance(error, EngineError) and error.kind != "lost"
        await self.report(joined)
        return None, False


async def occupy(
    coordinator: Coordinator, environment: Environment, grant: GrantAction, clock: Clock
) -> AsyncIterator[object]:
    """Hold a granted slot around one ``yield`` of the place; free it afterwards, whatever happened.

    The slot is freed only when the environment has really let go. Meant for ``asynccontextmanager``.
    """
    began = clock.now()
    failure: str | None = None
    try:
        place = await environment.enter(grant)
        yield place
    except anyio.get_cancelled_exc_class():
        failure = "cancelled"
        raise
    except SandboxError as error:
        failure = str(error)
        raise
    except BaseException as error:
        failure = f"{type(error).__name__}: {error}"
        raise
    finally:
        with anyio.CancelScope(shield=True):
            await environment.leave(grant)
            await coordinator.free(grant, Nanos(clock.now() - began), failure)
