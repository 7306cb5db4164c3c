"""Typed reading of a Hugging Face config that remembers where it looks. Knows no model family."""

from collections.abc import Mapping, Sequence
from typing import cast

from headway.errors import ConfigError


class Fields:
    """A config's fields, read by any of the names that models give them.

    Every refusal names the fields that were looked for. None counts as absent.
    """

    def __init__(self, values: Mapping[str, object], where: str) -> None:
        self._values = values
        self.where = where

    def has(self, *names: str) -> bool:
        """Whether any of the names holds a value."""
        return any(self._values.get(name) is not None for name in names)

    def text(self, *names: str) -> str | None:
        """A string, or None."""
        found = self._find(names)
        if found is None:
            return None
        if not isinstance(found[1], str):
            raise self._bad(found[0], found[1], "text")
        return found[1]

    def integer(self, *names: str, default: int | None = None) -> int:
        """A positive whole number; refuses when absent and without a default."""
        found = self._find(names)
        if found is None:
            if default is None:
                raise ConfigError(
                    f"none of {', '.join(names)} is there",
                    where=self.where,
                    hint="add it, or describe the layers in an override file",
                )
            return default
        name, value = found
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise self._bad(name, value, "a whole number")
        return value

    def flag(self, name: str, *, default: bool = False) -> bool:
        """A boolean; anything else counts as its truth value."""
        value = self._values.get(name)
        return default if value is None else bool(value)

    def items(self, *names: str) -> Sequence[object] | None:
        """A list, or None."""
        found = self._find(names)
        if found is None:
            return None
        if isinstance(found[1], str) or not isinstance(found[1], Sequence):
            raise self._bad(found[0], found[1], "a list")
        return found[1]

    def group(self, name: str) -> "Fields | None":
        """A nested object, or None."""
        value = self._values.get(name)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise self._bad(name, value, "an object")
        return Fields(cast("Mapping[str, object]", value), f"{self.where}, {name}")

    def _find(self, names: tuple[str, ...]) -> tuple[str, object] | None:
        for name in names:
            value = self._values.get(name)
            if value is not None:
                return name, value
        return None

    def _bad(self, name: str, value: object, wanted: str) -> ConfigError:
        return ConfigError(f"{name} is {str(value)[:60]!r}, not {wanted}", where=self.where)
