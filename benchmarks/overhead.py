"""What Headway costs where nothing is scarce: the same chains through ``default`` and straight to the engines.

``python benchmarks/overhead.py [--chains 16] [--pairs 5] [--engine URL ...]``. As many slots as chains, no delay; the
direct run uses the same agent, the same adapters and the same engine for each chain, and nothing in between. Runs are
interleaved, each with a cache salt of its own; ratios are taken pair by pair.
"""

import argparse
import statistics
import sys
import time
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio

import headway
from headway.adapters import replicas
from headway.adapters.engines import OpenAIEngine, connect
from headway.core.commands import StartTurn
from headway.core.progress import snapshot
from headway.core.units import MAIN, Nanos, Tokens, TrajectoryId
from headway.ports import TurnAnswer, TurnRequest
from headway.suites import bfcl
from headway.suites.bfcl.simulator import Simulator


class Straight:
    """A trajectory without a coordinator: turns go to its engine at once, actions take no slot."""

    def __init__(self, sample: headway.Sample, engine: OpenAIEngine, salt: str) -> None:
        self.id, self._engine, self._salt = sample.id, engine, salt
        self._turn = 0
        self._simulator = Simulator()

    async def chat(self, messages: Sequence[Mapping[str, Any]], **body: Any) -> TurnAnswer:
        start = StartTurn(TrajectoryId(self.id), MAIN, self._turn, 1, self._engine.id)
        self._turn += 1
        request = TurnRequest({"cache_salt": self._salt, "messages": list(messages), **body})
        return await self._engine.turn(start, request)

    @asynccontextmanager
    async def action(self, environment: str) -> AsyncIterator[Any]:
        del environment
        yield self._simulator


async def straight(samples: list[headway.Sample], urls: list[str], salt: str) -> float:
    """Seconds that the batch takes without Headway, every chain on the engine that it would get."""
    engines = [connect(url) for url in urls]
    for engine in engines:
        await engine.join(Nanos(0))
    agent = bfcl.ScriptedAgent()
    began = time.perf_counter()
    async with anyio.create_task_group() as tasks:
        for place, sample in enumerate(samples):
            tasks.start_soon(agent.solve, sample, Straight(sample, engines[place % len(engines)], salt))
    took = time.perf_counter() - began
    for engine in engines:
        await engine.close()
    return took


async def scheduled(samples: list[headway.Sample], urls: list[str], salt: str) -> float:
    """Seconds that the batch takes through ``default`` with a slot for every chain."""
    slots = headway.Slots(len(samples), bfcl.environment())
    batch = headway.Batch(urls, {bfcl.ENVIRONMENT: slots}, request_fields={"cache_salt": salt})
    results = await batch.run(bfcl.ScriptedAgent().solve, samples)
    if not all(result.ok for result in results):
        raise headway.HeadwayError(f"a sample failed: {next(r.failure for r in results if not r.ok)}")
    return snapshot(batch.progress).makespan_s or 0.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chains", type=int, default=16)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--engine", action="append")
    args = parser.parse_args()
    before = {replica.url for replica in replicas.listed()}
    started = [] if args.engine else replicas.up(2, announce=lambda line: print(line, file=sys.stderr))
    urls = args.engine or [replica.url for replica in started]
    try:
        samples = bfcl.samples(bfcl.fit(bfcl.load_tasks(bfcl.CATEGORIES), Tokens(8192)).fitting)[: args.chains]
        ratios = []
        for number in range(args.pairs + 1):
            runs = [scheduled, straight] if number % 2 else [straight, scheduled]
            took = {run: anyio.run(run, samples, urls, uuid.uuid4().hex) for run in runs}
            ratio = took[scheduled] / took[straight]
            warm = "" if number else " (warm-up, not counted)"
            print(f"headway {took[scheduled]:.2f} s, straight {took[straight]:.2f} s, ratio {ratio:.3f}{warm}")
            ratios += [ratio] if number else []
        print(f"ratio: median {statistics.median(ratios):.3f}, {min(ratios):.3f} to {max(ratios):.3f}")
    finally:
        replicas.down([r for r in started if r.url not in before])
    return 0


if __name__ == "__main__":
    sys.exit(main())
