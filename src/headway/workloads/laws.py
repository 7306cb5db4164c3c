"""Distributions by their quantile function: a number between 0 and 1 goes in, a value comes out.

That makes every one of them correlated the same way: whoever draws decides which numbers go in.
"""

from bisect import bisect_right
from dataclasses import dataclass
from math import exp, log
from statistics import NormalDist
from typing import Protocol

_NORMAL = NormalDist()
_SHORT = 0.85
"""Share of short chains in a mixture; they have half the mean, the others share out the rest."""


class Law(Protocol):
    """A distribution."""

    def at(self, u: float) -> float:
        """The value that a share ``u`` (0 < u < 1) of all draws lies below."""
        ...


@dataclass(frozen=True, slots=True)
class Lognormal:
    """Mean ``mean``; the logarithm has deviation ``sigma``."""

    mean: float
    sigma: float

    def at(self, u: float) -> float:
        """exp(ln mean - sigma^2 / 2 + sigma z)."""
        return self.mean * exp(self.sigma * (_NORMAL.inv_cdf(u) - self.sigma / 2))


@dataclass(frozen=True, slots=True)
class Geometric:
    """Constant hazard: every action is the last one with probability 1 / mean."""

    mean: float

    def at(self, u: float) -> float:
        """ln(1 - u) / ln(1 - 1 / mean)."""
        return log(1 - u) / log(1 - 1 / self.mean)


@dataclass(frozen=True, slots=True)
class TwoModes:
    """Most chains short, uniform around half the mean; the others long, and few between: the hazard rises in each."""

    mean: float

    def at(self, u: float) -> float:
        """Short from a quarter to three quarters of the mean, long within 30% of what makes the mean right."""
        if u < _SHORT:
            return self.mean / 2 * (0.5 + u / _SHORT)
        long = self.mean * (1 - _SHORT / 2) / (1 - _SHORT)
        return long * (0.7 + 0.6 * (u - _SHORT) / (1 - _SHORT))


@dataclass(frozen=True, slots=True)
class Uniform:
    """Anything from 0.3 to 1.7 times the mean alike: the hazard rises."""

    mean: float

    def at(self, u: float) -> float:
        """Linear in ``u``."""
        return self.mean * (0.3 + 1.4 * u)


@dataclass(frozen=True, slots=True)
class Pareto:
    """Pareto's second kind (Lomax): the hazard falls for ever. The mean exists where ``alpha`` is above 1."""

    mean: float
    alpha: float

    def at(self, u: float) -> float:
        """Lomax: mean (alpha - 1) ((1 - u)^(-1/alpha) - 1)."""
        return self.mean * (self.alpha - 1) * (exp(-log(1 - u) / self.alpha) - 1)


@dataclass(frozen=True, slots=True)
class Quantiles:
    """Whatever was published: points (share, value), straight lines between them in the logarithm of the value.

    ``points`` rise in both, begin at share 0 and end at share 1; values are above 0.
    """

    points: tuple[tuple[float, float], ...]

    def at(self, u: float) -> float:
        """Interpolate."""
        place = min(bisect_right(self.points, u, key=lambda point: point[0]), len(self.points) - 1)
        (left, low), (right, high) = self.points[place - 1], self.points[place]
        return low * exp(log(high / low) * (u - left) / (right - left))
