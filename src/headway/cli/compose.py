"""From words to a run: settings, engines, environments; the suites are in :mod:`~headway.cli.work`."""

import os
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import msgspec

from headway.adapters.engines import OpenAIEngine, connect
from headway.batch import Batch, Result, Slots, Timeouts, Tuning
from headway.cli.planning import agreed
from headway.cli.work import DEFAULT, Prepared, prepare
from headway.cli.work import Work as Work
from headway.config import EngineSettings, EnvironmentSettings, Settings, load
from headway.core.policy import Retries
from headway.core.progress import Snapshot, snapshot
from headway.core.units import nanos
from headway.errors import ConfigError, FailureKind, HeadwayError, sole
from headway.journal import SUFFIX, read
from headway.policies.presets import NAMES
from headway.ports import Engine
from headway.views.terminal import LiveView

Say = Callable[[str], None]


class Interrupted(HeadwayError):  # noqa: N818 - it says what happened
    """The user stopped a run; the message says how to go on."""


class Outcome(msgspec.Struct, frozen=True):
    """How a run ended, as ``--json`` prints it."""

    journal: str
    policy: str
    samples: int
    finished: int
    failed: int
    recalled: int
    makespan_s: float | None
    label: str
    score: dict[str, Any] | None
    failures: dict[str, str]
    summary: Snapshot


# -- settings -----------------------------------------------------------------------------------------------


def settings(file: Path | None, flags: Mapping[str, Any]) -> Settings:
    """Read the config file and lay the flags over it. Raises: ``ConfigError``."""
    laid = {key: value for key, value in flags.items() if key not in _ENGINE_FLAGS | {"environments", "slots"}}
    for key in ("concurrency", "error_budget"):
        laid[key] = _spelt(laid.get(key))
    laid["engines"] = _engine_entries(file, flags)
    for name, slots in _environment_flags(file, flags).items():
        laid[f"environments.{name}"] = slots
    return load(file, laid, known=NAMES)


def _spelt(text: str | None) -> str | int | float | None:
    """A flag as TOML would have it: a number where it is one."""
    for number in (int, float):
        with suppress(ValueError):
            return None if text is None else number(text)
    return text


_ENGINE_FLAGS = {"engines", "engine_kind", "model", "api_key_env", "ca_file", "insecure"}


def _engine_entries(file: Path | None, flags: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    common = {"kind": flags.get("engine_kind"), **{key: flags.get(key) for key in _ENGINE_FLAGS}}
    common = {k: v for k, v in common.items() if k not in {"engines", "engine_kind"} and v is not None}
    urls = flags.get("engines")
    if urls:
        return [{"url": url, **common} for url in urls]
    if not common or file is None:
        return None
    return [{**msgspec.to_builtins(engine), **common} for engine in load(file).engines]


def _environment_flags(file: Path | None, flags: Mapping[str, Any]) -> dict[str, int]:
    given: dict[str, int] = {}
    for pair in flags.get("environments") or ():
        name, equals, number = pair.partition("=")
        if not (name and equals and number.removeprefix("-").isdecimal()):
            raise ConfigError(f"must be NAME=SLOTS, is {pair!r}", where="--env")
        given[name] = int(number)
    slots = flags.get("slots")
    if slots is not None:
        names = list(given) or (list(load(file).environments) if file else []) or [DEFAULT]
        if len(names) > 1:
            raise ConfigError("--slots is for a sole environment", hint=f"use --env NAME=N for: {', '.join(names)}")
        given[names[0]] = slots
    return given


def recalled(journal: Path, flags: Mapping[str, Any]) -> tuple[Work, Settings]:
    """What a journal was started with; flags given now win. Raises: ``ConfigError``."""
    header = read(journal).header
    try:
        work = msgspec.convert(header.source, Work)
        was = msgspec.convert(header.settings, Settings)
    except msgspec.ValidationError as error:
        hint = "resume it from the program that wrote it"
        raise ConfigError("was not written by `headway run`", where=str(journal), hint=hint) from error
    if flags.get("engines"):
        model = was.engines[0] if was.engines else EngineSettings(url="")
        engines = tuple(msgspec.structs.replace(model, url=url.rstrip("/")) for url in flags["engines"])
        was = msgspec.structs.replace(was, engines=engines)
    changed = {n: EnvironmentSettings(slots=s) for n, s in _environment_flags(None, flags).items()}
    return work, msgspec.structs.replace(was, environments={**was.environments, **changed})


def api_key(variable: str | None) -> str | None:
    """The key that an environment variable holds. Raises: ``ConfigError`` if it holds none."""
    return None if variable is None else EngineSettings(url="engine", api_key_env=variable).api_key(os.environ)


# -- running ------------------------------------------------------------------------------------------------


def execute(work: Work, chosen: Settings, journal: Path | None, *, resume: bool, say: Say, quiet: bool) -> Outcome:
    """Run to the end, with live progress unless ``quiet``. Raises: ``HeadwayError``."""
    if not chosen.engines:
        raise ConfigError("no engine is given", where="--engine", hint="--engine http://HOST:PORT, once for each")
    path = journal or Path(chosen.journal or _fresh_name(work.what))
    try:
        return anyio.run(_execute, work, chosen, path, resume, say, quiet)
    except BaseExceptionGroup as group:
        raise sole(group) from group
    except KeyboardInterrupt:
        raise Interrupted(
            f"interrupted; go on with: headway resume {path}" if path.exists() else "interrupted"
        ) from None


def _fresh_name(what: str) -> str:
    return f"{Path(what).stem}-{time.strftime('%Y%m%d-%H%M%S')}{SUFFIX}"


async def _execute(
    work: Work,
    chosen: Settings,
    path: Path,
    resume: bool,
    say: Say,
    quiet: bool,
) -> Outcome:
    engines = [_engine(engine) for engine in chosen.engines]
    async with _closing(engines):
        plan = None if chosen.plan is None else await agreed(Path(chosen.plan), engines)
        prepared = await prepare(work, chosen, engines)
        for line in (*prepared.notes, prepared.label):
            if line:
                say(line)
        environments = _environments(chosen, prepared)
        batch = Batch(
            engines,
            environments,
            policy=chosen.policy,
            concurrency="auto" if chosen.concurrency is None else chosen.concurrency,
            plan=plan,
            journal=path,
            resume=resume,
            seed=chosen.seed,
            timeouts=Timeouts(chosen.timeouts.turn, chosen.timeouts.action, chosen.timeouts.sample),
            retries=_retries(chosen),
            tuning=Tuning(chosen.residency.headroom, chosen.residency.bypass, chosen.overtakes),
            error_budget=chosen.error_budget,
            request_fields={} if work.salt is None else {"cache_salt": work.salt},
            source=msgspec.to_builtins(work),
            settings=chosen.plain(),
        )
        results = await _watched(batch, prepared, path, say, quiet=quiet)
    return _outcome(batch, prepared, results, path, chosen.policy)


async def _watched(batch: Batch, prepared: Prepared, path: Path, say: Say, *, quiet: bool) -> list[Result]:
    title = f"{path.stem}: {len(prepared.samples)} samples"
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_show, batch, title, path, say, quiet)
        async with batch.stream(prepared.solve, prepared.samples) as stream:
            results = [result async for result in stream]
        tasks.cancel_scope.cancel()
    return results


