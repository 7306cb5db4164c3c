"""The live driver on a virtual clock writes the simulator's journal, fact for fact and command for command."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from zlib import crc32

import anyio
import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.core.commands import Admit, Command, GrantAction, StartTurn
from headway.core.facts import (
    CoordinatorStarted,
    EngineJoined,
    EngineSampled,
    Fact,
    LimitChanged,
    Resumed,
    SampleSubmitted,
    SlotsChanged,
    TrajectoryAbandoned,
    TrajectoryFinished,
)
from headway.core.machine import Machine
from headway.core.units import MAIN, EngineId, EnvironmentId, GroupId, Nanos, Tokens, TrajectoryId
from headway.drivers.live import Coordinator, Ports
from headway.drivers.simulate import FixedCost, Simulation
from headway.errors import Rejected
from headway.policies.presets import NAMES, preset
from headway.ports import TurnAnswer, TurnRequest
from headway.traces import Script, ScriptedAction, Step

ENVIRONMENTS = ("bash", "search")
ENGINES = ("a", "b")


def cost(start: StartTurn, prompt: Tokens, output: Tokens) -> Nanos:
    noise = crc32(f"{start.trajectory}/{start.turn}".encode()) % 4001
    return Nanos(200 + (prompt - start.expected_cached) // 10 + output + noise)


class VirtualClock:
    """One virtual second stands for one nanosecond, so that simultaneous facts don't round apart."""

    def now(self) -> Nanos:
        return Nanos(round(trio.current_time()))

    async def sleep_until(self, at: Nanos) -> None:
        await trio.sleep_until(at)


@dataclass
class ListJournal:
    rows: list[tuple[Fact, list[Command]]] = field(default_factory=list)

    def append(self, fact: Fact, commands: Sequence[Command]) -> None:
        self.rows.append((fact, list(commands)))

    def keep(self, trajectory: TrajectoryId, result: bytes) -> None: ...

    async def durable(self) -> None: ...

    async def close(self) -> None: ...


@dataclass
class ModelledEngine:
    id: EngineId

    async def join(self, at: Nanos) -> EngineJoined:
        return EngineJoined(at, self.id)

    async def turn(self, start: StartTurn, request: TurnRequest) -> TurnAnswer:
        prompt, output = Tokens(request.body["prompt"]), Tokens(request.body["output"])
        service = cost(start, prompt, output)
        await anyio.sleep(service)
        return TurnAnswer({}, prompt, output, service, Tokens(start.expected_cached))

    async def sample(self, at: Nanos) -> EngineSampled | None:
        return None

    async def close(self) -> None: ...


@dataclass
class ScriptedAgent:
    scripts: dict[TrajectoryId, Script]
    clock: VirtualClock
    coordinator: Coordinator = None  # type: ignore[assignment]
    left: int = 0
    over: anyio.Event = field(default_factory=anyio.Event)

    async def __call__(self, admit: Admit) -> TrajectoryFinished | TrajectoryAbandoned:
        script, action = self.scripts[admit.trajectory], 0
        try:
            for turn, (step, prompt) in enumerate(zip(script.steps, script.prompts(), strict=True)):
                request = TurnRequest({"prompt": prompt, "output": step.output_tokens})
                await self.coordinator.turn(
                    admit.trajectory, MAIN, turn, request, prompt=prompt, max_output=step.output_tokens
                )
                if step.action is not None:
                    grant = await self.coordinator.slot(admit.trajectory, MAIN, action, step.action.environment)
                    await self._act(grant, step.action.service)
                    action += 1
        except Rejected as rejected:
            return TrajectoryAbandoned(self.clock.now(), admit.trajectory, str(rejected))
        return TrajectoryFinished(self.clock.now(), admit.trajectory)

    async def _act(self, grant: GrantAction, service: Nanos) -> None:
        await anyio.sleep(service)
        self.coordinator.free(grant, service)

    def observe(self, fact: Fact, commands: Sequence[Command]) -> None:
        ended = isinstance(fact, TrajectoryFinished | TrajectoryAbandoned)
        ended_at_once = any(getattr(command, "item", None) == "sample" for command in commands)
        self.left -= ended or ended_at_once
        if not self.left:
            self.over.set()


