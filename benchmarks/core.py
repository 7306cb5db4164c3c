"""How many facts a second the core takes, beside simpy's event rate in the same run.

``python benchmarks/core.py [--json]``. A loop makes the facts once, by answering the machine's own commands; each
round then plays stretches of that very journal to a fresh machine and times nothing but ``Machine.handle``. Stretches
of every size alternate with simpy's timeouts, so that a busy machine slows all of them alike. Reported are medians of
processor time, simpy's once with a thousand processes and once with as many as there are live trajectories.
"""

import argparse
import gc
import json
import statistics
import sys
import tracemalloc
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from random import Random
from time import process_time

import simpy

from headway.core.commands import Admit, Command, GrantAction, StartTurn
from headway.core.facts import (
    ActionFinished,
    ActionRequested,
    CoordinatorStarted,
    EngineJoined,
    Fact,
    LimitChanged,
    Resumed,
    SampleSubmitted,
    SlotsChanged,
    TrajectoryFinished,
    TurnFinished,
    TurnRequested,
)
from headway.core.machine import Machine
from headway.core.units import MAIN, EngineId, EnvironmentId, GroupId, Nanos, Tokens, TrajectoryId
from headway.policies.presets import preset

SIZES = (100, 10_000, 100_000)
ENGINES = 8
ENVIRONMENTS = ("bash", "search")
CONTEXT = 5_000
"""Tokens of a context that the caches are sized by, so that memory binds."""

PROMPT = 3_000
"""Mean tokens of a first prompt; exponential, like lengths, so that the mix is the same from the first fact on."""

STRETCH = 20_000
"""Facts in one timed stretch."""

SIMPY_PROCESSES = 1_000


