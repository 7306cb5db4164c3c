"""An answer on its way through: its bytes to whoever relays them, its tokens counted in passing."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import aiohttp
import msgspec

from headway.adapters.engines.dialect import whole
from headway.adapters.engines.events import Splitter, data
from headway.core.units import Tokens
from headway.ports import Headers, Relay


class _Told(msgspec.Struct, frozen=True):
    """What an answer says of its own cost; everything else is skipped."""

    usage: Any = None
    timings: Any = None
    metrics: Any = None
    response: Any = None


_decode = msgspec.json.Decoder(_Told).decode


class Counted(NamedTuple):
    """Tokens of an answer. ``said``: the parts that dialects read; empty where it says nothing."""

    prompt: Tokens
    output: Tokens
    said: Mapping[str, Any]


async def pass_on(response: aiohttp.ClientResponse, relay: Relay) -> Counted:
    """Hand an answer on as it comes. Raises: ``EngineError`` when it breaks off."""
    headers = tuple(response.headers.items())
    if response.content_type == "text/event-stream":
        return await _streamed(response, headers, relay)
    body = await response.read()
    relay.whole(headers, body)
    return _counted(body, relay, 0)


async def _streamed(response: aiohttp.ClientResponse, headers: Headers, relay: Relay) -> Counted:
    events, last, pieces = Splitter(), b"", 0
    relay.begun(headers)
    async for piece in response.content.iter_any():
        await relay.more(piece)
        for event in events.feed(piece):
            pieces += 1
            if b'"usage":' in event and b'"usage":null' not in event and b'"usage": null' not in event:
                last = event
    return _counted(data(last), relay, max(0, pieces - 2))


def _counted(body: bytes, relay: Relay, pieces: int) -> Counted:
    """Tokens as the engine counted them; where it did not, the guess, and a token for each piece of a stream."""
    try:
        told = _decode(body) if body else _Told()
    except (msgspec.MsgspecError, UnicodeDecodeError):
        told = _Told()
    inner = told.response if isinstance(told.response, dict) else {}  # a stream of /responses wraps it up
    usage = told.usage if isinstance(told.usage, dict) else inner.get("usage")
    if not isinstance(usage, dict):
        return Counted(relay.prompt, Tokens(pieces), {})
    prompt = whole(usage.get("prompt_tokens")) or whole(usage.get("input_tokens")) or relay.prompt
    output = whole(usage.get("completion_tokens")) or whole(usage.get("output_tokens")) or 0
    details = usage.get("prompt_tokens_details") or usage.get("input_tokens_details")
    said = {
        "usage": {"prompt_tokens_details": details if isinstance(details, dict) else None},
        "timings": told.timings if isinstance(told.timings, dict) else None,
        "metrics": told.metrics if isinstance(told.metrics, dict) else None,
    }
    return Counted(Tokens(prompt), Tokens(output), {k: v for k, v in said.items() if v is not None})
