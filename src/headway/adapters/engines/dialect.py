"""What differs between kinds of engine, as one Protocol. Dialects hold no state and open no connection."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec

from headway.adapters.engines.wire import Wire
from headway.core.units import Nanos, Tokens


class Geometry(msgspec.Struct, frozen=True):
    """What an engine can hold; see ``EngineJoined``. ``ranks``: how it orders requests by ``priority``.

    ``ranks`` is 1 where a smaller number is sooner, -1 where a larger one is, 0 where it must not be sent.
    """

    kv_tokens: Tokens | None = None
    state_slots: int | None = None
    block_tokens: Tokens = Tokens(1)
    max_running: int | None = None
    max_context: Tokens | None = None
    ranks: int = 0


class Load(msgspec.Struct, frozen=True):
    """What an engine says of itself now; None where it does not say. ``preemptions`` counts since its start."""

    running: int | None = None
    waiting: int | None = None
    kv_usage: float | None = None
    preemptions: int | None = None


class Dialect(Protocol):
    """One kind of OpenAI-compatible engine."""

    kind: str

    async def geometry(self, wire: Wire, model: Mapping[str, Any]) -> Geometry:
        """Ask what it can hold; ``model`` is its entry in ``/v1/models``. Raises: ``EngineError``."""
        ...

    async def load(self, wire: Wire) -> Load | None:
        """Ask how busy it is; None where it does not say. Raises: ``EngineError``."""
        ...

    def cached(self, answer: Mapping[str, Any]) -> Tokens | None:
        """Prompt tokens that came from the cache; None: not reported."""
        ...

    def queued(self, answer: Mapping[str, Any]) -> Nanos | None:
        """Time the request spent waiting inside the engine; None: not reported."""
        ...

    async def tokens(self, wire: Wire, model: str, prompt: str | Sequence[Mapping[str, Any]]) -> Tokens | None:
        """Count the tokens of a text or a conversation; None where it can't. Raises: ``EngineError``."""
        ...


def cached_by_usage(answer: Mapping[str, Any]) -> Tokens | None:
    """Read ``usage.prompt_tokens_details.cached_tokens``, where OpenAI puts it."""
    details = (answer.get("usage") or {}).get("prompt_tokens_details") or {}
    value = details.get("cached_tokens")
    return Tokens(value) if isinstance(value, int) else None


def whole(value: object) -> int | None:
    """Read a positive whole number, written as a number or as text; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = int(float(value))
    except (ValueError, OverflowError):
        return None
    return number if number > 0 else None
