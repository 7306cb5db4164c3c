"""What a batch can be told, and how it is read."""

import os
import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

import msgspec

from headway.config.table import Table, nearest
from headway.errors import ConfigError

EngineKind = Literal["vllm", "sglang", "llamacpp", "openai"]
KINDS: tuple[EngineKind, ...] = ("vllm", "sglang", "llamacpp", "openai")
FAILURES = ("lost", "overloaded", "timeout", "invalid", "auth", "error")


class EngineSettings(msgspec.Struct, frozen=True, kw_only=True):
    """One engine. ``kind`` None: find out. ``model`` None: the one that is served.

    ``api_key_env`` names the environment variable with the key; ``ca_file`` is trusted beside the system's authorities;
    ``insecure`` accepts any certificate.
    """

    url: str
    kind: EngineKind | None = None
    model: str | None = None
    api_key_env: str | None = None
    ca_file: str | None = None
    insecure: bool = False

    def api_key(self, environ: Mapping[str, str] = os.environ) -> str | None:
        """The key itself, None if none is needed. Raises: ``ConfigError`` if its variable is not set."""
        if self.api_key_env is None:
            return None
        key = environ.get(self.api_key_env, "")
        if not key:
            hint = "set it to the engine's API key"
            raise ConfigError(f"the environment variable {self.api_key_env} is not set", where=self.url, hint=hint)
        return key


class EnvironmentSettings(msgspec.Struct, frozen=True, kw_only=True):
    """One environment: actions at once, instances alive at once, instances created per second (None: no limit)."""

    slots: int
    instances: int | None = None
    create_rate: float | None = None
    kind: str | None = None


class RetrySettings(msgspec.Struct, frozen=True, kw_only=True):
    """Tries per kind of failure, the first included (only those that differ from the defaults); waits in seconds."""

    attempts: dict[str, int] = {}
    first: float = 0.25
    longest: float = 30.0


class TimeoutSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds of service, None for no limit; waiting in a queue never counts."""

    turn: float | None = None
    action: float | None = None
    sample: float | None = None


class ResidencySettings(msgspec.Struct, frozen=True, kw_only=True):
    """``headroom``: share of the cache kept free; ``bypass``: parked turns looked at for one that fits."""

    headroom: float = 0.08
    bypass: int = 32


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a batch can be told. ``concurrency`` None: no limit.

    ``error_budget``: how many samples may fail before the batch stops, a number or a share below 1; None: all.
    ``overtakes``: how often an action or turn may be overtaken before it goes next.
    ``plan``: a file of ``headway plan`` by which every engine was started.
    """

    engines: tuple[EngineSettings, ...] = ()
    environments: dict[str, EnvironmentSettings] = {}
    policy: str = "default"
    concurrency: int | Literal["auto"] | None = "auto"
    seed: int = 0
    retry: RetrySettings = RetrySettings()
    timeouts: TimeoutSettings = TimeoutSettings()
    error_budget: int | float | None = None
    journal: str | None = None
    residency: ResidencySettings = ResidencySettings()
    overtakes: int = 512
    plan: str | None = None

    def plain(self) -> dict[str, object]:
        """As JSON-able values, for a journal's header."""
        values: dict[str, object] = msgspec.to_builtins(self)
        return values


def load(
    file: str | os.PathLike[str] | None = None,
    flags: Mapping[str, object] | None = None,
    *,
    known: Collection[str] | None = None,
) -> Settings:
    """Read ``file`` (TOML), lay ``flags`` over it, check everything.

    Args:
        file: None: no file.
        flags: dotted key to value, ``{"timeouts.turn": "90s", "environments.bash": 8}``; None values are not given.
        known: names of policies; a policy that is not among them is refused. ``static-N`` among them stands for all N.

    Raises: ``ConfigError``.
    """
    values: dict[str, object] = {}
    name = ""
    if file is not None:
        name = str(file)
        values = _toml(Path(file))
    given = {key: value for key, value in (flags or {}).items() if value is not None}
    for key, value in given.items():
        _lay_over(values, key, value)
    return _settings(Table(values, name, frozenset(given)), known)


def _toml(file: Path) -> dict[str, object]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"can't be read: {error.strerror}", where=str(file)) from error
    except UnicodeDecodeError as error:
        raise ConfigError("is not a text file in UTF-8", where=str(file)) from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"is not valid TOML: {error}", where=str(file)) from error


def _lay_over(values: dict[str, object], key: str, value: object) -> None:
    """Set one flag. A bare number over an environment's table changes its slots and leaves the rest."""
    *path, last = key.split(".")
    table = values
    for part in path:
        inner = table.get(part)
        table[part] = inner = dict(inner) if isinstance(inner, dict) else _shorthand(inner)
        table = inner
    old = table.get(last)
    if isinstance(old, dict) and isinstance(value, int):
        table[last] = {**old, "slots": value}
    else:
        table[last] = value