def live(machine: Machine, opening: list[Fact], scripts: list[Script]) -> list[tuple[Fact, list[Command]]]:
    async def main() -> list[tuple[Fact, list[Command]]]:
        clock, journal = VirtualClock(), ListJournal()
        agent = ScriptedAgent({script.trajectory: script for script in scripts}, clock, left=len(scripts))
        engines = {EngineId(name): ModelledEngine(EngineId(name)) for name in ENGINES}
        coordinator = Coordinator(machine, Ports(clock, journal, engines, {}), agent, observe=agent.observe)
        agent.coordinator = coordinator
        async with coordinator.running():
            for fact in opening:
                coordinator.report(fact)
            await agent.over.wait()
            await trio.testing.wait_all_tasks_blocked()
            await trio.sleep(2**45)  # every timer that was asked for fires, as in the simulator
        assert not coordinator.refused
        return journal.rows

    return trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def simulated(machine: Machine, opening: list[Fact], scripts: list[Script]) -> list[tuple[Fact, list[Command]]]:
    rows: list[tuple[Fact, list[Command]]] = []
    engines = {EngineId(name): FixedCost(cost) for name in ENGINES}
    Simulation(machine, scripts, engines, lambda fact, commands: rows.append((fact, list(commands)))).run(opening)
    return rows


steps = st.builds(
    Step,
    st.integers(1, 900).map(Tokens),
    st.integers(1, 90).map(Tokens),
    st.builds(ScriptedAction, st.sampled_from(ENVIRONMENTS).map(EnvironmentId), st.integers(1, 9000).map(Nanos)),
)


@st.composite
def batches(draw: st.DrawFn) -> tuple[list[Fact], list[Script]]:
    chains = draw(st.lists(st.lists(steps, min_size=0, max_size=5), min_size=1, max_size=10))
    last = Step(Tokens(5), Tokens(7))
    scripts = [
        Script(TrajectoryId(f"t{n:02}"), (*chain, last), draw(st.sampled_from([None, GroupId("g"), GroupId("h")])))
        for n, chain in enumerate(chains)
    ]
    kv = draw(st.sampled_from([None, 1500, 4000, 20_000]))
    at = Nanos(0)
    opening: list[Fact] = [CoordinatorStarted(at, 0, "test")]
    for name in ENVIRONMENTS:
        instances = draw(st.sampled_from([None, 1, 3]))
        interval = draw(st.sampled_from([0, 0, 700]))
        opening.append(SlotsChanged(at, EnvironmentId(name), draw(st.integers(1, 4)), instances, Nanos(interval)))
    for name in ENGINES:
        states, running = draw(st.sampled_from([None, 1, 4])), draw(st.sampled_from([None, 1, 3]))
        tokens = None if kv is None else Tokens(kv)
        opening.append(EngineJoined(at, EngineId(name), "model", tokens, states, max_running=running))
    opening += [LimitChanged(at, draw(st.sampled_from([None, 1, 4]))), Resumed(at)]
    opening += [
        SampleSubmitted(at, script.trajectory, n, script.group, script.prompts()[0], float(script.actions))
        for n, script in enumerate(scripts)
    ]
    return opening, scripts


@pytest.mark.parametrize("policy", ["static-3", *(name for name in NAMES if name != "static-N")])
@given(batches())
@settings(max_examples=20, deadline=None)
def test_the_live_driver_on_a_virtual_clock_writes_the_simulators_journal(
    policy: str, batch: tuple[list[Fact], list[Script]]
) -> None:
    opening, scripts = batch
    policies, limit = preset(policy)
    if limit is not None:
        opening = [LimitChanged(Nanos(0), limit) if isinstance(fact, LimitChanged) else fact for fact in opening]
    expected = simulated(Machine(policies), opening, scripts)
    actual = live(Machine(policies), opening, scripts)
    assert actual == expected