async def _show(batch: Batch, title: str, path: Path, say: Say, quiet: bool) -> None:
    await batch.started.wait()
    say(f"journal: {path} (if this is interrupted: headway resume {path})")
    if quiet:
        return
    with LiveView(title) as view:
        while True:
            view.update(batch.progress, batch.now())
            await anyio.sleep(0.25)


@asynccontextmanager
async def _closing(engines: Sequence[Engine]) -> AsyncIterator[None]:
    try:
        yield
    finally:
        with anyio.CancelScope(shield=True):
            for engine in engines:
                await engine.close()


def _engine(chosen: EngineSettings) -> OpenAIEngine:
    return connect(
        chosen.url,
        kind=chosen.kind,
        model=chosen.model,
        api_key=chosen.api_key(os.environ),
        ca_file=chosen.ca_file,
        insecure=chosen.insecure,
    )


def _environments(chosen: Settings, prepared: Prepared) -> dict[str, Slots]:
    """Slots from the settings, places from the suite; a sole environment may go by the default name."""
    known = dict(chosen.environments)
    if DEFAULT in known and len(prepared.places) == 1:
        (sole,) = prepared.places
        known[sole] = known.pop(DEFAULT)
    for name in known:
        if name not in prepared.places:
            has = ", ".join(prepared.places) or "none"
            raise ConfigError(f"there is no environment {name!r} here", where="--env", hint=f"there are: {has}")
    missing = [name for name in prepared.places if name not in known]
    if missing:
        raise ConfigError(f"no slots given for {missing[0]!r}", where="--env", hint=f"--env {missing[0]}=8")
    return {n: Slots(e.slots, prepared.places[n], e.instances, e.create_rate) for n, e in known.items()}


def _retries(chosen: Settings) -> Retries:
    attempts: dict[FailureKind, int] = msgspec.convert(chosen.retry.attempts, dict[FailureKind, int])
    return Retries({**Retries().attempts, **attempts}, nanos(chosen.retry.first), nanos(chosen.retry.longest))


def _outcome(batch: Batch, prepared: Prepared, results: list[Result], path: Path, policy: str) -> Outcome:
    summary = snapshot(batch.progress)
    return Outcome(
        journal=str(path),
        policy=policy,
        samples=len(prepared.samples),
        finished=sum(result.ok for result in results),
        failed=sum(not result.ok for result in results),
        recalled=sum(result.recalled for result in results),
        makespan_s=summary.makespan_s,
        label=prepared.label,
        score=prepared.score(results),
        failures={result.id: result.failure for result in results if result.failure is not None},
        summary=summary,
    )
