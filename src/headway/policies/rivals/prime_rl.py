"""prime-rl's limit on rollouts in flight: as many as their final contexts fit into the cache.

Published (its source): n_max = factor x capacity / EWMA(final context), the factor cut to 0.75 of itself when an engine
preempted, and raised by 2% when none did. Guessed: a factor of 1 to start with, at most 4 and at least 0.05; a weight
of 0.1 for the newest context; until one has ended, the largest context so far in its place.
"""

from dataclasses import dataclass, replace

from headway.core.facts import EngineSampled, Fact, TrajectoryFinished, TurnFinished
from headway.core.policy import Admission, Observer, Policies
from headway.core.world import Trajectory, World
from headway.policies.admission import Unlimited
from headway.policies.priority import Fifo
from headway.policies.residency import Uncontrolled
from headway.policies.routing import Sticky

WEIGHT = 0.1
CUT, RAISE = 0.75, 1.02
_LEAST, _MOST = 0.05, 4.0


@dataclass(slots=True)
class FinalContexts(Admission, Observer):
    """``factor``, ``mean`` of final contexts (None: none yet), ``largest`` context of any turn so far."""

    factor: float = 1.0
    mean: float | None = None
    largest: int = 1

    def observe(self, fact: Fact, world: World) -> None:
        """Learn how long contexts become, and whether engines are short of memory."""
        match fact:
            case TurnFinished():
                self.largest = max(self.largest, fact.prompt_tokens + fact.output_tokens)
            case TrajectoryFinished():
                streams = world.trajectories[fact.trajectory].streams.values()
                final = sum(stream.context for stream in streams)
                self.mean = final if self.mean is None else (1 - WEIGHT) * self.mean + WEIGHT * final
            case EngineSampled():
                before = world.engines[fact.engine].sample
                known = 0 if before is None else before.preemptions or 0
                change = CUT if (fact.preemptions or 0) > known else RAISE
                self.factor = min(_MOST, max(_LEAST, self.factor * change))
            case _:
                pass

    def admits(self, trajectory: Trajectory, world: World) -> bool:
        """Fewer live than n_max; any number where engines don't say what they hold."""
        capacity = 0
        for engine in world.engines.values():
            if engine.kv_tokens is None:
                return True
            capacity += engine.kv_tokens
        expected = max(self.mean if self.mean is not None else self.largest, trajectory.prompt, 1)
        return world.live < max(1.0, self.factor * capacity / expected)


def _begin(policies: Policies, world: World) -> Policies:  # noqa: ARG001 - nothing of the past matters
    contexts = FinalContexts()
    return replace(policies, admission=contexts, observers=(contexts,))


PRIME_RL = Policies("prime-rl", Unlimited(), Fifo(), Fifo(), Sticky(), Uncontrolled(), begin=_begin)