def _shorthand(value: object) -> dict[str, object]:
    return {} if value is None else {"slots": value}


def _settings(table: Table, known: Collection[str] | None) -> Settings:
    default = Settings()
    settings = Settings(
        engines=_engines(table),
        environments=_environments(table.table("environments")),
        policy=_policy(table, known),
        concurrency=_concurrency(table),
        seed=table.integer("seed", default=0, least=0),
        retry=_retry(table.table("retry")),
        timeouts=_timeouts(table.table("timeouts")),
        error_budget=_error_budget(table),
        journal=table.text("journal"),
        residency=_residency(table.table("residency")),
        overtakes=table.integer("overtakes", default=default.overtakes, least=1),
        plan=table.text("plan"),
    )
    table.done()
    return settings


def _engines(table: Table) -> tuple[EngineSettings, ...]:
    engines: list[EngineSettings] = []
    for entry in table.listed("engines", shorthand="url"):
        url = _url(entry)
        same = [number for number, engine in enumerate(engines) if engine.url == url]
        if same:
            raise entry.wrong("url", f"is that of engines[{same[0]}] too", hint="name each engine once")
        kind = entry.text("kind")
        if kind is not None and kind not in KINDS:
            raise entry.wrong("kind", f"unknown kind {kind!r}", hint=nearest(kind, KINDS))
        engines.append(
            EngineSettings(
                url=url,
                kind=kind,
                model=entry.text("model"),
                api_key_env=entry.text("api_key_env"),
                ca_file=entry.text("ca_file"),
                insecure=entry.truth("insecure"),
            )
        )
        entry.done()
    return tuple(engines)


def _url(entry: Table) -> str:
    url = entry.text("url")
    if url is None:
        raise entry.wrong("url", "is missing", hint="http://HOST:PORT")
    parts = urlsplit(url)
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        hint = "api_key_env names the variable that holds a key"
        raise entry.wrong("url", "must hold no password, query or fragment", hint=hint)
    try:
        sound = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        sound = False
    if not sound:
        raise entry.wrong("url", f"must look like http://HOST:PORT, is {url!r}")
    return url.rstrip("/")


def _environments(table: Table) -> dict[str, EnvironmentSettings]:
    environments = {}
    for name in table.names():
        entry = table.table(name, shorthand="slots")
        environments[name] = EnvironmentSettings(
            slots=entry.integer("slots", least=1),
            instances=entry.maybe_integer("instances", least=1),
            create_rate=entry.maybe_number("create_rate", above=0),
            kind=entry.text("kind"),
        )
        entry.done()
    return environments


def _policy(table: Table, known: Collection[str] | None) -> str:
    policy = table.text("policy") or Settings().policy
    static = policy.removeprefix("static-")
    if known is None or policy in known or ("static-N" in known and static.isdecimal() and int(static) > 0):
        return policy
    raise table.wrong("policy", f"unknown policy {policy!r}", hint=nearest(policy, known))


def _concurrency(table: Table) -> int | Literal["auto"] | None:
    match table.get("concurrency"):
        case None | "auto":
            return "auto"
        case "unlimited":
            return None
        case int():
            return table.integer("concurrency", least=1)
        case other:
            raise table.wrong("concurrency", f"must be a number, auto or unlimited, is {other!r}")


def _retry(table: Table) -> RetrySettings:
    default = RetrySettings()
    attempts = table.table("attempts")
    tries = {kind: attempts.integer(kind, least=1) for kind in FAILURES if attempts.has(kind)}
    attempts.done(known=FAILURES)
    first = table.duration("first") or default.first
    longest = table.duration("longest") or max(first, default.longest)
    if longest < first:
        raise table.wrong("longest", f"must be at least first ({first:g} s), is {longest:g} s")
    table.done()
    return RetrySettings(attempts=tries, first=first, longest=longest)


def _timeouts(table: Table) -> TimeoutSettings:
    timeouts = TimeoutSettings(
        turn=table.duration("turn"), action=table.duration("action"), sample=table.duration("sample")
    )
    table.done()
    return timeouts


def _error_budget(table: Table) -> int | float | None:
    match table.get("error_budget"):
        case str(text) if text.endswith("%"):
            share = table.percent("error_budget")
        case float():
            share = table.number("error_budget", above=0)
        case None:
            return None
        case _:
            return table.integer("error_budget", least=0)
    if share >= 1:
        what = "must be a whole number of samples, or a share of them below 1"
        raise table.wrong("error_budget", what, hint="leave it out for no limit")
    return share


def _residency(table: Table) -> ResidencySettings:
    default = ResidencySettings()
    headroom = table.maybe_number("headroom", least=0)
    residency = ResidencySettings(
        headroom=default.headroom if headroom is None else headroom,
        bypass=table.integer("bypass", default=default.bypass, least=1),
    )
    if residency.headroom >= 1:
        raise table.wrong("headroom", f"must be below 1, is {residency.headroom:g}")
    table.done()
    return residency
