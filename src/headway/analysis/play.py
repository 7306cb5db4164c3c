"""One simulated batch: draw it, play it under a policy, say what came of it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

from headway.analysis.tally import Tally
from headway.core.bounds import Engines, Term, modelled, terms
from headway.core.commands import Command
from headway.core.facts import (
    CoordinatorStarted,
    EngineJoined,
    EngineLost,
    Fact,
    LimitChanged,
    Resumed,
    SampleSubmitted,
    SlotsChanged,
)
from headway.core.machine import Machine
from headway.core.policy import Policies
from headway.core.units import SECOND, EngineId, Nanos, TrajectoryId, nanos, seconds
from headway.drivers.simulate import ContinuousBatching, EnvironmentModel, Simulation
from headway.hybrid.residency import Capacity
from headway.traces import Script
from headway.version import __version__
from headway.workloads import Setting, generate

SAMPLE_EVERY = Nanos(2 * SECOND)
"""How often modelled engines report on themselves: as often as the live driver asks real ones."""

TRUTH, HISTORY = "truth", "history"
_HINTS = {"oracle": TRUTH, "longest-first": TRUTH, "history": HISTORY}


@dataclass(frozen=True, slots=True)
class Drawn:
    """A batch: what every sample will do, and what an earlier run of the tasks would predict of its length."""

    setting: Setting
    scripts: tuple[Script, ...]
    history: tuple[float, ...]

    def bounds(self) -> list[Term]:
        """Lower bounds on its makespan, the largest first."""
        shape = self.setting.engine
        plans = ((script.trajectory, script.group, script.steps) for script in self.scripts)
        slots = {name: place.slots for name, place in self.setting.environments.items()}
        running = [n for n in (shape.max_running, _states(self.setting)) if n is not None]
        # The states and places of an engine bound what shares a step of that engine.
        engines = Engines(self.setting.engines, shape.kv_tokens, min(running, default=None))
        return terms(modelled(plans, shape.cost), slots, engines, shape.cost)


@dataclass(frozen=True, slots=True)
class Outage:
    """An engine (by its number) dies, and comes back empty after a while. Times in seconds."""

    engine: int
    at: float
    back: float


@dataclass(frozen=True, slots=True)
class Played:
    """What came of it. ``makespan`` and waits in seconds."""

    policy: str
    makespan: float
    hit_rate: float
    expected_hit_rate: float
    max_wait: float
    preemptions: int
    evictions: int
    facts: int
    failed: int
    tally: Tally = field(repr=False)


def draw(setting: Setting, seed: int) -> Drawn:
    """The batch of a seed, the same for every policy."""
    batch = generate(setting, Random(seed))  # noqa: S311 - a simulation's dice
    return Drawn(setting, tuple(one.script for one in batch), tuple(one.history for one in batch))


def play(
    batch: Drawn,
    policies: Policies,
    *,
    limit: int | None = None,
    record: Callable[[Fact, Sequence[Command]], None] | None = None,
    outages: Sequence[Outage] = (),
    capacity: Capacity | None = None,
) -> Played:
    """Play a batch to its end, at most ``limit`` trajectories live. Raises: ``BugError`` if work got lost.

    ``capacity``: what a plan says of every engine, in place of what engines say of themselves.
    """
    setting, tally = batch.setting, Tally()
    family = _families(batch.scripts)
    engines = {
        name: ContinuousBatching(name, setting.engine, family.__getitem__) for name in engine_names(setting.engines)
    }
    environments = {name: EnvironmentModel(shape) for name, shape in setting.environments.items()}

    def both(fact: Fact, commands: Sequence[Command]) -> None:
        tally.apply(fact, commands)
        if record is not None:
            record(fact, commands)

    simulation = Simulation(
        Machine(policies),
        batch.scripts,
        engines,
        tally.apply if record is None else both,
        environments=environments,
        bounded=False,
        sample_every=SAMPLE_EVERY,
    )
    opening = _opening(setting, engines, limit, outages)
    if capacity is not None:
        opening = [capacity.joined(fact) if isinstance(fact, EngineJoined) else fact for fact in opening]
    simulation.run([*opening, *_samples(batch, policies.name)])
    tally.check(batch.scripts, (engine.totals for engine in engines.values()))
    return Played(
        policies.name,
        seconds(tally.makespan),
        tally.hit_rate,
        tally.expected_hit_rate,
        seconds(Nanos(max(tally.longest_slot_wait, tally.longest_turn_wait))),
        sum(engine.totals.preemptions for engine in engines.values()),
        sum(engine.evictions for engine in engines.values()),
        tally.facts,
        tally.failed,
        tally,
    )


def engine_names(number: int) -> list[EngineId]:
    """The names of modelled engines."""
    return [EngineId(f"engine-{place}") for place in range(number)]


def _states(setting: Setting) -> int | None:
    shape = setting.engine
    return None if shape.state_slots is None else shape.state_slots // shape.running_states


def _families(scripts: Sequence[Script]) -> dict[TrajectoryId, tuple[str, int]]:
    """Who shares a first prompt, and how many tokens of it: the shortest one's in a group."""
    shared: dict[str, int] = {}
    families = {}
    for script in scripts:
        first = script.steps[0].new_tokens
        name = script.trajectory if script.group is None else f"group {script.group}"
        shared[name] = min(first, shared.get(name, first))
        families[script.trajectory] = name
    return {trajectory: (name, shared[name]) for trajectory, name in families.items()}


def _opening(
    setting: Setting, engines: dict[EngineId, ContinuousBatching], limit: int | None, outages: Sequence[Outage]
) -> list[Fact]:
    at = Nanos(0)
    facts: list[Fact] = [CoordinatorStarted(at, 0, __version__)]
    facts += [
        SlotsChanged(at, name, shape.slots, shape.instances, nanos(shape.create_interval))
        for name, shape in setting.environments.items()
    ]
    facts += [engine.join(at) for engine in engines.values()]
    facts += [LimitChanged(at, limit), Resumed(at)]
    names = list(engines)
    for outage in outages:
        name = names[outage.engine]
        facts += [EngineLost(nanos(outage.at), name, "it died, as scripted"), engines[name].join(nanos(outage.back))]
    return facts


def _samples(batch: Drawn, policy: str) -> list[Fact]:
    kind = _HINTS.get(policy)
    facts: list[Fact] = []
    for index, (script, history) in enumerate(zip(batch.scripts, batch.history, strict=True)):
        hint = float(script.actions) if kind == TRUTH else history if kind == HISTORY else None
        prompt = script.steps[0].new_tokens
        facts.append(SampleSubmitted(Nanos(0), script.trajectory, index, script.group, prompt, hint))
    return facts
