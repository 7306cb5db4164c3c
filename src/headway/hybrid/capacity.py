"""How many trajectories fit: closed loop, memory with a margin for chance, and the knee of inference.

C trajectories alternate between inference and actions; N of them are in inference. Memory holds when
s_r·N + s_p·(C-N) + z·√(Cφ(1-φ))·(s_r-s_p) ≤ S and C·L + z·√C·sd(L) ≤ T, with φ the share of time in inference.

Engines evict what was used least recently and are never told that a trajectory is over. So what it leaves behind
outlives the contexts of those that have been acting for longer: trajectories that end within a long action count too.
"""

import math
from collections.abc import Callable
from typing import Literal

import msgspec

from headway.core.units import Tokens
from headway.hybrid.pools import Pools
from headway.hybrid.timing import Timing
from headway.hybrid.workload import Workload

Binding = Literal["state", "kv", "memory", "inference", "running", "slots", "context"]

Z = 3.0
MARGIN = 0.95
"""The reference is this share of the largest feasible C: beyond it, thrash does not recover by itself."""

KNEE = 0.98
"""Inference counts as saturated where it reaches this share of its best rate."""

_MOST = 1 << 16
_LEAST = 1e-9


class Loop(msgspec.Struct, frozen=True):
    """The steady state with ``live`` trajectories; rates are turns per second."""

    live: int
    running: float
    share: float
    rate: float


class Demand(msgspec.Struct, frozen=True):
    """What C live trajectories need: state slots, KV tokens, and requests running at once."""

    slots: int
    tokens: Tokens
    running: int


class Scene(msgspec.Struct, frozen=True):
    """One engine under one workload: everything the equations take."""

    pools: Pools
    workload: Workload
    timing: Timing
    recomputed: float

    def response(self, running: float) -> float:
        """Seconds in inference of a turn that shares the engine with as many others as make up ``running``.

        Decode steps are shared by all; prompts are computed one after another and hold the decoding up meanwhile.
        """
        work = self.workload
        new = work.new_tokens + self.recomputed * work.later_turns
        cached = max(0.0, work.context.mean - work.output.mean - new)
        prefill = self.timing.prefill(new, cached)
        return max(running * prefill + work.output.mean * self.timing.step(running, work.context.mean), _LEAST)

    def loop(self, live: int) -> Loop:
        """Solve N = C·R/(Z+R) by bisection, R being the response beside the N·(C-1)/C others that a turn meets.

        Mean-value analysis of a closed network with one engine, as Schweitzer (1979) approximates it: throughput bends
        towards its limit, since turns come in by chance.
        """
        action = self.workload.action.mean
        low, high = 0.0, float(live)
        for _ in range(40):
            middle = (low + high) / 2
            response = self._meets(middle, live)
            if middle * (action + response) > live * response:
                high = middle
            else:
                low = middle
        response = self._meets(high, live)
        rate = live / (action + response)
        return Loop(live, min(high, float(live)), response / (action + response), rate)

    def _meets(self, running: float, live: int) -> float:
        return self.response(1 + running * (live - 1) / live)

    def demand(self, live: int) -> Demand:
        """What so many live trajectories need with the margin z."""
        loop, pools, context = self.loop(live), self.pools, self.workload.context
        swing = Z * math.sqrt(live * loop.share * (1 - loop.share))
        running = min(float(live), loop.running + swing)
        paused = pools.paused_slots if pools.caching else 0
        slots = paused * live + (pools.running_slots - paused) * running
        holding = live if pools.caching else running
        ended = self.ended(loop)
        slots += 2 * paused * ended
        if pools.whole:
            tokens = holding * float(pools.rounded(self.workload.longest.p95))
        else:
            tokens = holding * pools.rounded(context.mean) + Z * math.sqrt(holding) * context.sd
            tokens += ended * pools.rounded(self.workload.longest.mean)
        return Demand(math.ceil(slots - 1e-9) if pools.slot_bytes else 0, Tokens(math.ceil(tokens)), math.ceil(running))

    def ended(self, loop: Loop) -> float:
        """Trajectories that end while an action takes that only one in twenty exceeds.

        None where nothing is cached, where slots are a trajectory's own, and where there are no states: KV alone is
        lost bit by bit from the end, a state with all that was before it. States, which have no margin for lengths as
        KV has, are counted twice: a turn in a hundred that computes everything again is too many.
        """
        if not (self.pools.caching and self.pools.slot_bytes) or self.pools.whole:
            return 0.0
        return loop.rate / self.workload.turns.mean * self.workload.action.p95

    def violated(self, live: int) -> Binding | None:
        """What keeps so many trajectories from fitting; None when they do."""
        return self.limited(live) or self.short(live)

    def limited(self, live: int) -> Binding | None:
        """Which of the engine's limits on numbers so many exceed."""
        need, pools = self.demand(live), self.pools
        if pools.per_sequence is not None and self.workload.longest.p95 > pools.per_sequence:
            return "context"
        if pools.running_limit is not None and need.running > pools.running_limit:
            return "running"
        if pools.live_limit is not None and live > pools.live_limit:
            return "slots"
        return None

    def short(self, live: int) -> Binding | None:
        """Which memory so many exhaust."""
        need, pools = self.demand(live), self.pools
        if pools.fixed is not None:
            slots, tokens = pools.fixed
            if pools.slot_bytes and pools.live_limit is None and need.slots > slots:
                return "state"
            return "kv" if pools.rounded(need.tokens) > tokens else None
        if pools.bytes_of(need.slots, need.tokens, live) <= pools.free:
            return None
        return "memory" if pools.slot_bytes and pools.token_bytes else ("state" if pools.slot_bytes else "kv")

    def saturated(self) -> int:
        """The fewest live trajectories with which inference reaches nearly its best rate."""
        best = max((1 << power) / self.response(float(1 << power)) for power in range(17))
        return _largest(lambda live: self.loop(live).rate < KNEE * best) + 1


class Reference(msgspec.Struct, frozen=True):
    """The reference concurrency and why it is not higher. ``largest``: what memory would allow at most."""

    live: int
    largest: int
    binding: Binding


def reference(scene: Scene) -> Reference:
    """C*: the margin below the largest C that memory holds, or a limit on numbers, or where inference saturates.

    The margin is for memory alone: what exceeds a limit on numbers waits, and nothing is computed again.
    """
    memory = _largest(lambda live: scene.short(live) is None)
    numbers = _largest(lambda live: scene.limited(live) is None)
    largest = min(memory, numbers)
    fits = min(numbers, math.floor(MARGIN * memory) if memory > 1 else memory)
    saturated = scene.saturated()
    if saturated < fits:
        return Reference(saturated, largest, "inference")
    if fits == numbers:
        return Reference(fits, largest, scene.limited(numbers + 1) or "inference")
    return Reference(fits, largest, scene.short(memory + 1) or "inference")


def _largest(holds: Callable[[int], bool]) -> int:
    """The largest whole number up to 65536 for which a condition, true below and false above, holds; or 0."""
    low, high = 0, 1
    while high < _MOST and holds(high):
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        if holds(middle):
            low = middle
        else:
            high = middle
    return low
