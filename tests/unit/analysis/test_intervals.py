"""Intervals against tables, and pairs against arithmetic."""

import pytest

from headway.analysis.intervals import interval, shorter, standard_error, student


def test_students_quantiles() -> None:
    assert [student(n) for n in (1, 7, 20)] == [12.706, 2.365, 2.086]
    assert student(21) == pytest.approx(2.080, abs=1e-3)
    assert student(60) == pytest.approx(2.000, abs=1e-3)
    assert student(1000) == pytest.approx(1.962, abs=1e-3)


def test_an_interval_lies_around_the_mean() -> None:
    assert interval([4.0, 6.0, 8.0]) == pytest.approx((6 - 4.303 * 2 / 3**0.5, 6 + 4.303 * 2 / 3**0.5))
    assert standard_error([4.0, 6.0, 8.0]) == pytest.approx(2 / 3**0.5)
    assert interval([4.0]) is None


def test_shorter_is_positive() -> None:
    assert shorter([50.0, 120.0], [100.0, 100.0]) == pytest.approx([50.0, -20.0])
    with pytest.raises(ValueError, match="zip"):
        shorter([1.0], [1.0, 2.0])
