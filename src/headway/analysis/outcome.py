"""What came of one simulated batch under one policy."""

import msgspec


class Outcome(msgspec.Struct, frozen=True):
    """One batch under one policy. Seconds; ``over_bound``: makespan over lower bound; ``binding``: the term it is."""

    setting: str
    policy: str
    seed: int
    makespan: float
    bound: float
    binding: str
    hit_rate: float
    expected_hit_rate: float
    max_wait: float
    preemptions: int
    evictions: int
    facts: int
    failed: int

    @property
    def over_bound(self) -> float:
        """Makespan over lower bound."""
        return self.makespan / self.bound
