"""An OpenAI-compatible engine as ``headway.ports.Engine``: one URL, one model, one cache."""

import asyncio
import difflib
from collections.abc import Mapping, Sequence
from typing import Any

import aiohttp
import msgspec

from headway.adapters.engines.dialect import Dialect, Geometry, Load
from headway.adapters.engines.kinds import DIALECTS, recognise
from headway.adapters.engines.relay import pass_on
from headway.adapters.engines.wire import Wire
from headway.core.commands import StartTurn
from headway.core.facts import EngineJoined, EngineSampled
from headway.core.units import EngineId, Nanos, Tokens, nanos
from headway.errors import ConfigError, EngineError
from headway.ports import Relay, TurnAnswer, TurnRequest

_RANK_LIMIT = 2**31 - 1


class OpenAIEngine:
    """One replica. Joins itself at the first turn if nobody did before.

    Args:
        wire: its connections; owned, closed with it.
        kind: a key of ``DIALECTS``; None: recognised when joining.
        model: the model to ask for; None: the first one served.
    """

    def __init__(self, wire: Wire, *, kind: str | None, model: str | None) -> None:
        self.wire = wire
        self._kind, self._wanted = kind, model
        self._settled: tuple[Dialect, str, Geometry] | None = None

    @property
    def id(self) -> EngineId:
        """Its URL."""
        return EngineId(self.wire.base)

    @property
    def model(self) -> str | None:
        """The name of the model that turns ask for; None before joining."""
        return self._settled[1] if self._settled else self._wanted

    @property
    def ranks(self) -> int:
        """How it orders by ``priority``: 1 smaller sooner, -1 larger sooner, 0 not at all or not joined."""
        return self._settled[2].ranks if self._settled else 0

    async def join(self, at: Nanos) -> EngineJoined:
        """Check that it is there, speaks OpenAI and serves the model; say what it can hold.

        Raises: ``ConfigError`` (nobody there, not an engine, no such model, wrong key), ``EngineError`` (not ready).
        """
        dialect, _, geometry = self._settled = await self._settle()
        return EngineJoined(
            at=at,
            engine=self.id,
            kind=dialect.kind,
            kv_tokens=geometry.kv_tokens,
            state_slots=geometry.state_slots,
            block_tokens=geometry.block_tokens,
            max_running=geometry.max_running,
            max_context=geometry.max_context,
        )

    async def turn(self, start: StartTurn, request: TurnRequest) -> TurnAnswer:
        """Run one turn, not streamed. Cancelling closes the connection: the engine aborts. Raises: ``EngineError``."""
        dialect, model, geometry = await self._ready()
        rank = start.rank * geometry.ranks if geometry.ranks else None
        if request.relay is not None:
            return await self._relayed(request, request.relay, dialect, _stamped(request.body, model, rank))
        body = _stamped({**request.body, "stream": False}, model, rank, without=("priority", "stream_options"))
        reply = await self.wire.post(f"/v1/{request.route}", body, limit=request.timeout)
        answer = _checked(self.wire.decode(reply.body, f"/v1/{request.route}"), self.id)
        usage = answer["usage"]
        return TurnAnswer(
            body=answer,
            prompt_tokens=Tokens(usage["prompt_tokens"]),
            output_tokens=Tokens(usage.get("completion_tokens") or 0),
            service=reply.service,
            cached_tokens=dialect.cached(answer),
            engine_queue=dialect.queued(answer),
        )

    async def _relayed(
        self, request: TurnRequest, relay: Relay, dialect: Dialect, body: Mapping[str, Any]
    ) -> TurnAnswer:
        """Hand the answer on as it comes."""
        if relay.started:
            raise EngineError("a part of the answer was delivered, and then it broke off", kind="invalid")
        path = f"/v1/{request.route}"
        sent = msgspec.json.encode(body)
        try:
            async with self.wire.opened("POST", path, sent, limit=request.timeout, headers=request.headers) as opened:
                response, began = opened
                await self._accepted(response, relay, path)
                counted = await pass_on(response, relay)
                service = nanos(asyncio.get_running_loop().time() - began)
        except BaseException as error:
            if relay.started:
                relay.broke(str(error) or "its engine is gone")
            raise
        cached, queued = dialect.cached(counted.said), dialect.queued(counted.said)
        return TurnAnswer({}, counted.prompt, counted.output, service, cached, queued)

    async def _accepted(self, response: aiohttp.ClientResponse, relay: Relay, path: str) -> None:
        if not 200 <= response.status < 300:
            said = await response.read()
            relay.refused(response.status, tuple(response.headers.items()), said)
            raise self.wire.refusal(response, said, path)

    async def sample(self, at: Nanos) -> EngineSampled | None:
        """Ask how busy it is. None where it does not say; ``EngineError`` only when it is dead or deaf."""
        dialect, _, _ = await self._ready()
        try:
            load = await dialect.load(self.wire)
        except EngineError as error:
            if error.kind in ("lost", "timeout"):
                raise
            load = None
        if load is None or load == Load():
            return None
        return EngineSampled(at, self.id, load.running, load.waiting, load.kv_usage, load.preemptions)

    async def tokenize(self, prompt: str | Sequence[Mapping[str, Any]]) -> Tokens | None:
        """Count the tokens of a text, or of a conversation under its chat template; None where it can't.

        Raises: ``EngineError``.
        """
        dialect, model, _ = await self._ready()
        return await dialect.tokens(self.wire, model, prompt)

    async def close(self) -> None:
        """Let go of connections; what is in flight fails."""
        await self.wire.close()

    async def _ready(self) -> tuple[Dialect, str, Geometry]:
        if self._settled is None:
            self._settled = await self._settle()
        return self._settled

    async def _settle(self) -> tuple[Dialect, str, Geometry]:
        served = await self._served()
        entry = self._pick(served)
        kind = self._kind or recognise(entry)
        dialect = DIALECTS[kind]
        return dialect, str(entry["id"]), await dialect.geometry(self.wire, entry)

    async def _served(self) -> list[Mapping[str, Any]]:
        where = self.wire.base
        try:
            listing = await self.wire.get_json("/v1/models")
        except EngineError as error:
            raise _unusable(where, error) from error
        models = listing.get("data") if isinstance(listing, dict) else None
        entries: list[Mapping[str, Any]] = (
            [m for m in models if isinstance(m, dict) and m.get("id")] if isinstance(models, list) else []
        )
        if not entries:
            raise ConfigError("/v1/models lists no model: this is not an OpenAI-compatible engine", where=where)
        return entries

    def _pick(self, served: list[Mapping[str, Any]]) -> Mapping[str, Any]:
        if self._wanted is None:
            return served[0]
        names = [str(m["id"]) for m in served]
        if self._wanted in names:
            return served[names.index(self._wanted)]
        near = difflib.get_close_matches(self._wanted, names, n=1, cutoff=0.0)[0]
        raise ConfigError(f"no model {self._wanted!r} is served there", where=self.wire.base, hint=_hint(names, near))


