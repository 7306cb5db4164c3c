"""Each kind of engine, as it speaks on the wire."""

import contextlib
import shutil
import socket
import ssl
import subprocess

import pytest
from aiohttp import web

from headway.adapters.engines import KINDS, connect
from headway.core.facts import EngineJoined, EngineSampled
from headway.core.units import MILLISECOND, Nanos
from headway.errors import ConfigError, EngineError
from headway.ports import TurnRequest

pytestmark = pytest.mark.anyio

HELLO = [{"role": "user", "content": "hello"}]
AT = Nanos(5)


@contextlib.asynccontextmanager
async def engine_at(url, **how):
    engine = connect(url, **how)
    try:
        yield engine
    finally:
        await engine.close()


async def joined(play, plays, routes=None, **how):
    played = await play(plays, routes)
    async with engine_at(played.url, **how) as engine:
        return await engine.join(AT)


async def complaint(play, plays, routes=None, error=ConfigError, **how):
    with pytest.raises(error) as caught:
        await joined(play, plays, routes, **how)
    assert "\n" not in str(caught.value)
    return str(caught.value)


async def test_vllm_joins_with_a_pool_split_between_kv_and_states(play):
    fact = await joined(play, "vllm")
    # 38 blocks a longest request, 32 of them attention: 6 for its states; 8191 usable // 3 // 7 = 390 states
    assert fact == EngineJoined(
        at=AT,
        engine=fact.engine,
        kind="vllm",
        kv_tokens=(8191 - 390 * 7) * 256,
        state_slots=390,
        block_tokens=256,
        max_context=8192,
    )


async def test_sglang_joins_with_two_pools(play):
    fact = await joined(play, "sglang")
    assert (fact.kind, fact.kv_tokens, fact.state_slots, fact.block_tokens) == ("sglang", 500_000, 240, 64)
    assert (fact.max_running, fact.max_context) == (96, 32_768)


async def test_older_sglang_answers_under_another_path(play):
    info = {"max_total_num_tokens": 1000, "max_running_requests": 8}
    fact = await joined(play, "sglang", {"/server_info": None, "/get_server_info": info})
    assert (fact.kv_tokens, fact.max_running, fact.state_slots, fact.block_tokens) == (1000, 8, None, 1)


async def test_sglang_that_says_nothing_still_joins(play):
    fact = await joined(play, "sglang", {"/server_info": [], "/v1/models": {"data": [{"id": "m"}]}}, kind="sglang")
    assert (fact.kind, fact.kv_tokens, fact.max_context) == ("sglang", None, None)


async def test_llamacpp_joins_with_its_slots(play):
    fact = await joined(play, "llamacpp")
    assert (fact.kind, fact.kv_tokens, fact.state_slots) == ("llamacpp", 4 * 8192, 4)
    assert (fact.max_running, fact.max_context) == (4, 8192)


async def test_anybody_else_joins_knowing_nothing(play):
    fact = await joined(play, "openai")
    assert fact == EngineJoined(at=AT, engine=fact.engine, kind="openai")


async def test_vllm_without_metrics_joins_with_what_the_listing_tells(play):
    fact = await joined(play, "vllm", {"/metrics": None})
    assert (fact.kind, fact.kv_tokens, fact.max_context) == ("vllm", None, 8192)


@pytest.mark.parametrize("path", ["/metrics", "/server_info"])
async def test_an_engine_that_is_not_ready_says_so(play, path):
    kind = "vllm" if path == "/metrics" else "sglang"
    played = await play(kind, {path: (503, {}, "")})
    async with engine_at(played.url) as engine:
        with pytest.raises(EngineError) as caught:
            await engine.join(AT)
    assert caught.value.kind == "overloaded"


async def test_a_listing_that_is_not_ready_stays_an_engine_error(play):
    await complaint(play, "vllm", {"/v1/models": (503, {}, "loading")}, error=EngineError)


async def test_nobody_there_is_one_clear_line():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        async with engine_at(url) as engine:
            with pytest.raises(ConfigError, match="no engine answers") as caught:
                await engine.join(AT)
    assert str(caught.value).startswith(f"{url}: no engine answers: Connection refused")
    assert "headway engine up" in str(caught.value)


@pytest.mark.parametrize(
    "listing", ["<html>welcome</html>", {"data": []}, {"data": "x"}, {}, [], (404, {}, ""), (500, {}, "")]
)
async def test_not_an_engine_is_one_clear_line(play, listing):
    assert "OpenAI-compatible engine" in await complaint(play, "openai", {"/v1/models": listing})


