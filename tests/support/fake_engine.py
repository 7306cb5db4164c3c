"""An OpenAI-compatible engine that answers by a script; in the test's own loop, or as a process of its own.

``python fake_engine.py --port 0 --delay 0.05`` prints its URL and serves until it is killed. ``GET /counts`` says what
it was asked: how many turns, and how often each prompt came; ``/hold`` and ``/release`` stop and let go its answers.
"""

import argparse
import asyncio
import json
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

METRICS = """\
vllm:num_requests_running{engine="0",model_name="tiny"} RUNNING
vllm:num_requests_waiting{engine="0",model_name="tiny"} 0.0
vllm:kv_cache_usage_perc{engine="0",model_name="tiny"} 0.25
vllm:num_preemptions_total{engine="0",model_name="tiny"} 0.0
vllm:cache_config_info{block_size="16",num_gpu_blocks="1000",enable_prefix_caching="True",engine="0"} 1.0
"""

Answer = dict[str, Any] | tuple[int, dict[str, str], str]
"""A chat answer's message, or status, headers and text."""


def says(text: str) -> Answer:
    return {"role": "assistant", "content": text}


def calls(command: str, number: int = 0) -> Answer:
    function = {"name": "bash", "arguments": json.dumps({"command": command})}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": f"c{number}", "type": "function", "function": function}],
    }


def shell_story(body: dict[str, Any]) -> Answer:
    """What the shell agent of task files needs: one command where tools are offered, then an answer."""
    acted = any(message["role"] == "tool" for message in body.get("messages", ()))
    return says("done") if acted or not body.get("tools") else calls("echo hello")


@dataclass
class FakeEngine:
    """``story`` answers chat bodies; ``delay`` seconds before each answer; ``owner`` is the kind it passes for."""

    story: Callable[[dict[str, Any]], Answer] = shell_story
    delay: float = 0.0
    owner: str = "vllm"
    model: str = "tiny"
    max_context: int = 8192
    bodies: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    prompts: Counter[str] = field(default_factory=Counter)
    running: int = 0
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    url: str = ""
    _runner: web.AppRunner | None = None

    async def start(self, port: int = 0) -> "FakeEngine":
        self.gate.set()
        app = web.Application(client_max_size=2**30)
        app.add_routes(
            [
                web.get("/v1/models", self._models),
                web.get("/metrics", self._metrics),
                web.get("/counts", self._counts),
                web.get("/hold", self._hold),
                web.get("/release", self._release),
                web.post("/tokenize", self._tokenize),
                web.post("/v1/chat/completions", self._chat),
                web.post("/v1/completions", self._chat),
            ]
        )
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", port).start()
        host, port = self._runner.addresses[0][:2]
        self.url = f"http://{host}:{port}"
        return self

    async def stop(self) -> None:
        """Refuse connections from now on; what is in flight is cut."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    @asynccontextmanager
    async def serving(self) -> AsyncIterator["FakeEngine"]:
        await self.start()
        try:
            yield self
        finally:
            await self.stop()

    async def _models(self, _: web.Request) -> web.Response:
        entry = {"id": self.model, "owned_by": self.owner, "max_model_len": self.max_context}
        return web.json_response({"object": "list", "data": [entry]})

    async def _metrics(self, _: web.Request) -> web.Response:
        return web.Response(text=METRICS.replace("RUNNING", str(self.running)))

    async def _counts(self, _: web.Request) -> web.Response:
        return web.json_response({"turns": len(self.bodies), "prompts": self.prompts})

    async def _hold(self, _: web.Request) -> web.Response:
        self.gate.clear()
        return web.json_response("held")

    async def _release(self, _: web.Request) -> web.Response:
        self.gate.set()
        return web.json_response("released")

    async def _tokenize(self, request: web.Request) -> web.Response:
        return web.json_response({"count": len(await request.text()) // 4, "tokens": []})

    async def _chat(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.bodies.append(body)
        self.headers.append(dict(request.headers))
        prompt = json.dumps(body.get("messages", body.get("prompt")))
        self.prompts[prompt] += 1
        self.running += 1
        try:
            if self.delay or body.get("max_tokens", 0) > 200:  # who asks for a long answer has to wait for it
                await asyncio.sleep(self.delay or 60)
            await self.gate.wait()
            answer = self.story(body)
        finally:
            self.running -= 1
        if isinstance(answer, tuple):
            status, headers, text = answer
            return web.Response(status=status, headers=headers, text=text)
        return web.json_response(_completion(answer, prompt, again=self.prompts[prompt] > 1))


def _completion(message: dict[str, Any], prompt: str, *, again: bool) -> dict[str, Any]:
    tokens = len(prompt) // 4
    cached = {"cached_tokens": tokens * 3 // 4 if again else 0}
    usage = {"prompt_tokens": tokens, "completion_tokens": 3, "prompt_tokens_details": cached}
    choice = {"index": 0, "message": message, "text": message.get("content"), "finish_reason": "stop"}
    return {"id": "x", "choices": [choice], "usage": usage}


@contextmanager
def engine_process(*, delay: float = 0.0, port: int = 0) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A fake engine as a process of its own: its URL, and what to kill."""
    command = [sys.executable, __file__, "--port", str(port), "--delay", str(delay)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip(), process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


async def _serve(port: int, delay: float) -> None:
    engine = await FakeEngine(delay=delay).start(port)
    print(engine.url, flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--delay", type=float, default=0.0)
    arguments = parser.parse_args()
    asyncio.run(_serve(arguments.port, arguments.delay))
