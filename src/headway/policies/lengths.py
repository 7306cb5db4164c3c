"""What is known of how long chains are: by group, by how far each has come, learnt from the batch itself.

A chain takes L actions; members of one group share a location, ln L ~ Normal(theta, ``SPREAD``). Each group's theta is
one of ``CELLS`` values, and how often each occurs in the batch is learnt while it runs: an empirical-Bayes mixture
(Robbins 1956; estimated by EM, as Laird 1978), so that heavy tails, one mode or two are all told apart by the data.
What is unfinished counts as such: it says P(L > n), not P(L = n). Nothing here knows a world.
"""

from collections.abc import Iterable, Sequence
from functools import cache
from math import erfc, exp, log, sqrt
from operator import mul

SPREAD = 0.5
"""Deviation of ln L within a group."""

CELLS = 16
FIRST = 8.0
"""Actions that a chain is taken to have before anything is known."""

_LEAST, _MOST = 1.0, 400.0
_WIDTH = 1.0  # deviation of theta before anything is known
_STRENGTH = 2.0  # groups that this first guess weighs as much as
_FLOOR = 1e-17

Logs = list[float]
"""One logarithm per cell."""

THETAS = tuple(log(_LEAST) + cell * log(_MOST / _LEAST) / (CELLS - 1) for cell in range(CELLS))


def _upper(x: float) -> float:
    """P(X > x) of a standard normal X."""
    return erfc(x / sqrt(2)) / 2


@cache
def beyond(n: int) -> Logs:
    """Logarithm of P(L > n), by cell."""
    if n <= 0:
        return [0.0] * CELLS
    return [log(max(_upper((log(n) - theta) / SPREAD), _FLOOR)) for theta in THETAS]


@cache
def exactly(n: int) -> Logs:
    """Logarithm of P(L = n), by cell. A chain without actions says nothing of the others."""
    if n <= 0:
        return [0.0] * CELLS
    return [log(max(exp(a) - exp(b), _FLOOR)) for a, b in zip(beyond(n - 1), beyond(n), strict=True)]


@cache
def left(n: int) -> list[float]:
    """E[L - n | L > n], by cell, at least 1."""
    return [_left(n, theta) for theta in THETAS]


def _left(n: int, theta: float) -> float:
    mean = exp(theta + SPREAD**2 / 2)
    if n <= 0:
        return max(1.0, mean + 0.5)
    x = (log(n) - theta) / SPREAD
    if x > 5:  # far out in the tail, where both probabilities vanish
        return max(1.0, n * SPREAD / x)
    return max(1.0, mean * _upper(x - SPREAD) / _upper(x) - n + 0.5)


class Lengths:
    """The mixture of a batch: how likely each cell is for a group of which nothing is known yet."""

    def __init__(self, first: float = FIRST) -> None:
        raw = [exp(-(((theta - log(first)) / _WIDTH) ** 2) / 2) for theta in THETAS]
        self._guess = [weight / sum(raw) for weight in raw]
        self._logs = [log(weight) for weight in self._guess]

    def weights(self, seen: Sequence[float]) -> list[float]:
        """How likely each cell is, given the log-likelihood of what was seen of a group."""
        logs = [a + b for a, b in zip(seen, self._logs, strict=True)]
        top = max(logs)
        raw = [exp(x - top) for x in logs]
        total = sum(raw)
        return [x / total for x in raw]

    def learn(self, seen: Iterable[tuple[Sequence[float], float]]) -> None:
        """One step of EM over all groups: (log-likelihood, how many such groups)."""
        counts = [_STRENGTH * guess for guess in self._guess]
        for logs, many in seen:
            counts = [count + many * weight for count, weight in zip(counts, self.weights(logs), strict=True)]
        total = sum(counts)
        self._logs = [log(count / total) for count in counts]


@cache
def excess(n: int, most: int) -> list[float]:
    """E[max(0, L - n - most) | L > n], by cell: actions beyond the next ``most``."""
    then = n + most
    return [exp(a - b) * more for a, b, more in zip(beyond(then), beyond(n), left(then), strict=True)]


def expected(weights: Sequence[float], n: int) -> float:
    """Actions that a chain which is longer than ``n`` still has to take, on average."""
    return float(sum(map(mul, weights, left(n))))


def expected_excess(weights: Sequence[float], n: int, most: int) -> float:
    """Actions beyond the next ``most`` that such a chain still has to take, on average."""
    return float(sum(map(mul, weights, excess(n, most))))
