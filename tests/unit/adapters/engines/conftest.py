"""A server that plays any engine: canned answers by path, faults on request, everything it was asked kept."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web

from headway.core.commands import StartTurn
from headway.core.units import MAIN, EngineId, TrajectoryId

VLLM_METRICS = """\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="tiny"} 2.0
vllm:num_requests_waiting{engine="0",model_name="tiny"} 5.0
vllm:kv_cache_usage_perc{engine="0",model_name="tiny"} 0.25
vllm:num_preemptions_total{engine="0",model_name="tiny"} 3.0
vllm:num_preemptions_created{engine="0",model_name="tiny"} 1.7960973689474878e+09
vllm:cache_config_info{block_size="256",cache_dtype="auto",enable_prefix_caching="True",engine="0",\
kv_cache_dtype_skip_layers="[]",kv_cache_max_concurrency="215.57894736842104",kv_cache_size_tokens="1766022",\
mamba_block_size="256",mamba_cache_mode="align",num_gpu_blocks="8192",sliding_window="None"} 1.0
"""
SGLANG_INFO = {
    "enable_priority_scheduling": True,
    "schedule_low_priority_values_first": False,
    "page_size": 64,
    "context_length": None,
    "max_total_num_tokens": 500_000,
    "max_req_input_len": 32_762,
    "max_running_requests": 256,
    "dp_size": 2,
    "internal_states": [{"effective_max_running_requests_per_dp": 48, "max_mamba_cache_size": 240}],
}
LLAMACPP_PROPS = {"total_slots": 4, "default_generation_settings": {"n_ctx": 8192}}
LLAMACPP_METRICS = "llamacpp:requests_processing 1\nllamacpp:requests_deferred 2\n"


def answer(**extra: Any) -> dict[str, Any]:
    return {
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "hello"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 1200, "completion_tokens": 7},
        **extra,
    }


def models(owner: str, *names: str, **extra: Any) -> dict[str, Any]:
    return {"object": "list", "data": [{"id": n, "owned_by": owner, **extra} for n in names or ("tiny",)]}


Route = Any  # JSON, a text, a (status, headers, text) triple, or an async function of the request


@dataclass
class Played:
    """What is played, and what was asked: ``(path, body)`` in order."""

    routes: dict[str, Route] = field(default_factory=dict)
    asked: list[tuple[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    url: str = ""

    def bodies(self, path: str) -> list[Any]:
        return [body for asked, body in self.asked if asked == path]

    async def handle(self, request: web.Request) -> web.StreamResponse:
        text = await request.text()
        self.asked.append((request.path, json.loads(text) if text else None))
        self.headers.append(dict(request.headers))
        route = self.routes.get(request.path, (404, {}, "nothing here"))
        if callable(route):
            route = await route(request)
        if isinstance(route, web.StreamResponse):
            return route
        if isinstance(route, tuple):
            status, headers, body = route
            return web.Response(status=status, headers=headers, text=body)
        return web.Response(text=route) if isinstance(route, str) else web.json_response(route)


def vllm() -> dict[str, Route]:
    return {
        "/v1/models": models("vllm", max_model_len=8192),
        "/metrics": VLLM_METRICS,
        "/tokenize": {"count": 42, "tokens": []},
        "/v1/chat/completions": answer(
            usage={"prompt_tokens": 1200, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 1024}},
            metrics={"queue_time_ms": 12.5},
        ),
        "/v1/completions": answer(),
    }


def sglang() -> dict[str, Route]:
    return {
        "/v1/models": models("sglang", max_model_len=32_768),
        "/server_info": SGLANG_INFO,
        "/metrics": 'sglang:num_running_reqs{a="b"} 3\nsglang:num_queue_reqs 1\nsglang:token_usage 0.5\n',
        "/tokenize": {"tokens": [1, 2], "count": 2},
        "/v1/chat/completions": answer(),
    }


def llamacpp() -> dict[str, Route]:
    return {
        "/v1/models": models("llamacpp", meta={"n_ctx_train": 4096}),
        "/props": LLAMACPP_PROPS,
        "/metrics": LLAMACPP_METRICS,
        "/slots": [{"is_processing": True}, {"is_processing": False}],
        "/apply-template": {"prompt": "<user>hi"},
        "/tokenize": {"tokens": [1, 2, 3]},
        "/v1/chat/completions": answer(timings={"cache_n": 900, "prompt_n": 300}),
    }


def plain() -> dict[str, Route]:
    return {"/v1/models": models("somebody"), "/v1/chat/completions": answer()}


PLAYS = {"vllm": vllm, "sglang": sglang, "llamacpp": llamacpp, "openai": plain}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def play() -> AsyncIterator[Callable[..., Awaitable[Played]]]:
    """Start playing a kind of engine, some of its routes replaced (None: taken away)."""
    runners: list[web.AppRunner] = []

    async def start(kind: str, routes: dict[str, Route] | None = None) -> Played:
        mixed = {**PLAYS[kind](), **(routes or {})}
        played = Played({path: route for path, route in mixed.items() if route is not None})
        app = web.Application(client_max_size=2**30)
        app.router.add_route("*", "/{path:.*}", played.handle)
        runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=1.0)
        await runner.setup()
        runners.append(runner)
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        played.url = f"http://{host}:{port}"
        return played

    yield start
    for runner in runners:
        await runner.cleanup()


Script = Callable[[int, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@pytest.fixture
def raw() -> Callable[[Script], Any]:
    """Serve a script on a bare socket: ``script(number of the connection, reader, writer)``; yields the URL."""

    @asynccontextmanager
    async def serve(script: Script) -> AsyncIterator[str]:
        count = 0

        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal count
            count += 1
            try:
                await script(count, reader, writer)
            finally:
                writer.close()

        server = await asyncio.start_server(handle, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()[:2]
        try:
            yield f"http://{host}:{port}"
        finally:
            server.close()

    return serve


async def _request(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(
        (int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")), 0
    )
    return await reader.readexactly(length)


@pytest.fixture
def read_request() -> Callable[[asyncio.StreamReader], Awaitable[bytes]]:
    """Read one whole HTTP request off a bare socket."""
    return _request


class Story:
    """A chat route that answers short requests at once, and works on long ones until they are cancelled."""

    def __init__(self, quick: Route, *, deaf: bool = False) -> None:
        self.quick, self.deaf, self.running = quick, deaf, 0

    async def chat(self, request: web.Request) -> Route:
        if (await request.json())["max_tokens"] < 100:
            return self.quick
        self.running += 1
        try:
            await asyncio.Event().wait()
        finally:
            self.running -= not self.deaf

    async def metrics(self, _request: web.Request) -> Route:
        return VLLM_METRICS.replace('"tiny"} 2.0', f'"tiny"}} {self.running}')


@pytest.fixture
def story() -> type[Story]:
    return Story


@pytest.fixture
def start() -> Callable[..., StartTurn]:
    return lambda rank=0: StartTurn(TrajectoryId("t"), MAIN, 0, 1, EngineId("e"), rank)
