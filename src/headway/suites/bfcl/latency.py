"""Delays that stand for remote APIs: the simulators answer at once, real services do not."""

import math
import random

import msgspec


class InjectedLatency(msgspec.Struct, frozen=True, kw_only=True):
    """A lognormal delay on every action. ``mean`` in seconds, ``sigma`` of the logarithm, ``seed`` of the dice.

    The defaults were fixed before anything was measured with them. A delay depends on seed, task and action
    alone: it is the same under every policy, on every machine and after a resume.
    """

    mean: float = 1.5
    sigma: float = 1.0
    seed: int = 0

    def seconds(self, task: str, action: int) -> float:
        """The delay of a task's action; actions count from 0."""
        mu = math.log(self.mean) - self.sigma**2 / 2  # so that the mean of the delay is `mean`
        return random.Random(f"{self.seed}:{task}:{action}").lognormvariate(mu, self.sigma)  # noqa: S311 - a model

    @property
    def label(self) -> str:
        """What has to stand beside every figure that rests on it."""
        return f"injected action delay: lognormal, mean {self.mean:g} s, sigma {self.sigma:g}, seed {self.seed}"