async def test_a_wrong_key_is_one_clear_line(play):
    assert "key" in await complaint(play, "openai", {"/v1/models": (401, {}, "")})


@pytest.fixture
def certificate(tmp_path):
    """A certificate for 127.0.0.1 that only its owner vouches for, and a server's context with it."""
    if shutil.which("openssl") is None:
        pytest.skip("makes a certificate with openssl")
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    make = "openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1"
    subprocess.run([*make.split(), "-keyout", key, "-out", cert], check=True, capture_output=True)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(cert, key)
    return str(cert), context


async def test_a_certificate_nobody_vouches_for(certificate):
    ca_file, context = certificate

    async def listing(_request):
        return web.json_response({"data": [{"id": "m"}]})

    app = web.Application()
    app.router.add_get("/v1/models", listing)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    url = f"https://127.0.0.1:{runner.addresses[0][1]}"
    async with engine_at(url) as engine:
        with pytest.raises(ConfigError, match=r"certificate.*CA file"):
            await engine.join(AT)
    for how in ({"ca_file": ca_file}, {"insecure": True}):
        async with engine_at(url, **how) as engine:
            assert (await engine.join(AT)).kind == "openai"
    await runner.cleanup()


async def test_a_wrong_model_names_the_nearest(play):
    listing = {"data": [{"id": "llama-3"}, {"id": "qwen3-next"}]}
    line = await complaint(play, "openai", {"/v1/models": listing}, model="qwen3-nxt")
    assert "no model 'qwen3-nxt'" in line
    assert "did you mean 'qwen3-next'? It serves llama-3, qwen3-next" in line
    assert "it serves 'tiny'" in await complaint(play, "openai", model="zzz")


async def test_the_model_asked_for_is_used(play, start):
    played = await play("openai", {"/v1/models": {"data": [{"id": "a"}, {"id": "b"}]}})
    async with engine_at(played.url, model="b") as engine:
        assert engine.model == "b"
        await engine.join(AT)
        await engine.turn(start(), TurnRequest({"messages": HELLO}))
    assert played.bodies("/v1/chat/completions")[0]["model"] == "b"


def test_an_unknown_kind_is_refused():
    with pytest.raises(ConfigError, match=", ".join(KINDS)):
        connect("http://h:1", kind="trtllm")


