"""Engines over HTTP. ``connect`` is the way in."""

from headway.adapters.engines.engine import OpenAIEngine
from headway.adapters.engines.kinds import DIALECTS
from headway.adapters.engines.wire import Tls, Wire, base_url
from headway.errors import ConfigError

__all__ = ["KINDS", "OpenAIEngine", "connect"]

KINDS = tuple(DIALECTS)
"""What ``kind`` may be."""


def connect(
    url: str,
    *,
    kind: str | None = None,
    model: str | None = None,
    api_key: str | None = None,
    ca_file: str | None = None,
    insecure: bool = False,
    timeout: float | None = None,
) -> OpenAIEngine:
    """Make an engine of a URL. Opens nothing yet: ``join`` does, and tells what is wrong.

    Args:
        url: where it listens, with or without ``/v1``.
        kind: one of ``KINDS``; None: the engine is asked.
        model: the model to use; None: the first one served.
        api_key: sent as a bearer token.
        ca_file: certificates to trust, for a private CA.
        insecure: don't check certificates at all.
        timeout: seconds for a turn that sets none itself; None: as long as it takes.

    Raises: ``ConfigError``.
    """
    if kind is not None and kind not in DIALECTS:
        raise ConfigError(f"no such kind of engine: {kind!r}", where="--engine-kind", hint=f"one of {', '.join(KINDS)}")
    tls = Tls(ca_file=ca_file, insecure=insecure)
    return OpenAIEngine(Wire(base_url(url), key=api_key, tls=tls, timeout=timeout), kind=kind, model=model)
