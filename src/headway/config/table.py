"""Reading a table of settings: each value checked as it is taken, and what nobody took refused by name.

It knows where a value came from, so that a complaint names the file, or for a flag just the key.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from difflib import get_close_matches
from math import isfinite

from headway.errors import ConfigError

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|s|m|h))+")
_PLACE = re.compile(r"\[\d+\]")
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")


def nearest(word: str, known: Collection[str]) -> str:
    """What to say of an unknown word: the known one that was meant, or all of them."""
    close = get_close_matches(word, known, 1)
    return f"did you mean {close[0]}?" if close else f"one of: {', '.join(known)}"


class Table:
    """One table of settings. Every method that takes a value raises ``ConfigError`` for a wrong one.

    Args:
        values: what was given.
        file: where; empty for none.
        flags: dotted keys that came from flags instead.
        path: dotted key of this table, empty for the outermost.
    """

    def __init__(self, values: Mapping[str, object], file: str, flags: frozenset[str], path: str = "") -> None:
        self._values, self._file, self._flags, self._path = values, file, flags, path
        self._taken: list[str] = []

    def wrong(self, key: str, what: str, *, hint: str = "") -> ConfigError:
        """Complain about a value of this table."""
        dotted = self._dotted(key)
        parts = _PLACE.sub("", dotted).split(".")
        flagged = any(".".join(parts[: end + 1]) in self._flags for end in range(len(parts)))
        where = dotted if flagged or not self._file else f"{self._file}: {dotted}"
        return ConfigError(what, where=where, hint=hint)

    def names(self) -> Iterator[str]:
        """The keys that were given."""
        return iter(self._values)

    def has(self, key: str) -> bool:
        """Was this key given?"""
        return key in self._values

    def get(self, key: str) -> object:
        """A value as it is, None where it was not given."""
        if key not in self._taken:
            self._taken.append(key)
        return self._values.get(key)

    def done(self, known: Collection[str] = ()) -> None:
        """Refuse what nobody took; ``known``: names that could have been, where that is more than was looked for."""
        for key in self._values:
            if key not in self._taken:
                raise self.wrong(key, "unknown setting", hint=nearest(key, known or self._taken))

    # -- nested -----------------------------------------------------------------------------------------------

    def table(self, key: str, *, shorthand: str | None = None) -> "Table":
        """A table inside this one, empty where it was not given; ``shorthand``: a bare value means this key of it."""
        return self._inner(key, self.get(key), shorthand)

    def listed(self, key: str, *, shorthand: str) -> list["Table"]:
        """A list of tables, or of bare values that mean the key ``shorthand`` of one."""
        value = self.get(key)
        if value is None:
            return []
        if not isinstance(value, list | tuple):
            value = [value]
        return [self._inner(f"{key}[{place}]", entry, shorthand) for place, entry in enumerate(value)]

    def _inner(self, key: str, value: object, shorthand: str | None) -> "Table":
        if isinstance(value, Mapping):
            values: Mapping[str, object] = value
        elif value is None:
            values = {}
        elif shorthand is not None:
            values = {shorthand: value}
        else:
            raise self.wrong(key, f"must be a table, is {value!r}")
        return Table(values, self._file, self._flags, self._dotted(key))

    def _dotted(self, key: str) -> str:
        return f"{self._path}.{key}" if self._path else key

    # -- values -----------------------------------------------------------------------------------------------

    def text(self, key: str) -> str | None:
        """A string that is not empty."""
        value = self.get(key)
        if value is None:
            return None
        if not isinstance(value, str) or not value:
            raise self.wrong(key, f"must be a string, is {value!r}")
        return value

    def truth(self, key: str) -> bool:
        """True or false; false where it was not given."""
        value = self.get(key)
        if value is not None and not isinstance(value, bool):
            raise self.wrong(key, f"must be true or false, is {value!r}")
        return bool(value)

    def integer(self, key: str, *, least: int, default: int | None = None) -> int:
        """A whole number; one that has no default must be given."""
        value = self.maybe_integer(key, least=least)
        if value is None and default is None:
            raise self.wrong(key, "is missing", hint=f"a whole number, at least {least}")
        return value if value is not None else default or 0

    def maybe_integer(self, key: str, *, least: int) -> int | None:
        """A whole number, or None where it was not given."""
        value = self.get(key)
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool):
            raise self.wrong(key, f"must be a whole number, is {value!r}")
        if value < least:
            raise self.wrong(key, f"must be at least {least}, is {value}")
        return value

    def number(self, key: str, *, above: float | None = None, least: float | None = None) -> float:
        """A number that was given."""
        value = self.get(key)
        if not isinstance(value, int | float) or isinstance(value, bool) or not isfinite(value):
            raise self.wrong(key, f"must be a number, is {value!r}")
        if above is not None and value <= above:
            raise self.wrong(key, f"must be more than {above:g}, is {value:g}")
        if least is not None and value < least:
            raise self.wrong(key, f"must be at least {least:g}, is {value:g}")
        return float(value)

    def maybe_number(self, key: str, *, above: float | None = None, least: float | None = None) -> float | None:
        """A number, or None where it was not given."""
        return None if self.get(key) is None else self.number(key, above=above, least=least)

    def percent(self, key: str) -> float:
        """A share above 0, written like ``5%``."""
        text = str(self.get(key)).removesuffix("%").strip()
        try:
            share = float(text) / 100
        except ValueError:
            share = float("nan")
        if not share > 0:
            raise self.wrong(key, f"must be a percentage above 0, is {self.get(key)!r}")
        return share

    def duration(self, key: str) -> float | None:
        """Seconds above 0, from a number or a string like ``90s``, ``5m`` or ``1h30m``; None where not given."""
        value = self.get(key)
        if isinstance(value, str):
            if not _DURATION.fullmatch(value):
                raise self.wrong(key, f"must be a duration like 90s, 5m or 1h30m, is {value!r}")
            value = sum(float(amount) * _UNITS[unit] for amount, unit in _PART.findall(value))
            if value <= 0:
                raise self.wrong(key, "must be more than 0 s")
            return value
        return self.maybe_number(key, above=0)
