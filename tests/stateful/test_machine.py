"""Any legal order of facts, some illegal ones between, and what must hold after each."""

from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from headway.core.commands import Admit, CancelTurn, Command, Drop, GrantAction, Reject, StartTurn, WakeAt
from headway.core.facts import (
    ActionFailed,
    ActionFinished,
    ActionRequested,
    ActionWithdrawn,
    CoordinatorStarted,
    EngineJoined,
    EngineLost,
    EngineSampled,
    Fact,
    LimitChanged,
    Paused,
    Resumed,
    SampleSubmitted,
    SlotsChanged,
    TrajectoryAbandoned,
    TrajectoryFinished,
    TurnFailed,
    TurnFinished,
    TurnRequested,
    TurnWithdrawn,
    Woke,
)
from headway.core.machine import Machine
from headway.core.policy import Policies
from headway.core.units import EngineId, EnvironmentId, GroupId, Nanos, StreamId, Tokens, TrajectoryId
from headway.core.world import Doing, Phase, World
from headway.errors import RefusedFact
from headway.policies.presets import NAMES, preset

PRESETS = [name for name in NAMES if name != "static-N"]
ENVIRONMENTS = [EnvironmentId("bash"), EnvironmentId("search")]
STREAMS = [StreamId("main"), StreamId("helper")]
EVERY = st.integers(0, 10_000)


def snapshot(world: World) -> object:
    return (
        world.now,
        world.live,
        world.turning,
        world.acting,
        world.live_tokens,
        world.limit,
        world.paused,
        sorted(world.done),
        sorted(world.failed),
        [
            (t.id, t.phase, t.attempt, t.completed, t.attained, t.next_action, sorted(t.held), sorted(t.instances))
            for t in world.trajectories.values()
        ],
        [
            (t.id, s.id, s.turn, s.doing, s.context, s.resident, s.reserved, s.engine and s.engine.id)
            for t in world.trajectories.values()
            for s in t.streams.values()
        ],
        [(t.id, a.index, a.doing, a.attempt) for t in world.trajectories.values() for a in t.actions.values()],
        [(e.id, e.running, e.homed, e.active, e.idle, e.held) for e in world.engines.values()],
        [(e.id, e.slots, e.busy, e.claimed) for e in world.environments.values()],
        [(g.id, g.actions, g.finished) for g in world.groups.values()],
    )


