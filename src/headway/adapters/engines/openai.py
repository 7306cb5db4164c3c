"""Any other OpenAI-compatible server: it takes turns and says little of itself."""

from collections.abc import Mapping, Sequence
from typing import Any

from headway.adapters.engines.dialect import Geometry, Load, cached_by_usage, whole
from headway.adapters.engines.wire import Wire
from headway.core.units import Nanos, Tokens


class Plain:
    """No priority, no cache figures; unknown fields might be refused, so none is sent."""

    kind = "openai"

    async def geometry(self, wire: Wire, model: Mapping[str, Any]) -> Geometry:  # noqa: ARG002 - a Protocol
        """Only the context length, where the listing tells it."""
        context = whole(model.get("max_model_len")) or whole(model.get("context_length"))
        return Geometry(max_context=None if context is None else Tokens(context))

    async def load(self, wire: Wire) -> Load | None:
        """Check that it still answers; it has nothing to say of its load."""
        await wire.get("/v1/models")
        return None

    def cached(self, answer: Mapping[str, Any]) -> Tokens | None:
        """Where OpenAI puts it."""
        return cached_by_usage(answer)

    def queued(self, answer: Mapping[str, Any]) -> Nanos | None:  # noqa: ARG002 - a Protocol
        """Not reported."""
        return None

    async def tokens(
        self,
        wire: Wire,  # noqa: ARG002 - a Protocol
        model: str,  # noqa: ARG002
        prompt: str | Sequence[Mapping[str, Any]],  # noqa: ARG002
    ) -> Tokens | None:
        """No server of this kind counts for us."""
        return None
