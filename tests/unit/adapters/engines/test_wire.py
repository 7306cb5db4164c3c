"""Every way in which HTTP to an engine can fail has one name."""

import asyncio
import contextlib
import socket
import ssl

import pytest

from headway.adapters.engines.wire import KEEPALIVE, Tls, Wire, base_url
from headway.core.units import SECOND
from headway.errors import ConfigError, EngineError

pytestmark = pytest.mark.anyio

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


@contextlib.asynccontextmanager
async def wired(url, *, key=None, limit=None):
    wire = Wire(url, key=key, tls=Tls(), timeout=limit)
    try:
        yield wire
    finally:
        await wire.close()


async def refused(url, **how):
    async with wired(url, **how) as wire:
        with pytest.raises(EngineError) as caught:
            await wire.post("/v1/x", {})
        return caught.value


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("http://h:1", "http://h:1"),
        ("http://h:1/", "http://h:1"),
        (" http://h:1/v1/ ", "http://h:1"),
        ("https://h/prefix/v1", "https://h/prefix"),
    ],
)
def test_a_url_may_end_in_v1_or_slashes(given, meant):
    assert base_url(given) == meant


@pytest.mark.parametrize("given", ["localhost:8000", "h", "", "ftp://h", "http://"])
def test_what_is_no_url_is_refused(given):
    with pytest.raises(ConfigError, match=r"http://127\.0\.0\.1:8000"):
        base_url(given)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "invalid"),
        (401, "auth"),
        (403, "auth"),
        (404, "invalid"),
        (413, "invalid"),
        (422, "invalid"),
        (429, "overloaded"),
        (500, "error"),
        (502, "lost"),
        (503, "overloaded"),
        (504, "timeout"),
        (204, "error"),
    ],
)
async def test_a_status_has_a_kind(play, status, kind):
    played = await play("openai", {"/v1/x": (status, {}, "")})
    assert (await refused(played.url)).kind == kind


@pytest.mark.parametrize(
    ("header", "wait"),
    [("2", 2 * SECOND), ("0.5", SECOND // 2), ("-1", 0), ("Wed, 21 Oct 2026 07:28:00 GMT", None), ("inf", None)],
)
async def test_retry_after_is_read(play, header, wait):
    played = await play("openai", {"/v1/x": (429, {"Retry-After": header}, "")})
    error = await refused(played.url)
    assert (error.kind, error.retry_after) == ("overloaded", wait)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ('{"error": {"message": "too  long\\nby far", "code": 400}}', ": too long by far"),
        ('{"message": "old style"}', ": old style"),
        ('{"detail": "fastapi style"}', ": fastapi style"),
        ('{"error": {"message": "bad field, \'input\': \'my secret prompt\'"}}', ": bad field,"),
        ('{"detail": [{"input": "my secret prompt"}]}', " 400"),
        ("<html>", " 400"),
        ("\udcff", " 400"),
    ],
)
async def test_the_engines_own_words_are_kept_but_no_prompt(play, body, said):
    from aiohttp import web

    async def answer(_request):
        return web.Response(status=400, body=body.encode("utf-8", "surrogateescape"))

    played = await play("openai", {"/v1/x": answer})
    message = str(await refused(played.url))
    assert message.endswith(said)
    assert "secret" not in message


@pytest.mark.parametrize(("body", "look"), [("<html>", "web page"), ("{nope", "not JSON")])
async def test_an_answer_that_is_not_json(play, body, look):
    played = await play("openai", {"/x": body})
    async with wired(played.url) as wire:
        with pytest.raises(EngineError, match=look) as caught:
            await wire.get_json("/x")
    assert caught.value.kind == "error"


async def test_nobody_listens():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        error = await refused(f"http://127.0.0.1:{taken.getsockname()[1]}")
    assert error.kind == "lost"