class AnyOrderOfFacts(RuleBasedStateMachine):
    """The world outside, as a driver would report it."""

    def __init__(self) -> None:
        super().__init__()
        self.machine: Machine
        self.now = 0
        self.born = 0
        self.joined = 0
        self.turns: dict[tuple[TrajectoryId, StreamId], StartTurn] = {}
        self.grants: dict[tuple[TrajectoryId, int], GrantAction] = {}
        self.wanted_turns: set[tuple[TrajectoryId, StreamId]] = set()
        self.wanted_actions: set[tuple[TrajectoryId, StreamId, int]] = set()
        self.live: set[TrajectoryId] = set()
        self.pending: set[TrajectoryId] = set()
        self.over: set[TrajectoryId] = set()
        self.submitted: set[TrajectoryId] = set()
        self.wakes: list[int] = []
        self.issued: set[tuple[object, ...]] = set()

    @initialize(name=st.sampled_from(PRESETS), overtakes=st.sampled_from([0, 2, 512]))
    def begin(self, name: str, overtakes: int) -> None:
        policies = preset(name)[0]
        fields = {f: getattr(policies, f) for f in Policies.__slots__} | {"overtakes": overtakes}
        self.machine = Machine(Policies(**fields))
        for environment in ENVIRONMENTS:
            self.tell(lambda at, e=environment: SlotsChanged(at, e, 2))
        self.join(5000, 3, 2)

    # -- telling and absorbing --------------------------------------------------------------------------------

    @property
    def world(self) -> World:
        return self.machine.world

    def tell(self, fact: Callable[[Nanos], Fact], by: int = 1) -> None:
        self.now += by
        for command in self.machine.handle(fact(Nanos(self.now))):
            self.absorb(command)

    def absorb(self, command: Command) -> None:
        match command:
            case Admit():
                assert command.trajectory in self.pending, "admitted what was not pending"
                self.pending.remove(command.trajectory)
                self.live.add(command.trajectory)
            case StartTurn():
                key = (command.trajectory, command.stream)
                assert key in self.wanted_turns, "a turn started that nobody wants"
                assert key not in self.turns, "two turns of one stream"
                self.once("turn", *key, command.turn, command.attempt)
                self.turns[key] = command
            case GrantAction():
                self.wanted_actions.remove((command.trajectory, command.stream, command.action))
                self.once("action", command.trajectory, command.action, command.attempt)
                self.grants[command.trajectory, command.action] = command
            case CancelTurn():
                gone = self.turns.pop((command.trajectory, command.stream))
                assert (gone.turn, gone.attempt, gone.engine) == (command.turn, command.attempt, command.engine)
            case Reject():
                self.rejected(command)
            case WakeAt():
                assert command.at > self.now, "a wake-up in the past"
                self.wakes.append(command.at)
            case Drop():
                pass

    def once(self, *identity: object) -> None:
        assert identity not in self.issued, f"{identity} was issued twice"
        self.issued.add(identity)

    def rejected(self, command: Reject) -> None:
        if command.item == "sample":
            self.pending.remove(command.trajectory)
            self.over.add(command.trajectory)
        elif command.item == "turn":
            assert command.stream is not None
            self.wanted_turns.remove((command.trajectory, command.stream))
        else:
            self.wanted_actions.discard((command.trajectory, command.stream, command.index))

    def left(self, trajectory: TrajectoryId) -> None:
        self.live.discard(trajectory)
        self.wanted_turns = {w for w in self.wanted_turns if w[0] != trajectory}
        self.wanted_actions = {w for w in self.wanted_actions if w[0] != trajectory}
        self.grants = {k: g for k, g in self.grants.items() if k[0] != trajectory}

    # -- samples ----------------------------------------------------------------------------------------------

    @rule(prompt=st.integers(0, 3000), group=st.sampled_from([None, "g", "h"]), by=st.integers(0, 9))
    def submit(self, prompt: int, group: str | None, by: int) -> None:
        self.born += 1
        name = TrajectoryId(f"t{self.born:03}")
        self.submitted.add(name)
        self.pending.add(name)
        some = () if self.born % 3 else (ENVIRONMENTS[0],)
        self.tell(
            lambda at: SampleSubmitted(
                at, name, self.born, group and GroupId(group), Tokens(prompt), float(prompt % 7), some
            ),
            by,
        )

    @precondition(lambda self: self.live)
    @rule(pick=EVERY, again=st.booleans(), finished=st.booleans())
    def end(self, pick: int, again: bool, finished: bool) -> None:
        name = sorted(self.live)[pick % len(self.live)]
        self.left(name)
        if finished:
            self.over.add(name)
            self.tell(lambda at: TrajectoryFinished(at, name))
            return
        (self.pending if again else self.over).add(name)
        self.tell(lambda at: TrajectoryAbandoned(at, name, "it failed", again))

    @precondition(lambda self: self.pending)
    @rule(pick=EVERY)
    def cancel_a_pending_sample(self, pick: int) -> None:
        name = sorted(self.pending)[pick % len(self.pending)]
        self.pending.remove(name)
        self.over.add(name)
        self.tell(lambda at: TrajectoryAbandoned(at, name, "cancelled"))

    # -- turns ------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.live)
    @rule(
        pick=EVERY, stream=st.sampled_from(STREAMS), grown=st.integers(1, 900), most=st.sampled_from([None, 50, 4000])
    )
    def ask_for_a_turn(self, pick: int, stream: StreamId, grown: int, most: int | None) -> None:
        name = sorted(self.live)[pick % len(self.live)]
        if (name, stream) in self.wanted_turns:
            return
        self.wanted_turns.add((name, stream))
        known = self.world.trajectories[name].streams.get(stream)
        turn, context = (0, 0) if known is None else (known.turn + 1, known.context)
        limit = None if most is None else Tokens(most)
        self.tell(lambda at: TurnRequested(at, name, stream, turn, Tokens(context + grown), limit))

    @precondition(lambda self: self.turns)
    @rule(pick=EVERY, output=st.integers(0, 400))
    def a_turn_ends(self, pick: int, output: int) -> None:
        start = self.pop_turn(pick)
        self.wanted_turns.remove((start.trajectory, start.stream))
        prompt = Tokens(self.world.trajectories[start.trajectory].streams[start.stream].prompt)
        who = (start.trajectory, start.stream, start.turn, start.attempt)
        self.tell(lambda at: TurnFinished(at, *who, prompt, Tokens(output), Nanos(5)))

    @precondition(lambda self: self.turns)
    @rule(pick=EVERY, kind=st.sampled_from(["lost", "overloaded", "timeout", "invalid", "auth", "error"]))
    def a_turn_fails(self, pick: int, kind: str) -> None:
        start = self.pop_turn(pick)
        who = (start.trajectory, start.stream, start.turn, start.attempt)
        self.tell(lambda at: TurnFailed(at, *who, kind, "no answer", Nanos(10) if pick % 2 else None))  # type: ignore[arg-type]

    @precondition(lambda self: self.wanted_turns)
    @rule(pick=EVERY)
    def a_turn_is_withdrawn(self, pick: int) -> None:
        name, stream = sorted(self.wanted_turns)[pick % len(self.wanted_turns)]
        self.wanted_turns.remove((name, stream))
        turn = self.world.trajectories[name].streams[stream].turn
        self.tell(lambda at: TurnWithdrawn(at, name, stream, turn))

    def pop_turn(self, pick: int) -> StartTurn:
        return self.turns.pop(sorted(self.turns)[pick % len(self.turns)])

    # -- actions ----------------------------------------------------------------------------------------------

    @precondition(lambda self: self.live)
    @rule(pick=EVERY, environment=st.sampled_from([*ENVIRONMENTS, EnvironmentId("nowhere")]))
    def ask_for_an_action(self, pick: int, environment: EnvironmentId) -> None:
        name = sorted(self.live)[pick % len(self.live)]
        action = self.world.trajectories[name].next_action
        self.wanted_actions.add((name, STREAMS[0], action))
        self.tell(lambda at: ActionRequested(at, name, STREAMS[0], action, environment))

    @precondition(lambda self: self.grants)
    @rule(pick=EVERY, failure=st.sampled_from([None, "lost", "error"]))
    def an_action_ends(self, pick: int, failure: str | None) -> None:
        grant = self.grants.pop(sorted(self.grants)[pick % len(self.grants)])
        who = (grant.trajectory, grant.stream, grant.action, grant.attempt)
        if failure is None:
            self.tell(lambda at: ActionFinished(at, *who, Nanos(7)))
            return
        if failure == "lost":
            self.wanted_actions.add((grant.trajectory, grant.stream, grant.action))
        self.tell(lambda at: ActionFailed(at, *who, failure, "it broke"))  # type: ignore[arg-type]

    @precondition(lambda self: self.wanted_actions)
    @rule(pick=EVERY)
    def an_action_is_withdrawn(self, pick: int) -> None:
        name, stream, action = sorted(self.wanted_actions)[pick % len(self.wanted_actions)]
        self.wanted_actions.remove((name, stream, action))
        self.tell(lambda at: ActionWithdrawn(at, name, stream, action))

    # -- surroundings -----------------------------------------------------------------------------------------

    @rule(
        kv=st.sampled_from([None, 2000, 5000]),
        states=st.sampled_from([None, 1, 3]),
        running=st.sampled_from([None, 1, 2]),
    )
    def join(self, kv: int | None, states: int | None, running: int | None) -> None:
        if len(self.world.engines) == 3:
            return
        self.joined += 1
        tokens = None if kv is None else Tokens(kv)
        self.tell(
            lambda at: EngineJoined(at, EngineId(f"e{self.joined}"), "model", tokens, states, max_running=running)
        )

    @precondition(lambda self: self.world.engines)
    @rule(pick=EVERY)
    def lose(self, pick: int) -> None:
        name = sorted(self.world.engines)[pick % len(self.world.engines)]
        self.tell(lambda at: EngineLost(at, name, "gone"))
        assert all(start.engine != name for start in self.turns.values()), "a turn runs on a lost engine"

    @precondition(lambda self: self.world.engines)
    @rule()
    def sample(self) -> None:
        name = min(self.world.engines)
        self.tell(lambda at: EngineSampled(at, name, 1, 0, 0.5, 0))

    @rule(
        environment=st.sampled_from(ENVIRONMENTS),
        slots=st.integers(0, 3),
        instances=st.sampled_from([None, 1, 2]),
        interval=st.sampled_from([0, 0, 50]),
    )
    def resize(self, environment: EnvironmentId, slots: int, instances: int | None, interval: int) -> None:
        self.tell(lambda at: SlotsChanged(at, environment, slots, instances, Nanos(interval)))

    @rule(limit=st.sampled_from([None, 1, 3]))
    def change_the_limit(self, limit: int | None) -> None:
        self.tell(lambda at: LimitChanged(at, limit))

    @rule(paused=st.booleans())
    def pause(self, paused: bool) -> None:
        self.tell(lambda at: Paused(at) if paused else Resumed(at))

    @precondition(lambda self: self.wakes)
    @rule()
    def wake(self) -> None:
        at = min(self.wakes)
        self.wakes.remove(at)
        self.tell(Woke, max(0, at - self.now))

    @rule()
    def a_new_coordinator(self) -> None:
        retried = set(self.world.failed)
        self.tell(lambda at: CoordinatorStarted(at, 0, "test", retry_failed=True))
        for name in list(self.live):
            self.left(name)
            self.pending.add(name)
        self.turns.clear()
        self.over -= retried
        self.pending |= retried
        self.join(5000, 3, 2)
        assert not self.live, "something started before the batch was resumed"
        self.tell(Resumed)

    @rule(pick=EVERY, which=st.integers(0, 12))
    def an_illegal_fact_changes_nothing(self, pick: int, which: int) -> None:
        at, ghost, main = Nanos(self.now), TrajectoryId("ghost"), STREAMS[0]
        name = sorted(self.submitted)[pick % len(self.submitted)] if self.submitted else ghost
        facts: list[Fact] = [
            TurnFinished(at, ghost, main, 0, 1, Tokens(1), Tokens(1), Nanos(1)),
            TurnFailed(at, name, main, 999, 1, "lost", ""),
            ActionFinished(at, name, main, 999, 1, Nanos(1)),
            TurnRequested(at, name, main, 999, Tokens(1)),
            TurnRequested(at, ghost, main, 0, Tokens(1)),
            ActionRequested(at, name, main, 999, ENVIRONMENTS[0]),
            ActionRequested(at, ghost, main, 0, ENVIRONMENTS[0]),
            TurnWithdrawn(at, ghost, main, 0),
            ActionWithdrawn(at, name, main, 999),
            TrajectoryFinished(at, ghost),
            EngineLost(at, EngineId("nowhere"), ""),
            SlotsChanged(at, ENVIRONMENTS[0], -1),
            LimitChanged(at, 0),
        ]
        before = snapshot(self.world)
        with pytest.raises(RefusedFact):
            self.machine.handle(facts[which])
        if name in self.submitted:
            with pytest.raises(RefusedFact):
                self.machine.handle(SampleSubmitted(at, name))
        with pytest.raises(RefusedFact):
            self.machine.handle(Woke(Nanos(self.now - 1)))
        assert snapshot(self.world) == before

    # -- what must hold ---------------------------------------------------------------------------------------

    @invariant()
    def nothing_is_lost(self) -> None:
        world = self.world
        assert self.submitted == self.pending | self.live | self.over
        assert self.over == world.done | set(world.failed)
        assert {t.id for t in world.trajectories.values() if t.phase is Phase.LIVE} == self.live
        assert world.live == len(self.live)

    @invariant()
    def what_runs_is_what_was_started(self) -> None:
        doing = {(t.id, s.id): s.doing for t in self.world.trajectories.values() for s in t.streams.values() if s.doing}
        assert {key for key, what in doing.items() if what is Doing.RUNNING} == set(self.turns)
        assert set(doing) == self.wanted_turns
        assert self.world.turning == len(self.turns)
        assert self.world.acting == len(self.grants)

    @invariant()
    def capacity_is_never_exceeded(self) -> None:
        for engine in self.world.engines.values():
            running = sum(start.engine == engine.id for start in self.turns.values())
            assert running == engine.running
            assert engine.max_running is None or running <= engine.max_running
        for environment in self.world.environments.values():
            assert environment.claimed >= 0
            holders = [g.trajectory for g in self.grants.values() if g.environment == environment.id]
            if self.machine.policies.coupled:
                assert environment.busy >= len(set(holders))
            else:
                assert environment.busy == len(holders)

    @invariant()
    def counters_are_sums(self) -> None:
        world = self.world
        streams = [s for t in world.trajectories.values() for s in t.streams.values()]
        for engine in world.engines.values():
            here = [s for s in streams if s.engine is engine]
            assert engine.homed == len(here)
            assert engine.idle == sum(s.context for s in here if s.resident)
            assert engine.active == sum(s.reserved for s in here if s.doing is Doing.RUNNING)
            assert engine.held == sum(s.resident or s.doing is Doing.RUNNING for s in here)
        contexts = sum(s.context for s in streams)
        prompts = sum(t.prompt for t in world.trajectories.values() if t.phase is Phase.LIVE and not t.answered)
        assert world.live_tokens == contexts + prompts
        present = Counter(s.trajectory.id for s in streams if s.resident or s.doing is Doing.RUNNING)
        assert all(t.present == present[t.id] for t in world.trajectories.values())

    @invariant()
    def work_is_conserved(self) -> None:
        world = self.world
        if world.paused:
            return
        waiting = [a for t in world.trajectories.values() for a in t.actions.values() if a.doing is Doing.WAITING]
        for action in waiting:
            environment = action.environment
            needs = environment.stateful and environment.id not in action.trajectory.instances
            free = environment.busy < environment.slots and not needs
            assert not free, "an action waits beside a free slot"
        streams = [s for t in world.trajectories.values() for s in t.streams.values()]
        parked = [s for s in streams if s.doing is Doing.WAITING]
        if parked and world.engines and not self.turns and not self.grants:
            raise AssertionError("nothing is in flight, and a turn waits")
        if self.pending and world.engines and not world.live and all(e.slots for e in world.environments.values()):
            held = any(e.busy for e in world.environments.values())
            assert held, "nothing is live, and a sample waits"


TestMachine = AnyOrderOfFacts.TestCase
TestMachine.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