def _hint(names: Sequence[str], near: str) -> str:
    if len(names) == 1:
        return f"it serves {near!r}"
    return f"did you mean {near!r}? It serves {', '.join(sorted(names)[:8])}"


def _unusable(where: str, error: EngineError) -> ConfigError | EngineError:
    """Turn the first failed call into one line that says what to do; what may pass by itself stays as it is."""
    match error.kind:
        case "lost":
            return ConfigError(
                f"no engine answers: {str(error).partition(' is gone: ')[2]}",
                where=where,
                hint="start it, or try `headway engine up`",
            )
        case "invalid" | "error":
            return ConfigError(f"not an OpenAI-compatible engine: {error}", where=where, hint="is the URL right?")
        case "auth" if "certificate" in str(error):
            return ConfigError(str(error), hint="give its CA file, or switch checking off")
        case "auth":
            return ConfigError("the engine refuses the key", where=where, hint="give the key it was started with")
        case "overloaded" | "timeout":
            return error


def _stamped(
    asked: Mapping[str, Any], model: str, priority: int | None, *, without: Sequence[str] = ()
) -> dict[str, Any]:
    """A body with the fields that Headway owns."""
    body = {k: v for k, v in asked.items() if k not in without}
    body.setdefault("model", model)
    if priority is not None:
        body["priority"] = max(-_RANK_LIMIT, min(_RANK_LIMIT, priority))
    return body


def _checked(answer: object, engine: EngineId) -> Mapping[str, Any]:
    """Check that an answer has what a turn needs. Raises: ``EngineError``."""
    choices = answer.get("choices") if isinstance(answer, dict) else None
    if not isinstance(answer, dict) or not isinstance(choices, list) or not choices:
        raise EngineError(f"{engine} answered without choices", kind="error")
    usage = answer.get("usage")
    if not isinstance(usage, dict) or not isinstance(usage.get("prompt_tokens"), int):
        raise EngineError(f"{engine} answered without usage: its tokens can't be counted", kind="error")
    return answer