@dataclass
class World:
    """The outside, as far as the machine can tell: engines answer, actions end, agents go on."""

    live: int
    policy: str = "default"
    machine: Machine = field(init=False)
    random: Random = field(default_factory=lambda: Random(7))
    later: list[tuple[int, int, Fact]] = field(default_factory=list)
    contexts: dict[str, int] = field(default_factory=dict)
    lengths: dict[str, int] = field(default_factory=dict)
    born: int = 0
    serial: int = 0

    def __post_init__(self) -> None:
        self.machine = Machine(preset(self.policy)[0])

    def facts(self) -> Iterator[Fact]:
        """The journal: opening, then what the commands lead to, without end."""
        yield from map(self.told, self.opening())
        while self.later:
            yield self.told(heappop(self.later)[2])

    def told(self, fact: Fact) -> Fact:
        for command in self.machine.handle(fact):
            self.obey(fact.at, command)
        if isinstance(fact, TurnFinished):
            self.answered(fact)
        elif isinstance(fact, ActionFinished):
            self.acted(fact)
        return fact

    def opening(self) -> list[Fact]:
        share = int(self.live / ENGINES / 1.2) + 1
        start = Nanos(0)
        facts: list[Fact] = [CoordinatorStarted(start, 0, "benchmark")]
        facts += [SlotsChanged(start, EnvironmentId(name), self.live // 8 + 1) for name in ENVIRONMENTS]
        facts += [
            EngineJoined(
                start,
                EngineId(f"engine{n}"),
                "model",
                kv_tokens=Tokens(share * CONTEXT),
                state_slots=share,
                max_running=share // 7 + 1,
            )
            for n in range(ENGINES)
        ]
        facts += [LimitChanged(start, self.live), Resumed(start)]
        return facts + [self.sample(start) for _ in range(self.live + self.live // 4)]

    def sample(self, at: Nanos) -> SampleSubmitted:
        self.born += 1
        name = TrajectoryId(f"sample-{self.born}")
        self.lengths[name] = 1 + int(self.random.expovariate(1 / 12))
        self.contexts[name] = 200 + int(self.random.expovariate(1 / PROMPT))
        prompt = Tokens(self.contexts[name])
        return SampleSubmitted(at, name, self.born, GroupId(f"group-{self.born // 8}"), prompt)

    def after(self, fact: Fact) -> None:
        self.serial += 1
        heappush(self.later, (fact.at, self.serial, fact))

    def obey(self, at: Nanos, command: Command) -> None:
        if isinstance(command, StartTurn):
            prompt = self.contexts[command.trajectory]
            output = self.random.randrange(20, 200)
            service = self.random.randrange(10**8, 3 * 10**9)
            key = command.trajectory, command.stream, command.turn, command.attempt
            self.after(TurnFinished(Nanos(at + service), *key, Tokens(prompt), Tokens(output), Nanos(service)))
        elif isinstance(command, GrantAction):
            service = self.random.randrange(10**8, 5 * 10**9)
            key = command.trajectory, command.stream, command.action, command.attempt
            self.after(ActionFinished(Nanos(at + service), *key, Nanos(service)))
        elif isinstance(command, Admit):
            name = command.trajectory
            self.after(TurnRequested(at, name, MAIN, 0, Tokens(self.contexts[name])))

    def answered(self, fact: TurnFinished) -> None:
        name = fact.trajectory
        if fact.turn == self.lengths[name]:
            self.after(TrajectoryFinished(fact.at, name))
            self.after(self.sample(fact.at))
            del self.contexts[name], self.lengths[name]
            return
        self.contexts[name] = fact.prompt_tokens + fact.output_tokens + self.random.randrange(50, 500)
        place = EnvironmentId(ENVIRONMENTS[self.random.random() < 0.3])
        self.after(ActionRequested(fact.at, name, MAIN, fact.turn, place))

    def acted(self, fact: ActionFinished) -> None:
        self.after(
            TurnRequested(fact.at, fact.trajectory, MAIN, fact.action + 1, Tokens(self.contexts[fact.trajectory]))
        )


@dataclass
class Load:
    """A journal of one size, and a machine that is played it."""

    live: int
    rounds: int
    warm: list[Fact] = field(default_factory=list)
    stretches: list[list[Fact]] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    bytes_each: float = 0.0

    def __post_init__(self) -> None:
        world = World(self.live)
        stream = world.facts()
        mixed = 4 * self.live  # facts until finishes, requests and samples are mixed
        while len(self.warm) < mixed + self.live + self.live // 4 + ENGINES + len(ENVIRONMENTS) + 3:
            self.warm.append(next(stream))
        self.stretches = [[next(stream) for _ in range(STRETCH)] for _ in range(self.rounds)]
        self.machine = Machine(preset("default")[0])
        for fact in self.warm:
            self.machine.handle(fact)

    def play(self, round_: int) -> None:
        handle, facts = self.machine.handle, self.stretches[round_]
        gc.collect()  # so that nobody pays for what others left behind
        began = process_time()
        for fact in facts:
            handle(fact)
        self.times.append((process_time() - began) / len(facts))


def memory(live: int) -> float:
    """Bytes that the machine keeps per live trajectory, strings of the facts not counted."""
    warm = Load(live, 0).warm
    tracemalloc.start()
    machine = Machine(preset("default")[0])
    for fact in warm:
        machine.handle(fact)
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return kept / machine.world.live


def sleepers(number: int) -> simpy.Environment:
    """Processes that sleep again and again, and nothing else."""
    environment = simpy.Environment()

    def sleeper(pause: float) -> Iterator[simpy.Event]:
        while True:
            yield environment.timeout(pause)

    for n in range(number):
        environment.process(sleeper(1.0 + n / number))
    for _ in range(number):
        environment.step()
    return environment


def seconds_per_event(environment: simpy.Environment, events: int = STRETCH) -> float:
    """Processor seconds for one event."""
    gc.collect()
    began = process_time()
    for _ in range(events):
        environment.step()
    return (process_time() - began) / events


def measure(sizes: Sequence[int], rounds: int) -> dict[str, object]:
    """Medians over ``rounds``, everything interleaved."""
    loads = [Load(size, rounds) for size in sizes]
    simpys = {number: sleepers(number) for number in {SIMPY_PROCESSES, *sizes}}
    events: dict[int, list[float]] = {number: [] for number in simpys}
    for round_ in range(rounds):
        for number, environment in simpys.items():
            events[number].append(seconds_per_event(environment))
        for load in loads:
            load.play(round_)
    simpy_rates = {number: 1 / statistics.median(times) for number, times in events.items()}
    rates = {load.live: 1 / statistics.median(load.times) for load in loads}
    return {
        "facts_per_s": {str(live): round(rate) for live, rate in rates.items()},
        "dearer_at_most_live": round(rates[min(rates)] / rates[max(rates)], 2),
        "simpy_events_per_s": round(simpy_rates[SIMPY_PROCESSES]),
        "simpy_events_per_s_at_size": {str(live): round(simpy_rates[live]) for live in rates},
        "bytes_per_live_trajectory": round(memory(min(10_000, max(sizes)))),
        "live": {str(load.live): load.machine.world.live for load in loads},
        "rounds": rounds,
    }


def main() -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="figures as one JSON object")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    options = parser.parse_args()
    found = measure(options.sizes, options.rounds)
    print(json.dumps(found, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
