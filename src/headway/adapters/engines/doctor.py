"""Is this engine fit for Headway? A handful of checks, each one line and what to do about it."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Literal

import msgspec

from headway.adapters.engines import connect
from headway.adapters.engines.engine import OpenAIEngine
from headway.core.commands import StartTurn
from headway.core.facts import EngineJoined
from headway.core.units import MAIN, Nanos, TrajectoryId, seconds
from headway.errors import ConfigError, EngineError
from headway.ports import TurnAnswer, TurnRequest

Verdict = Literal["ok", "warn", "fail"]

_PROMPT_WORDS = 700  # each some tokens long
_LONG_ANSWER = 4096
_LOOK = 0.25
_LOOK_AFTER = 1.5
"""Seconds between looks after a cancellation: llama.cpp notices a closed connection only when left alone for one."""

_FREE_WITHIN = 10.0

_HINTS: Mapping[tuple[str, str], str] = {
    ("cache", "vllm"): "start it with --enable-prefix-caching --enable-prompt-tokens-details",
    ("cache", "sglang"): "start it with --enable-cache-report, and without --disable-radix-cache",
    ("priority", "sglang"): "start it with --enable-priority-scheduling",
    ("metrics", "sglang"): "start it with --enable-metrics",
    ("metrics", "llamacpp"): "start it with --metrics",
    ("geometry", "vllm"): "vLLM 0.9 or newer reports it on /metrics; is that path open?",
}


class Check(msgspec.Struct, frozen=True):
    """One thing looked at. ``hint`` says what to do when ``verdict`` is not ok."""

    name: str
    verdict: Verdict
    line: str
    hint: str = ""


class Findings(msgspec.Struct, frozen=True):
    """Everything that was looked at, in order. A check that failed may keep later ones from being made."""

    url: str
    kind: str | None
    model: str | None
    checks: tuple[Check, ...]

    @property
    def verdict(self) -> Verdict:
        """The worst of them."""
        found = {c.verdict for c in self.checks}
        return "fail" if "fail" in found else "warn" if "warn" in found else "ok"


async def examine(
    url: str,
    *,
    kind: str | None = None,
    model: str | None = None,
    api_key: str | None = None,
    ca_file: str | None = None,
    insecure: bool = False,
    timeout: float = 120.0,  # noqa: ASYNC109 - of each turn, not of this call
) -> Findings:
    """Look an engine over with a few small requests and one long answer that is cancelled.

    Arguments as for ``connect``. What is wrong with the engine is in the findings; only what is wrong with the
    arguments raises ``ConfigError``.
    """
    engine = connect(url, kind=kind, model=model, api_key=api_key, ca_file=ca_file, insecure=insecure, timeout=timeout)
    try:
        checks, joined = await _checks(engine)
    finally:
        await engine.close()
    return Findings(engine.id, None if joined is None else joined.kind, engine.model, checks)


async def _checks(engine: OpenAIEngine) -> tuple[tuple[Check, ...], EngineJoined | None]:
    try:
        joined = await engine.join(Nanos(0))
    except (ConfigError, EngineError) as error:
        return (Check("api", "fail", str(error)),), None
    found = [Check("api", "ok", f"{joined.kind} serves {engine.model}")]
    try:
        async for check in _after_joining(engine, joined):
            found.append(check)  # noqa: PERF401 - what was found before an error counts
    except EngineError as error:
        found.append(Check("engine", "fail", str(error), "look into the engine's log"))
    return tuple(found), joined


async def _after_joining(engine: OpenAIEngine, joined: EngineJoined) -> AsyncIterator[Check]:
    yield await _answers(engine, "chat", TurnRequest({"messages": [_user("Say hello.")], "max_tokens": 8}))
    yield await _answers(
        engine, "completion", TurnRequest({"prompt": "Say hello.", "max_tokens": 8}, route="completions")
    )
    yield await _cache(engine, joined)
    yield await _priority(engine, joined)
    yield _geometry(joined)
    yield await _metrics(engine, joined)
    yield await _cancellation(engine, joined)


def _user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def _hint(name: str, joined: EngineJoined) -> str:
    return _HINTS.get((name, joined.kind), "")


async def _turn(engine: OpenAIEngine, request: TurnRequest, rank: int = 0) -> TurnAnswer:
    start = StartTurn(TrajectoryId("doctor"), MAIN, 0, 1, engine.id, rank)
    return await engine.turn(start, request)


async def _answers(engine: OpenAIEngine, name: str, request: TurnRequest) -> Check:
    try:
        answer = await _turn(engine, request)
    except EngineError as error:
        if error.kind in ("lost", "timeout"):
            raise
        wanted = "chat turns need it" if name == "chat" else "only tasks that ask for completions need it"
        return Check(name, "fail" if name == "chat" else "warn", str(error), wanted)
    spent = f"{answer.prompt_tokens} + {answer.output_tokens} tokens in {seconds(answer.service):.2f} s"
    return Check(name, "ok", f"answers, with usage: {spent}")


async def _cache(engine: OpenAIEngine, joined: EngineJoined) -> Check:
    """Send the same long prompt twice: the second time most of it should come from the cache."""
    dice = random.Random()  # noqa: S311 - a prompt that nobody sent before
    words = max(_PROMPT_WORDS, 3 * joined.block_tokens)
    if joined.max_context is not None:
        words = min(words, joined.max_context // 8)
    text = " ".join(f"{dice.randrange(10**4)}" for _ in range(words))
    request = TurnRequest({"messages": [_user(text)], "max_tokens": 1})
    await _turn(engine, request)
    again = await _turn(engine, request)
    if again.cached_tokens is None:
        line = "cached tokens are not reported: the hit rate will be unknown"
        return Check("cache", "warn", line, _hint("cache", joined))
    line = f"{again.cached_tokens} of {again.prompt_tokens} prompt tokens came from the cache the second time"
    good = again.cached_tokens * 2 >= again.prompt_tokens
    return Check("cache", "ok" if good else "warn", line, "" if good else _hint("cache", joined))


async def _priority(engine: OpenAIEngine, joined: EngineJoined) -> Check:
    if not engine.ranks:
        line = "takes no priority: Headway's order ends where the engine's own queue begins"
        return Check("priority", "warn", line, _hint("priority", joined))
    request = TurnRequest({"messages": [_user("Say hello.")], "max_tokens": 1})
    try:
        await _turn(engine, request, rank=7)
    except EngineError as error:
        if error.kind != "invalid":
            raise
        return Check("priority", "fail", str(error), "start it with priority scheduling")
    line = "accepts a priority" + (
        ", and uses it if started with --scheduling-policy priority" if joined.kind == "vllm" else ""
    )
    return Check("priority", "ok", line)


def _geometry(joined: EngineJoined) -> Check:
    if joined.kv_tokens is None:
        line = "does not say what its cache holds: admission can't be fitted to it"
        return Check("geometry", "warn", line, _hint("geometry", joined) or "set --concurrency yourself")
    states = "" if joined.state_slots is None else f", {joined.state_slots} recurrent states"
    context = "" if joined.max_context is None else f", contexts up to {joined.max_context:,}"
    line = f"holds {joined.kv_tokens:,} KV tokens in blocks of {joined.block_tokens}{states}{context}"
    if joined.max_context is not None and joined.block_tokens > joined.max_context:
        return Check("geometry", "warn", line, "a block is longer than any context: prefix caching does nothing")
    return Check("geometry", "ok", line)


async def _metrics(engine: OpenAIEngine, joined: EngineJoined) -> Check:
    sampled = await engine.sample(Nanos(0))
    if sampled is None:
        return Check("metrics", "warn", "does not say how busy it is", _hint("metrics", joined))
    said: dict[str, Any] = {f: getattr(sampled, f) for f in ("running", "waiting", "kv_usage", "preemptions")}
    line = ", ".join(f"{name} {value:g}" for name, value in said.items() if value is not None)
    return Check("metrics", "ok", f"says of itself: {line}")


async def _cancellation(engine: OpenAIEngine, joined: EngineJoined) -> Check:
    """Start a long answer, cancel it once the engine counts it, and wait until the engine does not."""
    room = (joined.max_context or 2 * _LONG_ANSWER) - 512
    body = {"messages": [_user("Tell a story.")], "max_tokens": max(16, min(_LONG_ANSWER, room)), "ignore_eos": True}
    if joined.kind == "openai":
        del body["ignore_eos"]
    turn = asyncio.create_task(_turn(engine, TurnRequest(body)))
    try:
        seen = await _until(engine, lambda running: running > 0, turn, every=_LOOK)
    finally:
        turn.cancel()
        await asyncio.wait([turn])
    if not turn.cancelled() and (error := turn.exception()) is not None:
        return Check("cancellation", "warn", f"can't be checked: {error}")
    if not seen:
        return Check("cancellation", "warn", "can't be checked: the engine does not say what it runs")
    if await _until(engine, lambda running: running == 0, None, every=_LOOK_AFTER):
        return Check("cancellation", "ok", "stops working on a cancelled request")
    line = f"still at work {_FREE_WITHIN:g} s after a request was cancelled"
    return Check("cancellation", "warn", line, "is somebody else using it? Else cancelled work will hold its cache")


async def _until(
    engine: OpenAIEngine, true: Callable[[int], bool], turn: asyncio.Task[TurnAnswer] | None, *, every: float
) -> bool:
    """Ask the engine until ``true`` of its running requests; False when it does not say, or not in time."""
    try:
        async with asyncio.timeout(_FREE_WITHIN):
            while turn is None or not turn.done():
                sampled = await engine.sample(Nanos(0))
                if sampled is None or sampled.running is None:
                    return False
                if true(sampled.running):
                    return True
                await asyncio.sleep(every)
    except TimeoutError:
        pass
    return False