async def test_a_reset_in_mid_body_is_lost_and_not_repeated(raw, read_request):
    seen = []

    async def script(_count, reader, writer):
        seen.append(await read_request(reader))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{half")
        await writer.drain()
        writer.transport.abort()

    async with raw(script) as url:
        assert (await refused(url)).kind == "lost"
    assert len(seen) == 1


async def test_a_fresh_connection_closed_without_a_byte_is_lost_and_not_repeated(raw, read_request):
    seen = []

    async def script(_count, reader, _writer):
        seen.append(await read_request(reader))

    async with raw(script) as url:
        assert (await refused(url)).kind == "lost"
    assert len(seen) == 1


async def test_a_stale_kept_connection_is_replaced_silently(raw, read_request):
    seen = []

    async def script(count, reader, writer):
        seen.append((count, await read_request(reader)))
        writer.write(OK)
        await writer.drain()
        if count == 1:
            seen.append((count, await read_request(reader)))  # and hangs up: it had been about to

    async with raw(script) as url, wired(url) as wire:
        await wire.post("/v1/x", {"n": 1})
        assert (await wire.post("/v1/x", {"n": 2})).body == b"{}"
    assert seen == [(1, b'{"n":1}'), (1, b'{"n":2}'), (2, b'{"n":2}')]


async def test_a_kept_connection_that_breaks_in_mid_answer_is_not_replaced(raw, read_request):
    seen = []

    async def script(_count, reader, writer):
        seen.append(await read_request(reader))
        writer.write(OK)
        await writer.drain()
        seen.append(await read_request(reader))
        writer.write(OK[:-1])
        await writer.drain()

    async with raw(script) as url, wired(url) as wire:
        await wire.post("/v1/x", {})
        with pytest.raises(EngineError) as caught:
            await wire.post("/v1/x", {})
    assert caught.value.kind == "lost"
    assert len(seen) == 2


async def test_what_is_no_http_is_an_error(raw, read_request):
    async def script(_count, reader, writer):
        await read_request(reader)
        writer.write(b"SSH-2.0-OpenSSH_9.0\r\n\r\n")
        await writer.drain()

    async with raw(script) as url:
        assert (await refused(url)).kind == "error"


async def test_no_answer_in_time(raw, read_request):
    async def script(_count, reader, _writer):
        await read_request(reader)
        await reader.read()

    async with raw(script) as url:
        error = await refused(url, limit=0.05)
    assert error.kind == "timeout"
    assert "0.05 s" in str(error)


async def test_cancelling_closes_the_connection(raw, read_request):
    started, closed = asyncio.Event(), asyncio.Event()

    async def script(_count, reader, _writer):
        await read_request(reader)
        started.set()
        assert await reader.read() == b""
        closed.set()

    async with raw(script) as url, wired(url) as wire:
        call = asyncio.create_task(wire.post("/v1/x", {}))
        await started.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await closed.wait()


async def test_bodies_may_be_large_and_the_key_is_sent(play):
    text = "x" * 3_000_000
    played = await play("openai", {"/v1/x": {"text": text}})
    async with wired(played.url, key="k") as wire:
        reply = await wire.post("/v1/x", {"text": text})
        assert wire.decode(reply.body, "/v1/x") == {"text": text}
        assert reply.service > 0
    assert played.headers[0]["Authorization"] == "Bearer k"


async def test_many_at_once_each_get_a_connection(play):
    together = asyncio.Barrier(120)

    async def wait(_request):
        await together.wait()
        return {}

    played = await play("openai", {"/v1/x": wait})
    async with wired(played.url) as wire:
        await asyncio.gather(*(wire.post("/v1/x", {}) for _ in range(120)))


def test_idle_connections_are_let_go_before_vllm_does():
    assert KEEPALIVE < 5


def test_certificates():
    assert Tls().context() is True
    assert Tls(insecure=True).context() is False
    assert isinstance(Tls(ca_file=ssl.get_default_verify_paths().cafile or _any_ca()).context(), ssl.SSLContext)
    with pytest.raises(ConfigError, match=r"/no/such\.pem"):
        Tls(ca_file="/no/such.pem").context()


def _any_ca():
    import certifi

    return certifi.where()


async def test_closing_twice_is_fine(play):
    played = await play("openai", {"/x": {}})
    async with wired(played.url) as wire:
        await wire.get("/x")
        await wire.close()
