"""HTTP to one engine: JSON in and out, every way it can fail named. Knows nothing of turns or of engine kinds."""

import asyncio
import io
import os
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import msgspec
from multidict import CIMultiDict

from headway.core.facts import FailureKind
from headway.core.units import Nanos, nanos
from headway.errors import ConfigError, EngineError
from headway.ports import Headers

KEEPALIVE = 4.0
"""Seconds; below vLLM's 5, so that we let go of an idle connection before it does."""

_CONNECT = 10.0
_STALE_TRIES = 3
_BY_STATUS: dict[int, FailureKind] = {
    400: "invalid",
    401: "auth",
    403: "auth",
    404: "invalid",
    405: "invalid",
    408: "timeout",
    413: "invalid",
    422: "invalid",
    429: "overloaded",
    502: "lost",
    503: "overloaded",
    504: "timeout",
}


class Tls(msgspec.Struct, frozen=True):
    """How to check an engine's certificate: a CA file of your own, or not at all."""

    ca_file: str | None = None
    insecure: bool = False

    def context(self) -> ssl.SSLContext | bool:
        """Return what aiohttp takes. Raises: ``ConfigError`` when the CA file can't be used."""
        if self.insecure:
            return False
        if self.ca_file is None:
            return True
        try:
            return ssl.create_default_context(cafile=self.ca_file)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(f"not a usable CA file: {error}", where=str(Path(self.ca_file))) from error


class Reply(msgspec.Struct, frozen=True):
    """A whole answer with status 200, undecoded. ``service``: from the request's first byte to the answer's last."""

    body: bytes
    service: Nanos


def base_url(url: str) -> str:
    """Normalise an engine's URL: scheme and host needed, ``/v1`` and slashes at the end dropped.

    Raises: ``ConfigError``.
    """
    parts = urlsplit(url.strip())
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise ConfigError("an engine is given by its URL", where=url, hint="such as http://127.0.0.1:8000")
    return url.strip().rstrip("/").removesuffix("/v1").rstrip("/")


