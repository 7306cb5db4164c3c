"""Whatever the machine does: the numbers add up, and a fold in two parts is a fold."""

import random
from collections.abc import Sequence

import msgspec
import pytest

from headway.core.bounds import of_run
from headway.core.commands import Command
from headway.core.facts import CoordinatorStarted, EngineJoined, Fact, Resumed, SampleSubmitted, SlotsChanged
from headway.core.machine import Machine
from headway.core.progress import Phase, Progress, Snapshot, snapshot
from headway.core.units import MAIN, EngineId, EnvironmentId, Nanos, Tokens, TrajectoryId
from headway.drivers.simulate import FixedCost, Simulation
from headway.policies.presets import preset
from headway.traces import Script, ScriptedAction, Step

BASH = EnvironmentId("bash")


def journal(seed: int, policy: str) -> list[tuple[Fact, Sequence[Command]]]:
    dice = random.Random(seed)
    scripts = [
        Script(
            TrajectoryId(f"t{number}"),
            tuple(
                Step(
                    Tokens(dice.randint(1, 50)),
                    Tokens(dice.randint(1, 20)),
                    ScriptedAction(BASH, Nanos(dice.randint(0, 40))) if dice.random() < 0.8 else None,
                )
                for _ in range(dice.randint(1, 8))
            ),
        )
        for number in range(30)
    ]
    engines = {EngineId(n): FixedCost(lambda _, prompt, output: Nanos(prompt // 4 + output)) for n in ("one", "two")}
    rows: list[tuple[Fact, Sequence[Command]]] = []
    machine = Machine(preset(policy)[0])
    simulation = Simulation(machine, scripts, engines, lambda fact, commands: rows.append((fact, commands)))
    opening: list[Fact] = [CoordinatorStarted(Nanos(0), 0, "test"), SlotsChanged(Nanos(0), BASH, 3)]
    opening += [EngineJoined(Nanos(0), name, kv_tokens=Tokens(600)) for name in engines]
    opening += [SampleSubmitted(Nanos(0), script.trajectory, i) for i, script in enumerate(scripts)]
    simulation.run([*opening, Resumed(Nanos(0))])
    return rows


@pytest.mark.parametrize("policy", ["coupled-fifo", "default", "static-5"])
@pytest.mark.parametrize("seed", range(5))
def test_the_numbers_add_up(seed: int, policy: str) -> None:
    progress = Progress()
    rows = journal(seed, policy)
    for fact, commands in rows:
        progress.apply(fact, commands)
        assert sum(progress.population) == progress.counts[1]
        assert sum(progress.live_lengths.values()) == progress.counts[1]
        assert all(engine.running >= 0 for engine in progress.engines.values())
        assert all(0 <= place.busy <= place.slots for place in progress.environments.values())
    seen = snapshot(progress)
    assert seen.complete
    chains = list(progress.chains.values())
    for chain in chains:
        assert sum(chain.spent) == chain.ended - chain.admitted
        assert chain.spent[Phase.INFERENCE] == chain.work.turn_service
        assert chain.spent[Phase.ACTION] == chain.work.action_service
        assert chain.work.serial == chain.work.turn_service + chain.work.action_service
        assert chain.spent[Phase.IDLE] == 0
        for use in chain.work.uses.values():
            assert use.head + use.service + use.tail <= chain.work.serial
    for phase in Phase:
        assert progress.spent(phase) == sum(chain.spent[phase] for chain in chains)
    assert sum(engine.area for engine in progress.engines.values()) == progress.spent(Phase.INFERENCE)
    assert sum(engine.waited for engine in progress.engines.values()) == progress.spent(Phase.INFERENCE_QUEUE)
    assert progress.environments[BASH].area == progress.spent(Phase.ACTION)
    assert progress.environments[BASH].waited == progress.spent(Phase.SLOT_QUEUE)
    assert seen.turns == sum(chain.work.turns for chain in chains)
    assert progress.lengths.total() == len(chains)
    assert not progress.environments[BASH].queued
    first = progress.first_admission or 0
    assert {term.kind for term in of_run(progress)} == {"CP", "ENV"}
    assert all(term.value <= progress.done_at[-1] - first for term in of_run(progress))


def test_a_snapshot_travels_as_json() -> None:
    progress = Progress()
    for fact, commands in journal(1, "default"):
        progress.apply(fact, commands)
    seen = snapshot(progress)
    assert msgspec.json.decode(msgspec.json.encode(seen), type=Snapshot) == seen


def test_a_crash_anywhere_loses_no_sample_from_the_counts() -> None:
    rows = journal(3, "default")
    for cut in range(1, len(rows), 17):
        progress = Progress()
        for fact, commands in rows[:cut]:
            progress.apply(fact, commands)
        progress.apply(CoordinatorStarted(Nanos(rows[cut - 1][0].at + 5), 0, "test"))
        assert progress.population == [0] * len(Phase)
        assert progress.live_lengths.total() == 0
        assert sum(progress.counts) == len(progress.chains)
        assert all(not engine.running and not engine.tokens for engine in progress.engines.values())
        assert all(not place.busy and not place.queued for place in progress.environments.values())
        assert all(MAIN not in chain.lanes for chain in progress.chains.values())
