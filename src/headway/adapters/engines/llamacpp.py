"""llama.cpp's server: a cache per slot, no priority, and timings in every answer."""

from collections.abc import Mapping, Sequence
from typing import Any

from headway.adapters.engines.dialect import Geometry, Load, cached_by_usage, whole
from headway.adapters.engines.exposition import Exposition
from headway.adapters.engines.wire import Wire
from headway.core.units import Nanos, Tokens
from headway.errors import EngineError


class LlamaCpp:
    """Nothing to switch on; ``--metrics`` adds the number of waiting requests."""

    kind = "llamacpp"

    async def geometry(self, wire: Wire, model: Mapping[str, Any]) -> Geometry:
        """Slots and context per slot from ``/props``: each slot is one KV cache and one recurrent state."""
        props = await wire.get_json("/props")
        settings = props.get("default_generation_settings") or {}
        slots = whole(props.get("total_slots"))
        context = whole(settings.get("n_ctx")) or whole((model.get("meta") or {}).get("n_ctx"))
        return Geometry(
            kv_tokens=None if slots is None or context is None else Tokens(slots * context),
            state_slots=slots,
            max_running=slots,
            max_context=None if context is None else Tokens(context),
        )

    async def load(self, wire: Wire) -> Load | None:
        """Read ``/metrics`` where it is on, else count the busy ones in ``/slots``, else ask whether it is well."""
        try:
            page = Exposition((await wire.get("/metrics")).decode("utf-8", "replace"))
        except EngineError as error:
            if error.kind in ("lost", "timeout"):
                raise
            return await self._slots(wire)
        return Load(
            running=page.count("llamacpp:requests_processing"), waiting=page.count("llamacpp:requests_deferred")
        )

    async def _slots(self, wire: Wire) -> Load | None:
        try:
            slots = await wire.get_json("/slots")
        except EngineError as error:
            if error.kind in ("lost", "timeout"):
                raise
            return None
        return Load(running=sum(bool(slot.get("is_processing")) for slot in slots))

    def cached(self, answer: Mapping[str, Any]) -> Tokens | None:
        """Read ``timings.cache_n``; older servers report only what OpenAI does."""
        value = (answer.get("timings") or {}).get("cache_n")
        return Tokens(value) if isinstance(value, int) else cached_by_usage(answer)

    def queued(self, answer: Mapping[str, Any]) -> Nanos | None:  # noqa: ARG002 - a Protocol
        """Not reported."""
        return None

    async def tokens(self, wire: Wire, model: str, prompt: str | Sequence[Mapping[str, Any]]) -> Tokens | None:
        """Count with ``/tokenize``, a conversation after ``/apply-template``."""
        if not isinstance(prompt, str):
            reply = await wire.post("/apply-template", {"model": model, "messages": prompt}, limit=60.0)
            prompt = str(wire.decode(reply.body, "/apply-template").get("prompt", ""))
        body = {"content": prompt, "add_special": True, "parse_special": True}
        reply = await wire.post("/tokenize", body, limit=60.0)
        tokens = wire.decode(reply.body, "/tokenize").get("tokens")
        return Tokens(len(tokens)) if isinstance(tokens, list) else None
