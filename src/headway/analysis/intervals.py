"""Means with 95% intervals, and paired differences, for a handful of seeds."""

from collections.abc import Sequence
from math import sqrt
from statistics import fmean, stdev

Interval = tuple[float, float]

_STUDENT = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
)  # two-sided 95% quantiles of Student's t, for 1 to 20 degrees of freedom


def student(freedom: int) -> float:
    """The two-sided 95% quantile of Student's t; above 20 degrees by its expansion, within 1e-3."""
    if freedom <= len(_STUDENT):
        return _STUDENT[freedom - 1]
    z = 1.959964
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)


def standard_error(values: Sequence[float]) -> float | None:
    """Of the mean; None for a single value, which says nothing of its spread."""
    return stdev(values) / sqrt(len(values)) if len(values) > 1 else None


def interval(values: Sequence[float]) -> Interval | None:
    """The 95% interval of the mean; None for a single value."""
    error = standard_error(values)
    if error is None:
        return None
    middle, half = fmean(values), student(len(values) - 1) * error
    return (middle - half, middle + half)


def shorter(values: Sequence[float], than: Sequence[float]) -> list[float]:
    """By how many percent each value is below its partner; negative where it is above."""
    return [100 * (1 - value / other) for value, other in zip(values, than, strict=True)]
