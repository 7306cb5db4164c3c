"""How fast the simulator is, and how much it can hold: facts per second beside simpy's events in the same run.

Simpy plays agents that wait for a slot and sleep, and nothing else: no engine model, no policy, no record of anything.
``--large`` plays the large batches too: 10,000 trajectories of 50 turns, and 100,000 of them (minutes, gigabytes).
"""

import argparse
import json
import resource
import statistics
import sys
from collections.abc import Iterator
from dataclasses import replace
from time import perf_counter, process_time

import simpy

from headway.analysis.play import Drawn, draw, play
from headway.policies.presets import preset
from headway.workloads import ACCEPTANCE, EnvironmentShape, Setting
from headway.workloads.laws import Quantiles
from headway.workloads.setting import ACTING

TURNS = 50


def fifty_turns(samples: int) -> Setting:
    """Trajectories of exactly 50 turns on 16 engines that hold about 2,000 of them."""
    base = ACCEPTANCE["E1"]
    length = Quantiles(((0.0, TURNS - 1.0), (1.0, TURNS - 1.0)))
    return replace(
        base,
        name=f"{samples} trajectories of {TURNS} turns",
        samples=samples,
        engines=16,
        workload=replace(base.workload, laws={"length": length}),
        engine=replace(base.engine, kv_tokens=3_000_000, state_slots=128),
        environments={ACTING: EnvironmentShape(slots=1024)},
    )


def facts_per_second(batch: Drawn, policy: str) -> float:
    """Play a batch; facts handled per second, everything included."""
    policies, limit = preset(policy)
    began = perf_counter()
    played = play(batch, policies, limit=limit)
    return played.facts / (perf_counter() - began)


def simpy_events_per_second(agents: int = 256, actions: int = 24) -> float:
    """The same alternation in simpy, with turns and actions that only sleep."""
    environment = simpy.Environment()
    slots = simpy.Resource(environment, 16)
    events = 0

    def agent(pace: float) -> Iterator[simpy.Event]:
        for _ in range(actions):
            yield environment.timeout(pace)
            with slots.request() as slot:
                yield slot
                yield environment.timeout(1.0)

    for place in range(agents):
        environment.process(agent(1.0 + place / agents))
    began = perf_counter()
    while environment.peek() < float("inf"):
        environment.step()
        events += 1
    return events / (perf_counter() - began)


def large(samples: int) -> dict[str, float]:
    """Processor seconds (one thread) and memory to draw and play a large batch under the default policy."""
    began = process_time()
    batch = draw(fifty_turns(samples), 0)
    drawn = process_time()
    played = play(batch, preset("default")[0])
    ended = process_time()
    return {
        "trajectories": samples,
        "turns": played.tally.turns,
        "facts": played.facts,
        "draw_cpu_s": round(drawn - began, 1),
        "play_cpu_s": round(ended - drawn, 1),
        "facts_per_s": round(played.facts / (ended - drawn)),
        "peak_gib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
    }


def measure(rounds: int) -> dict[str, object]:
    """Medians over rounds, everything interleaved."""
    batches = {name: draw(ACCEPTANCE[name], 0) for name in ("E1", "I1", "M1", "R2")}
    simpy_rates: list[float] = []
    rates: dict[str, list[float]] = {name: [] for name in batches}
    for _ in range(rounds):
        simpy_rates.append(simpy_events_per_second())
        for name, batch in batches.items():
            rates[name].append(facts_per_second(batch, "default"))
    simpy_rate = statistics.median(simpy_rates)
    middle = {name: statistics.median(found) for name, found in rates.items()}
    return {
        "simpy_events_per_s": round(simpy_rate),
        "facts_per_s": {name: round(rate) for name, rate in middle.items()},
        "against_simpy": {name: round(rate / simpy_rate, 3) for name, rate in middle.items()},
        "rounds": rounds,
    }


def main() -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--large", type=int, nargs="*", metavar="N", help="play N trajectories too (10000 and 100000)")
    options = parser.parse_args()
    found = measure(options.rounds)
    if options.large is not None:
        found["large"] = [large(samples) for samples in options.large or (10_000, 100_000)]
    print(json.dumps(found, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
