"""The live driver's heart.

Agents (one task per live trajectory) ask for turns and actions and wait; effects (one task per turn in flight) talk to
engines and report. All of them put facts into one inbox. The owner takes what is there, sorts it canonically, and for
each fact: the machine handles it, the journal gets fact and commands, the commands are performed. A fact that the
machine refuses is late news (a turn that was cancelled meanwhile): it changes nothing and is not recorded.

Reporting never waits, so it can't be cancelled half way: whoever took a number for a turn has asked for it.
"""

import math
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
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
from headway.core.units import EngineId, EnvironmentId, Nanos, StreamId, Tokens, TrajectoryId
from headway.drivers.live.asked import AskedAction, AskedTurn, Service, deny
from headway.drivers.live.engines import Watch, Watcher
from headway.errors import EngineError, FailureKind, RefusedFact, Rejected
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
        self._observe = observe
        # As many facts as there are live streams at most: a report must never block, least of all a clean-up's.
        self._inbox, self._outbox = anyio.create_memory_object_stream[Fact](math.inf)
        self._turns: dict[tuple[TrajectoryId, StreamId, int], AskedTurn] = {}
        self._acts: dict[tuple[TrajectoryId, int], AskedAction] = {}
        self._effects: dict[tuple[TrajectoryId, StreamId, int, int], anyio.CancelScope] = {}
        self._agents: dict[TrajectoryId, anyio.CancelScope] = {}
        self._engines = dict(ports.engines)
        self._watched: dict[EngineId, anyio.CancelScope] = {}
        self._tasks: TaskGroup | None = None
        self._watch = watch
        self._watcher: Watcher | None = None

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Coordinator"]:
        """Serve while the block runs; on leaving, whatever is in flight is cancelled."""
        async with self._inbox, self._outbox, anyio.create_task_group() as tasks:
            tasks.start_soon(self._own, tasks)
            if self._watch is not None:
                self._watcher = Watcher(self._watch, self._ports.clock, self.machine.world, self.report)
                for engine in self._engines.values():
                    self._follow(engine, tasks)
            self._tasks = tasks
            yield self
            self._tasks = None
            tasks.cancel_scope.cancel()

    def attach(self, engine: Engine) -> None:
        """Take another engine in while running; turns go there as soon as it has joined."""
        if self._tasks is not None:
            self._engines[engine.id] = engine
            self._follow(engine, self._tasks)

    def detach(self, engine: EngineId) -> Engine | None:
        """Let an engine go while running: its turns move as if it were lost. Returns it, None if there is none."""
        watched = self._watched.pop(engine, None)
        if watched is not None:
            watched.cancel()
        if engine in self.machine.world.engines:
            self.report(EngineLost(self._now(), engine, "it was taken away"))
        return self._engines.pop(engine, None)

    def _follow(self, engine: Engine, tasks: TaskGroup) -> None:
        if self._watcher is not None:
            scope = self._watched[engine.id] = anyio.CancelScope()
            tasks.start_soon(_within, scope, self._watcher.follow, engine)

    def report(self, fact: Fact) -> None:
        """Put a fact into the inbox. Order of arrival is kept but for facts of one instant.

        Raises: ``anyio.ClosedResourceError`` when nothing is running any more.
        """
        self._inbox.send_nowait(fact)

    def cancel(self, trajectory: TrajectoryId) -> bool:
        """Cancel the agent of a live trajectory, which then abandons it; False if none runs."""
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
        service: Service | None = None,
    ) -> TurnAnswer:
        """Ask for a turn and wait for its answer. Raises: ``Rejected`` when it will never come."""
        if not self._engines:
            raise Rejected("this batch has no engine")
        key = (trajectory, stream, turn)
        waiter = self._turns[key] = AskedTurn(request, service)
        self.report(TurnRequested(self._now(), *key, prompt, max_output))
        try:
            await waiter.done.wait()
        except anyio.get_cancelled_exc_class():
            self.report(TurnWithdrawn(self._now(), *key))
            raise
        finally:
            del self._turns[key]
        if waiter.answer is None:
            raise Rejected(waiter.failure or "no reason given")
        return waiter.answer

    async def slot(
        self, trajectory: TrajectoryId, stream: StreamId, action: int, environment: EnvironmentId
    ) -> GrantAction:
        """Ask for a slot and wait until it is granted. Raises: ``Rejected`` when it never will be."""
        waiter = self._acts[trajectory, action] = AskedAction()
        self.report(ActionRequested(self._now(), trajectory, stream, action, environment))
        try:
            await waiter.done.wait()
        except anyio.get_cancelled_exc_class():
            if waiter.grant is None:
                self.report(ActionWithdrawn(self._now(), trajectory, stream, action))
            else:
                self.free(waiter.grant, Nanos(0), "withdrawn when it was granted")
            raise
        if waiter.grant is None:
            self._acts.pop((trajectory, action), None)
            raise Rejected(waiter.failure or "no reason given")
        return waiter.grant

    def free(self, grant: GrantAction, service: Nanos, failure: str | None = None, kind: FailureKind = "error") -> None:
        """Give a granted slot back: after ``service`` nanoseconds of work, or with a failure."""
        self._acts.pop((grant.trajectory, grant.action), None)
        if failure is None:
            self.report(ActionFinished(self._now(), *_action(grant), service))
        else:
            self.report(ActionFailed(self._now(), *_action(grant), kind, failure))

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
        except RefusedFact as refused:
            self.refused += 1
            self._answer_refused(fact, str(refused))
            return
        self._ports.journal.append(fact, commands)
        if self._observe is not None:
            self._observe(fact, commands)
        self._conclude(fact)
        for command in commands:
            self._perform(command, tasks)

    def _as_it_is_now(self, fact: Fact) -> Fact:
        """Facts race on their way here: none is older than the last, and what was granted can't be withdrawn."""
        if fact.at < self.machine.world.now:
            fact = replace(fact, at=self.machine.world.now)
        if isinstance(fact, ActionWithdrawn):
            act = self._acts.pop((fact.trajectory, fact.action), None)
            if act is not None and act.grant is not None:
                return ActionFailed(fact.at, *_action(act.grant), "error", "withdrawn when it was granted")
        return fact

    def _conclude(self, fact: Fact) -> None:
        """Tell those who wait for this very fact."""
        match fact:
            case TurnFinished():
                turn = self._turns.get((fact.trajectory, fact.stream, fact.turn))
                if turn is not None:
                    turn.answer = turn.heard[fact.attempt]
                    turn.done.set()
            case TrajectoryAbandoned():
                scope = self._agents.get(fact.trajectory)
                if scope is not None:  # given up while it was being admitted
                    scope.cancel()
            case _:
                pass

    def _answer_refused(self, fact: Fact, reason: str) -> None:
        """Whoever asked for what can't be must not wait for it."""
        match fact:
            case TurnRequested():
                deny(self._turns.get((fact.trajectory, fact.stream, fact.turn)), reason)
            case ActionRequested():
                deny(self._acts.get((fact.trajectory, fact.action)), reason)
            case _:
                pass

    def _perform(self, command: Command, tasks: TaskGroup) -> None:
        match command:
            case StartTurn():
                scope = self._effects[_turn(command)] = anyio.CancelScope()
                tasks.start_soon(self._run_turn, command, scope)
            case GrantAction():
                self._grant(command)
            case Admit():
                scope = self._agents[command.trajectory] = anyio.CancelScope()
                tasks.start_soon(self._run_agent, command, scope)
            case CancelTurn():
                running = self._effects.get(_turn(command))
                if running is not None:
                    running.cancel()
            case Reject():
                self._reject(command)
            case WakeAt():
                tasks.start_soon(self._wake, command.at)
            case Drop():
                pass
            case _:
                assert_never(command)

    def _grant(self, grant: GrantAction) -> None:
        act = self._acts.get((grant.trajectory, grant.action))
        if act is None:
            self.free(grant, Nanos(0), "nobody wants it any more")
        else:
            act.grant = grant
            act.done.set()

    def _reject(self, reject: Reject) -> None:
        if reject.item == "turn" and reject.stream is not None and reject.index is not None:
            deny(self._turns.get((reject.trajectory, reject.stream, reject.index)), reject.reason)
        elif reject.item == "action" and reject.index is not None:
            deny(self._acts.get((reject.trajectory, reject.index)), reject.reason)

    # -- effects --------------------------------------------------------------------------------------------

    async def _wake(self, at: Nanos) -> None:
        await self._ports.clock.sleep_until(at)
        self.report(Woke(at))

    async def _run_agent(self, admit: Admit, scope: anyio.CancelScope) -> None:
        end: TrajectoryFinished | TrajectoryAbandoned
        with scope:
            try:
                await anyio.lowlevel.checkpoint_if_cancelled()  # given up before it began
                end = await self._agent(admit)
            except anyio.get_cancelled_exc_class():
                if not scope.cancel_called:
                    await anyio.lowlevel.checkpoint_if_cancelled()  # raises if it is we who are cancelled
                end = TrajectoryAbandoned(self._now(), admit.trajectory, "cancelled")
            finally:
                del self._agents[admit.trajectory]
            self.report(end)

    async def _run_turn(self, start: StartTurn, scope: anyio.CancelScope) -> None:
        waiter = self._turns.get((start.trajectory, start.stream, start.turn))
        try:
            with scope:
                await anyio.lowlevel.checkpoint_if_cancelled()  # stopped before it began
                if waiter is not None:
                    self.report(await self._served(start, waiter))
        finally:
            del self._effects[_turn(start)]

    async def _served(self, start: StartTurn, waiter: AskedTurn) -> TurnFinished | TurnFailed:
        if waiter.service is None:
            return await self._ask(start, waiter)
        waiter.service.start()
        try:
            return await self._ask(start, waiter)
        finally:
            waiter.service.stop()

    def _engine(self, name: EngineId) -> Engine:
        """Raises: ``EngineError`` for one that was taken away meanwhile."""
        if name not in self._engines:
            raise EngineError(f"{name} was taken away", kind="lost")
        return self._engines[name]

    async def _ask(self, start: StartTurn, waiter: AskedTurn) -> TurnFinished | TurnFailed:
        try:
            answer = await self._engine(start.engine).turn(start, waiter.request)
        except EngineError as error:
            if error.kind == "lost" and self._watcher is not None:
                self._watcher.suspect(start.engine)
            after = None if error.retry_after is None else Nanos(error.retry_after)
            return TurnFailed(self._now(), *_turn(start), error.kind, str(error), after)
        waiter.heard[start.attempt] = answer
        return TurnFinished(
            self._now(),
            *_turn(start),
            answer.prompt_tokens,
            answer.output_tokens,
            answer.service,
            answer.cached_tokens,
            answer.engine_queue,
        )


async def _within(scope: anyio.CancelScope, follow: Callable[[Engine], Awaitable[None]], engine: Engine) -> None:
    with scope:
        await follow(engine)


def _turn(command: StartTurn | CancelTurn) -> tuple[TrajectoryId, StreamId, int, int]:
    return (command.trajectory, command.stream, command.turn, command.attempt)


def _action(grant: GrantAction) -> tuple[TrajectoryId, StreamId, int, int]:
    return (grant.trajectory, grant.stream, grant.action, grant.attempt)