class Wire:
    """One engine's connections. Must be used inside a running asyncio loop; ``close`` lets go of everything.

    Args:
        base: URL as ``base_url`` returns it.
        key: sent as a bearer token.
        tls: how to check certificates.
        timeout: seconds for a whole call that says nothing else; None: as long as it takes.
    """

    def __init__(self, base: str, *, key: str | None, tls: Tls, timeout: float | None) -> None:
        self.base, self._timeout = base, timeout
        self._ssl = tls.context()
        self._headers = {"Accept-Encoding": "identity", "Content-Type": "application/json"}
        if key:
            self._headers["Authorization"] = f"Bearer {key}"
        self._session: aiohttp.ClientSession | None = None

    async def get(self, path: str, *, limit: float = 10.0) -> bytes:
        """GET ``path``, return its body. Raises: ``EngineError``."""
        return (await self._call("GET", path, None, limit)).body

    async def get_json(self, path: str, *, limit: float = 10.0) -> Any:  # noqa: ANN401 - whatever JSON is
        """GET ``path``, decode its JSON. Raises: ``EngineError``."""
        return self.decode(await self.get(path, limit=limit), path)

    async def post(self, path: str, body: Mapping[str, Any], *, limit: float | None = None) -> Reply:
        """POST JSON to ``path``. Cancelling closes the connection, which engines take as an abort.

        Raises: ``EngineError``. A pooled connection that turns out closed before any byte came is replaced silently.
        """
        return await self._call("POST", path, msgspec.json.encode(body), limit or self._timeout)

    def decode(self, body: bytes, path: str) -> Any:  # noqa: ANN401 - whatever JSON is
        """Decode an answer. Raises: ``EngineError`` of kind ``error`` when it is not JSON."""
        try:
            return msgspec.json.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            look = "a web page" if body.lstrip()[:1] == b"<" else "something that is not JSON"
            raise EngineError(f"{self.base}{path} answered with {look}", kind="error") from error

    async def close(self) -> None:
        """Close all connections; calls in flight fail."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            trace = aiohttp.TraceConfig()
            trace.on_connection_reuseconn.append(_note_reuse)
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEPALIVE, ssl=self._ssl),
                headers=self._headers,
                trace_configs=[trace],
            )
        return self._session

    async def _call(self, method: str, path: str, data: bytes | None, limit: float | None) -> Reply:
        async with self.opened(method, path, data, limit=limit) as (response, began):
            body = await response.read()
            if response.status != 200:
                raise self.refusal(response, body, path)
            return Reply(body, nanos(asyncio.get_running_loop().time() - began))

    @asynccontextmanager
    async def opened(
        self, method: str, path: str, data: bytes | None, *, limit: float | None = None, headers: Headers = ()
    ) -> AsyncIterator[tuple[aiohttp.ClientResponse, float]]:
        """Send a request; yields the response, whatever its status, and the loop's time when it was sent.

        Leaving the block early closes the connection. Raises: ``EngineError``, for reading in the block too. A pooled
        connection that turns out closed before any byte came is replaced silently.
        """
        limit = limit or self._timeout
        try:
            response, began = await self._answered(method, path, data, limit, headers)
            async with response:
                yield response, began
        except (aiohttp.ClientError, TimeoutError) as error:
            raise self._named(error, path, limit) from error

    async def _answered(
        self, method: str, path: str, data: bytes | None, limit: float | None, headers: Headers
    ) -> tuple[aiohttp.ClientResponse, float]:
        """Send until an answer begins: again only where a kept connection was closed meanwhile."""
        left = _STALE_TRIES
        while True:
            left -= 1
            seen = SimpleNamespace(reused=False)
            began = asyncio.get_running_loop().time()
            try:
                response = await self._open().request(
                    method,
                    self.base + path,
                    data=None if data is None else io.BytesIO(data),
                    headers=CIMultiDict(headers) if headers else None,
                    timeout=aiohttp.ClientTimeout(total=limit, sock_connect=_CONNECT),
                    trace_request_ctx=seen,
                    allow_redirects=method == "GET",
                )
            except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError):
                if not left or not seen.reused:
                    raise
            else:
                return response, began

    def _named(self, error: Exception, path: str, limit: float | None) -> EngineError:
        match error:
            case aiohttp.ClientConnectorCertificateError():
                return EngineError(f"{self.base}: {_line(error.certificate_error)}", kind="auth")
            case TimeoutError() if not isinstance(error, aiohttp.ConnectionTimeoutError):
                return EngineError(f"{self.base} gave no answer within {limit:g} s", kind="timeout")
            case TimeoutError() | aiohttp.ClientPayloadError() | aiohttp.ClientConnectionError():
                return EngineError(f"{self.base} is gone: {_line(error)}", kind="lost")
            case _:
                return EngineError(f"{self.base}{path}: {_line(error)}", kind="error")

    def refusal(self, response: aiohttp.ClientResponse, body: bytes, path: str) -> EngineError:
        """What an answer other than 200 means."""
        said = _said(body)
        message = f"{self.base}{path} answered {response.status}" + (f": {said}" if said else "")
        return EngineError(
            message,
            kind=_BY_STATUS.get(response.status, "error"),
            retry_after=_retry_after(response.headers.get("Retry-After")),
        )


async def _note_reuse(
    _session: aiohttp.ClientSession, context: SimpleNamespace, _params: aiohttp.TraceConnectionReuseconnParams
) -> None:
    context.trace_request_ctx.reused = True


def _retry_after(value: str | None) -> Nanos | None:
    """Read ``Retry-After`` in seconds; its date form is rare among engines and ignored."""
    try:
        return None if value is None else nanos(max(0.0, float(value)))
    except (ValueError, OverflowError):
        return None


def _said(body: bytes) -> str:
    """Find an engine's own words in a refusal, one short line; never the echo of a prompt that may follow them."""
    try:
        said: Any = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""
    for key in ("error", "message", "detail"):
        if isinstance(said, dict) and key in said:
            said = said[key]
    text = said if isinstance(said, str) else ""
    return " ".join(text.split("'input'")[0].split())[:300]


def _line(error: Exception) -> str:
    if isinstance(error, aiohttp.ClientConnectorError):
        error = error.os_error
    number = error.errno if isinstance(error, OSError) and not isinstance(error, ssl.SSLError) else None
    text = " ".join((os.strerror(number) if number and number > 0 else str(error)).split())
    return text or type(error).__name__