@pytest.mark.parametrize(
    ("kind", "info", "priority"),
    [
        ("vllm", {}, 7),
        ("sglang", {"enable_priority_scheduling": True}, -7),
        ("sglang", {"enable_priority_scheduling": True, "schedule_low_priority_values_first": True}, 7),
        ("sglang", {}, None),
        ("llamacpp", {}, None),
        ("openai", {}, None),
    ],
)
async def test_rank_becomes_each_engines_priority(play, start, kind, info, priority):
    played = await play(kind, {"/server_info": info} if kind == "sglang" else None)
    async with engine_at(played.url) as engine:
        assert engine.ranks == 0
        await engine.turn(start(rank=7), TurnRequest({"messages": HELLO, "priority": 1}))
        assert engine.ranks == (0 if priority is None else priority // 7)
    assert played.bodies("/v1/chat/completions")[0].get("priority") == priority


async def test_a_rank_beyond_32_bits_is_clipped(play, start):
    played = await play("vllm")
    async with engine_at(played.url) as engine:
        await engine.turn(start(rank=2**40), TurnRequest({"messages": HELLO}))
    assert played.bodies("/v1/chat/completions")[0]["priority"] == 2**31 - 1


@pytest.mark.parametrize(
    ("kind", "cached", "queue"),
    [("vllm", 1024, 12_500_000), ("sglang", None, None), ("llamacpp", 900, None), ("openai", None, None)],
)
async def test_an_answer_is_read(play, start, kind, cached, queue):
    played = await play(kind)
    async with engine_at(played.url) as engine:
        said = await engine.turn(start(), TurnRequest({"messages": HELLO, "temperature": 0, "odd": [1]}))
    assert (said.prompt_tokens, said.output_tokens, said.text) == (1200, 7, "hello")
    assert (said.cached_tokens, said.engine_queue) == (cached, queue)
    assert said.service > 0
    sent = played.bodies("/v1/chat/completions")[0]
    assert (sent["model"], sent["stream"], sent["temperature"], sent["odd"]) == ("tiny", False, 0, [1])


async def test_streaming_and_its_options_are_ours_to_drop(play, start):
    played = await play("vllm")
    body = {"messages": HELLO, "stream": True, "stream_options": {"include_usage": True}, "model": "lora"}
    async with engine_at(played.url) as engine:
        await engine.turn(start(), TurnRequest(body))
    sent = played.bodies("/v1/chat/completions")[0]
    assert sent == {"messages": HELLO, "model": "lora", "stream": False, "priority": 0}


async def test_completions_have_a_route_of_their_own(play, start):
    played = await play("vllm", {"/v1/completions": {"choices": [{"text": "x"}], "usage": {"prompt_tokens": 3}}})
    async with engine_at(played.url) as engine:
        said = await engine.turn(start(), TurnRequest({"prompt": [1, 2, 3]}, route="completions"))
    assert (said.text, said.output_tokens) == ("x", 0)


@pytest.mark.parametrize(
    "body",
    [
        {},
        [],
        {"choices": []},
        {"choices": [{}]},
        {"choices": [{}], "usage": None},
        {"choices": [{}], "usage": {}},
        "<p>",
    ],
)
async def test_a_senseless_answer_is_an_error(play, start, body):
    played = await play("vllm", {"/v1/chat/completions": body})
    async with engine_at(played.url) as engine:
        with pytest.raises(EngineError) as caught:
            await engine.turn(start(), TurnRequest({"messages": HELLO}))
    assert caught.value.kind == "error"


async def test_a_turn_has_its_own_time_limit(play, start):
    import asyncio

    never = asyncio.Event()

    async def hang(_request):
        await never.wait()

    played = await play("openai", {"/v1/chat/completions": hang})
    async with engine_at(played.url) as engine:
        with pytest.raises(EngineError) as caught:
            await engine.turn(start(), TurnRequest({"messages": HELLO}, timeout=0.05))
        never.set()
    assert caught.value.kind == "timeout"


@pytest.mark.parametrize(
    ("kind", "routes", "expected"),
    [
        ("vllm", None, (2, 5, 0.25, 3)),
        ("sglang", None, (3, 1, 0.5, None)),
        ("llamacpp", None, (1, 2, None, None)),
        ("llamacpp", {"/metrics": (501, {}, "")}, (1, None, None, None)),
        ("llamacpp", {"/metrics": (501, {}, ""), "/slots": (501, {}, "")}, None),
        ("sglang", {"/metrics": (404, {}, ""), "/health": ""}, None),
        ("vllm", {"/metrics": None}, None),
        ("vllm", {"/metrics": "# nothing of ours\n"}, None),
        ("openai", None, None),
    ],
)
async def test_a_sample_is_what_it_says_of_itself(play, kind, routes, expected):
    played = await play(kind, routes)
    async with engine_at(played.url) as engine:
        sampled = await engine.sample(AT)
        assert sampled == (None if expected is None else EngineSampled(AT, engine.id, *expected))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("path", ["/metrics", "/slots"])
async def test_sampling_a_dead_engine_raises(play, kind, path):
    def die(request):
        request.transport.abort()
        raise ConnectionResetError

    async def dead(request):
        die(request)

    played = await play(kind)
    async with engine_at(played.url) as engine:
        await engine.join(AT)
        played.routes.update({"/metrics": dead, "/v1/models": dead, "/slots": dead})
        if path == "/slots":
            played.routes["/metrics"] = (501, {}, "")
            if kind != "llamacpp":
                return
        with pytest.raises(EngineError) as caught:
            await engine.sample(AT)
    assert caught.value.kind == "lost"


@pytest.mark.parametrize(
    ("kind", "text", "chat"), [("vllm", 42, 42), ("sglang", 2, None), ("llamacpp", 3, 3), ("openai", None, None)]
)
async def test_tokens_are_counted_where_the_engine_can(play, kind, text, chat):
    played = await play(kind)
    async with engine_at(played.url) as engine:
        assert await engine.tokenize("hello") == text
        assert await engine.tokenize(HELLO) == chat


async def test_a_count_that_is_missing_is_none(play):
    for kind in ("vllm", "sglang", "llamacpp"):
        played = await play(kind, {"/tokenize": {}})
        async with engine_at(played.url) as engine:
            assert await engine.tokenize("hello") is None


async def test_queue_time_is_rounded_to_nanoseconds(play, start):
    played = await play("vllm")
    async with engine_at(played.url) as engine:
        said = await engine.turn(start(), TurnRequest({"messages": HELLO}))
    assert said.engine_queue == 12.5 * MILLISECOND
