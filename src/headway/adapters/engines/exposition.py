"""Reads the Prometheus text format, as far as engines write it."""

import re
from collections.abc import Iterator, Mapping

import msgspec

_LINE = re.compile(r"^([A-Za-z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


class Series(msgspec.Struct, frozen=True):
    """One line: a name, its labels, a value."""

    name: str
    labels: Mapping[str, str]
    value: float


class Exposition:
    """What one scrape said."""

    def __init__(self, text: str) -> None:
        self._series: dict[str, list[Series]] = {}
        for series in _parse(text):
            self._series.setdefault(series.name, []).append(series)

    def total(self, *names: str) -> float | None:
        """Sum over the labels of the first of ``names`` that is there; None: none is."""
        for name in names:
            if name in self._series:
                return sum(s.value for s in self._series[name])
        return None

    def count(self, *names: str) -> int | None:
        """``total``, as a whole number."""
        value = self.total(*names)
        return None if value is None else int(value)

    def mean(self, *names: str) -> float | None:
        """Mean over the labels of the first of ``names`` that is there; None: none is."""
        for name in names:
            if found := self._series.get(name):
                return sum(s.value for s in found) / len(found)
        return None

    def labels(self, name: str) -> list[Mapping[str, str]]:
        """Return the labels of every line called ``name``."""
        return [s.labels for s in self._series.get(name, ())]


def _parse(text: str) -> Iterator[Series]:
    for line in text.splitlines():
        found = _LINE.match(line)
        if found is None:
            continue
        name, labels, value = found.groups()
        try:
            number = float(value)
        except ValueError:
            continue
        if number == number:  # noqa: PLR0124 - not a NaN
            yield Series(name, dict(_LABEL.findall(labels or "")), number)
