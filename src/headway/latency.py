"""What a turn costs an engine: four numbers, and how to fit them to the turns of a run.

A decode step of ``n`` sequences takes ``base + per_sequence * n + per_token * Σ context`` seconds, their contexts being
``Σ context`` tokens in all, and gives each one token; a computed prompt token takes ``prefill`` seconds. The same four
numbers serve the simulator, the lower bound and what-if.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean, median

from headway.core.progress import TurnSample
from headway.core.units import Nanos, nanos, seconds

FEWEST = 8
"""Turns that a fit needs at least."""

_LEAST_SERVICE = 1e-3  # seconds; shorter turns say more of the network than of the engine
_FLAT = 1e-9  # a pivot that small, of columns scaled to length 1, means that two of them say the same
_Row = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class LatencyModel:
    """Costs in seconds; satisfies :class:`headway.core.bounds.Cost`. ``prefill`` is per token, 1 / prefill rate."""

    base: float
    per_sequence: float
    per_token: float
    prefill: float

    def step(self, sequences: float, context: float) -> float:
        """Seconds that one decode step takes, ``context`` tokens being in all sequences together."""
        return self.base + self.per_sequence * sequences + self.per_token * context

    def turn_service(self, *, new: float, output: float, batch: float = 1, context: float = 0) -> Nanos:
        """How long a turn takes that computes ``new`` prompt tokens and generates ``output``.

        ``batch`` sequences (itself included) with ``context`` tokens in all run beside it on average.
        """
        return nanos(self.prefill * new + output * self.step(batch, context))


@dataclass(frozen=True, slots=True)
class Fit:
    """A fitted model and how far off it is: absolute relative errors of the service time, over ``turns`` turns."""

    model: LatencyModel
    turns: int
    median_error: float
    mean_error: float


def fit(samples: Sequence[TurnSample]) -> Fit | None:
    """Fit the four numbers, none negative, to turns; None where there are fewer than ``FEWEST``.

    Least squares of *relative* errors, so that short turns count as much as long ones. Four numbers allow the plain way
    to keep them from being negative: every subset of them is solved for, and the best one without a negative wins.
    What the turns can't tell apart (every batch alike, say) is given to as few numbers as explain it.
    """
    usable = [sample for sample in samples if seconds(sample.service) >= _LEAST_SERVICE]
    if len(usable) < FEWEST:
        return None
    rows = [_features(sample) for sample in usable]
    targets = [seconds(sample.service) for sample in usable]
    model = LatencyModel(*_least_squares(rows, targets))
    errors = [
        abs(sum(c * x for c, x in zip(_parts(model), row, strict=True)) - target) / target
        for row, target in zip(rows, targets, strict=True)
    ]
    return Fit(model, len(usable), median(errors), fmean(errors))


def _features(sample: TurnSample) -> _Row:
    output = sample.output
    return (float(output), output * sample.batch, output * sample.context, float(sample.new))


def _parts(model: LatencyModel) -> _Row:
    return (model.base, model.per_sequence, model.per_token, model.prefill)


def _least_squares(rows: Sequence[_Row], targets: Sequence[float]) -> _Row:
    width = len(rows[0])
    scaled = [[x / target for x in row] for row, target in zip(rows, targets, strict=True)]
    matrix = [[sum(row[i] * row[j] for row in scaled) for j in range(width)] for i in range(width)]
    vector = [sum(row[i] for row in scaled) for i in range(width)]
    best: _Row = (0.0,) * width
    least = float(len(rows))  # the squared error of a model that is 0 everywhere
    for size in range(1, width + 1):
        for chosen in combinations(range(width), size):
            found = _solve(matrix, vector, chosen)
            if found is None or min(found) < 0:
                continue
            error = len(rows) - sum(c * vector[i] for c, i in zip(found, chosen, strict=True))
            if error < least - _FLAT * len(rows):
                least = error
                best = tuple(found[chosen.index(i)] if i in chosen else 0.0 for i in range(width))
    return best


def _solve(matrix: Sequence[Sequence[float]], vector: Sequence[float], chosen: Sequence[int]) -> list[float] | None:
    """Solve the normal equations for the chosen columns, None where they are (nearly) dependent."""
    scale = [matrix[i][i] ** 0.5 for i in chosen]
    if not all(scale):
        return None
    table = [
        [matrix[i][j] / scale[a] / scale[b] for b, j in enumerate(chosen)] + [vector[i] / scale[a]]
        for a, i in enumerate(chosen)
    ]
    size = len(chosen)
    for column in range(size):
        pivot = max(range(column, size), key=lambda row: abs(table[row][column]))
        if abs(table[pivot][column]) < _FLAT:
            return None
        table[column], table[pivot] = table[pivot], table[column]
        for row in range(size):
            if row != column:
                factor = table[row][column] / table[column][column]
                table[row] = [x - factor * y for x, y in zip(table[row], table[column], strict=True)]
    return [table[i][size] / table[i][i] / scale[i] for i in range(size)]
