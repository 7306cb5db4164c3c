"""Turns on engines and actions in environments: who waits, who is served, and what it took."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headway.core.commands import CancelTurn, Command, GrantAction, Reject, StartTurn
from headway.core.facts import (
    ActionFailed,
    ActionFinished,
    ActionRequested,
    ActionWithdrawn,
    EngineJoined,
    FailureKind,
    SlotsChanged,
    TurnFailed,
    TurnFinished,
    TurnRequested,
    TurnWithdrawn,
)
from headway.core.progress.lives import Lives
from headway.core.progress.records import Chain, Engine, Errand, Lane, Use
from headway.core.units import EngineId, Nanos, Tokens


@dataclass(frozen=True, slots=True)
class TurnSample:
    """One finished turn as a latency model sees it.

    ``new``: prompt tokens computed, as reported, else as expected. ``batch`` and ``context``: turns that ran on its
    engine and tokens of their contexts, means over its time there, itself included.
    """

    engine: EngineId
    prompt: Tokens
    new: Tokens
    output: Tokens
    service: Nanos
    batch: float
    context: float


class Services(Lives):
    """Engines and environments."""

    def __init__(self, on_turn: Callable[[TurnSample], None] | None) -> None:
        super().__init__()
        self._on_turn = on_turn
        self.alive_engines = self.most_engines = 0
        self.turn_failures: Counter[FailureKind] = Counter()
        self.turn_retries: Counter[FailureKind] = Counter()
        self.action_failures: Counter[FailureKind] = Counter()
        self.action_retries: Counter[FailureKind] = Counter()

    # -- turns ------------------------------------------------------------------------------------------------

    def _turn_requested(self, fact: TurnRequested) -> None:
        chain = self.chains[fact.trajectory]
        lane = chain.lanes.get(fact.stream)
        if lane is None:
            lane = chain.lanes[fact.stream] = Lane(counted=self.now)
        lane.turn, lane.prompt = fact.turn, fact.prompt_tokens
        lane.since, lane.waited = self.now, 0
        chain.asking += 1
        self._settle(chain)

    def _turn_started(self, command: StartTurn) -> None:
        now = self.now
        chain = self.chains[command.trajectory]
        lane = chain.lanes[command.stream]
        engine = self.engine(command.engine)
        engine.advance(now)
        if lane.engine not in {"", command.engine}:
            engine.moved += 1
        lane.waited += now - lane.since
        engine.waited += now - lane.since
        engine.longest_wait = max(engine.longest_wait, lane.waited)
        engine.running += 1
        engine.tokens += lane.prompt
        lane.engine, lane.expected = command.engine, command.expected_cached
        lane.running, lane.since = True, now
        lane.area, lane.context_area = engine.area, engine.context_area
        chain.asking -= 1
        chain.turning += 1
        self._settle(chain)

    def _turn_finished(self, fact: TurnFinished) -> None:
        chain = self.chains[fact.trajectory]
        lane = chain.lanes[fact.stream]
        engine = self.engines[lane.engine]
        span = self.now - lane.since
        self._end_turn(chain, lane)
        self._count_turn(engine, lane, fact)
        if self._on_turn is not None:
            self._on_turn(_sample(fact, engine, lane, span))
        work = chain.work
        self.live_lengths[work.turns] -= 1
        work.turns += 1
        self.live_lengths[work.turns] += 1
        if work.turns == 1:
            work.first_prompt = fact.prompt_tokens
        work.prompt += fact.prompt_tokens
        work.cached += fact.cached_tokens or 0
        work.output += fact.output_tokens
        work.new += max(0, fact.prompt_tokens - lane.context)
        work.weighted += fact.output_tokens * (2 * fact.prompt_tokens + fact.output_tokens)
        work.turn_service = Nanos(work.turn_service + fact.service)
        lane.context = fact.prompt_tokens + fact.output_tokens
        lane.serve(fact.service, self.now)
        self._settle(chain)

    def _count_turn(self, engine: Engine, lane: Lane, fact: TurnFinished) -> None:
        engine.turns += 1
        engine.prompt += fact.prompt_tokens
        engine.output += fact.output_tokens
        engine.service += fact.service
        if fact.cached_tokens is not None:
            engine.reporting += 1
            engine.reported += fact.prompt_tokens
            engine.cached += fact.cached_tokens
            engine.expected += lane.expected
            if fact.turn:
                reusable = min(fact.prompt_tokens, lane.context)
                engine.reusable += reusable
                engine.reused += min(fact.cached_tokens, reusable)

    def _turn_failed(self, fact: TurnFailed, commands: Sequence[Command]) -> None:
        chain = self.chains[fact.trajectory]
        lane = chain.lanes[fact.stream]
        self.turn_failures[fact.kind] += 1
        self.engines[lane.engine].failed += 1
        self._stop(chain, lane)
        if not _gives_up(commands, chain):
            self.turn_retries[fact.kind] += 1
        self._settle(chain)

    def _turn_cancelled(self, command: CancelTurn) -> None:
        """Its engine is lost: it waits again. Where the agent or the trajectory gave it up, the fact said so."""
        chain = self.chains[command.trajectory]
        lane = chain.lanes.get(command.stream)
        if lane is not None and lane.running and lane.turn == command.turn:
            self._stop(chain, lane)
            self._settle(chain)

    # -- actions ----------------------------------------------------------------------------------------------

    def _action_requested(self, fact: ActionRequested) -> None:
        environment = self.environments.get(fact.environment)
        if environment is None:  # it is rejected by the command beside it
            return
        chain = self.chains[fact.trajectory]
        chain.errands[fact.action] = Errand(fact.stream, fact.environment, self.now)
        chain.wanting += 1
        environment.queued += 1
        self._settle(chain)

    def _action_granted(self, command: GrantAction) -> None:
        now = self.now
        chain = self.chains[command.trajectory]
        errand = chain.errands[command.action]
        environment = self.environments[command.environment]
        environment.advance(now)
        environment.queued -= 1
        environment.busy += 1
        errand.waited += now - errand.since
        environment.waited += now - errand.since
        environment.longest_wait = max(environment.longest_wait, errand.waited)
        errand.running, errand.since = True, now
        chain.wanting -= 1
        chain.acting += 1
        self._settle(chain)

    def _action_finished(self, fact: ActionFinished) -> None:
        chain = self.chains[fact.trajectory]
        name = chain.errands[fact.action].environment
        self._end_action(chain, fact.action)
        environment = self.environments[name]
        environment.actions += 1
        environment.service += fact.service
        work = chain.work
        use = work.uses.get(name)
        if use is None:
            use = work.uses[name] = Use()
        use.actions += 1
        use.service = Nanos(use.service + fact.service)
        work.actions += 1
        work.action_service = Nanos(work.action_service + fact.service)
        lane = chain.lanes.get(fact.stream)
        if lane is None:
            lane = chain.lanes[fact.stream] = Lane(counted=chain.admitted)
        before = lane.served
        lane.serve(fact.service, self.now)
        head = lane.marks[name][0] if name in lane.marks else before
        lane.marks[name] = (head, lane.served)
        self._settle(chain)

    def _action_failed(self, fact: ActionFailed, commands: Sequence[Command]) -> None:
        chain = self.chains[fact.trajectory]
        errand = chain.errands[fact.action]
        self.action_failures[fact.kind] += 1
        self.environments[errand.environment].failed += 1
        if fact.kind != "lost":
            self._end_action(chain, fact.action)
        else:
            self._suspend(chain, errand)
            if not _gives_up(commands, chain):
                self.action_retries[fact.kind] += 1
        self._settle(chain)

    def _withdrawn(self, fact: TurnWithdrawn | ActionWithdrawn) -> None:
        chain = self.chains[fact.trajectory]
        if isinstance(fact, TurnWithdrawn):
            self._end_turn(chain, chain.lanes[fact.stream])
        else:
            self._end_action(chain, fact.action)
        self._settle(chain)

    def _rejected(self, command: Reject) -> None:
        chain = self.chains[command.trajectory]
        if command.item == "sample":
            self._fail(chain, command.reason)
            return
        index = -1 if command.index is None else command.index
        lane = None if command.stream is None else chain.lanes.get(command.stream)
        if command.item == "action":
            self._end_action(chain, index)
        elif lane is not None and lane.turn == index:
            self._end_turn(chain, lane)
        self._settle(chain)

    # -- engines and environments -----------------------------------------------------------------------------

    def _engine_joined(self, fact: EngineJoined) -> None:
        engine = self.engine(fact.engine)
        engine.kind, engine.kv_tokens, engine.max_running = fact.kind, fact.kv_tokens, fact.max_running
        if not engine.alive:
            engine.alive = True
            self.alive_engines += 1
            self.most_engines = max(self.most_engines, self.alive_engines)

    def _engine_gone(self, engine: Engine) -> None:
        if engine.alive:
            engine.alive = False
            self.alive_engines -= 1

    def _slots_changed(self, fact: SlotsChanged) -> None:
        environment = self.environment(fact.environment)
        environment.advance(self.now)
        environment.slots, environment.instances = fact.slots, fact.instances
        environment.most_slots = max(environment.most_slots, fact.slots)


def _gives_up(commands: Sequence[Command], chain: Chain) -> bool:
    return any(isinstance(command, Reject) and command.trajectory == chain.id for command in commands)


def _sample(fact: TurnFinished, engine: Engine, lane: Lane, span: int) -> TurnSample:
    found = lane.expected if fact.cached_tokens is None else fact.cached_tokens
    batch = (engine.area - lane.area) / span if span else 1.0
    context = (engine.context_area - lane.context_area) / span if span else float(lane.prompt)
    new = Tokens(max(0, fact.prompt_tokens - found))
    return TurnSample(
        engine.id, fact.prompt_tokens, new, fact.output_tokens, fact.service, batch, context + fact.output_tokens / 2
    )
