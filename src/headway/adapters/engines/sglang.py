"""SGLang: two pools of fixed size, KV tokens and recurrent states, and a priority whose sense is a flag."""

from collections.abc import Mapping, Sequence
from typing import Any

from headway.adapters.engines.dialect import Geometry, Load, cached_by_usage, whole
from headway.adapters.engines.exposition import Exposition
from headway.adapters.engines.wire import Wire
from headway.core.units import Nanos, Tokens
from headway.errors import EngineError


class SGLang:
    """Needs ``--enable-cache-report`` to report cached tokens, ``--enable-priority-scheduling`` to use ranks.

    ``--enable-metrics`` lets it say how busy it is.
    """

    kind = "sglang"

    async def geometry(self, wire: Wire, model: Mapping[str, Any]) -> Geometry:
        """Read flags and pool sizes from ``/server_info`` (``/get_server_info`` before 0.5.6)."""
        info = await _server_info(wire)
        states = info.get("internal_states")
        state = states[0] if isinstance(states, list) and states and isinstance(states[0], dict) else {}
        kv = whole(info.get("max_total_num_tokens")) or whole(state.get("max_total_num_tokens"))
        context = (
            whole(info.get("context_length"))
            or whole(model.get("max_model_len"))
            or whole(info.get("max_req_input_len"))
        )
        return Geometry(
            kv_tokens=None if kv is None else Tokens(kv),
            state_slots=whole(state.get("max_mamba_cache_size")) or whole(info.get("max_mamba_cache_size")),
            block_tokens=Tokens(whole(info.get("page_size")) or 1),
            max_running=_max_running(info, state),
            max_context=None if context is None else Tokens(context),
            ranks=_ranks(info),
        )

    async def load(self, wire: Wire) -> Load | None:
        """Read ``/metrics``; without ``--enable-metrics`` only ask whether it is well."""
        try:
            page = Exposition((await wire.get("/metrics")).decode("utf-8", "replace"))
        except EngineError as error:
            if error.kind in ("lost", "timeout"):
                raise
            await wire.get("/health")
            return None
        return Load(
            running=page.count("sglang:num_running_reqs"),
            waiting=page.count("sglang:num_queue_reqs"),
            kv_usage=page.mean("sglang:token_usage"),
            preemptions=page.count("sglang:num_retracted_requests_total", "sglang:num_retracted_reqs_total"),
        )

    def cached(self, answer: Mapping[str, Any]) -> Tokens | None:
        """Where OpenAI puts it."""
        return cached_by_usage(answer)

    def queued(self, answer: Mapping[str, Any]) -> Nanos | None:  # noqa: ARG002 - a Protocol
        """Not reported in OpenAI's format."""
        return None

    async def tokens(self, wire: Wire, model: str, prompt: str | Sequence[Mapping[str, Any]]) -> Tokens | None:
        """Ask ``/tokenize``, which counts texts only: conversations would need the chat template."""
        if not isinstance(prompt, str):
            return None
        reply = await wire.post("/tokenize", {"model": model, "prompt": prompt}, limit=60.0)
        count = whole(wire.decode(reply.body, "/tokenize").get("count"))
        return None if count is None else Tokens(count)


async def _server_info(wire: Wire) -> Mapping[str, Any]:
    for path in ("/server_info", "/get_server_info"):
        try:
            info = await wire.get_json(path)
        except EngineError as error:
            if error.kind in ("lost", "timeout", "overloaded"):
                raise
            continue
        if isinstance(info, dict):
            return info
    return {}


def _max_running(info: Mapping[str, Any], state: Mapping[str, Any]) -> int | None:
    """Prefer what the scheduler settled on to what the flag asked for; both are totals over data-parallel ranks."""
    settled = whole(state.get("effective_max_running_requests_per_dp"))
    if settled is not None:
        return settled * (whole(info.get("dp_size")) or 1)
    return whole(info.get("max_running_requests"))


def _ranks(info: Mapping[str, Any]) -> int:
    if not info.get("enable_priority_scheduling"):
        return 0
    return 1 if info.get("schedule_low_priority_values_first") else -1
