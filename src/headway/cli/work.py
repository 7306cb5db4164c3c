"""What can be run: suites and task files, made ready. Every name of one is resolved here."""

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from headway.batch import Result, Sample
from headway.batch.running import Solve
from headway.config import Settings
from headway.errors import ConfigError
from headway.ports import Engine, Environment

DEFAULT = "default"
"""Stands for the sole environment of whatever is run, until that is known."""


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be run: a suite or a task file, and which part of it. Kept in the journal for ``resume``.

    ``salt`` keeps the prefixes of this run apart from those of others in an engine's cache (vLLM's ``cache_salt``).
    """

    what: str
    limit: int | None = None
    ids: str | None = None
    repeats: int = 1
    agent: str = ""
    inject_latency: bool = False
    salt: str | None = None


class Prepared(msgspec.Struct, frozen=True):
    """Work made ready: samples, who solves them, where, and how the results are summed up.

    ``places`` by environment name; ``label`` must stand beside every figure that rests on it; ``notes`` are for people.
    """

    samples: list[Sample]
    solve: Solve
    places: dict[str, Environment]
    score: Callable[[Sequence[Result]], dict[str, Any] | None]
    label: str = ""
    notes: tuple[str, ...] = ()


async def prepare(work: Work, chosen: Settings, engines: Sequence[Engine]) -> Prepared:
    """Make work ready. Raises: ``ConfigError`` for a suite, file, agent or sample that is not there."""
    makers: dict[str, Callable[[Work, Settings, Sequence[Engine]], Awaitable[Prepared]]] = {"bfcl": _bfcl}
    maker = makers.get(work.what)
    if maker is None and not work.what.endswith(".jsonl"):
        raise ConfigError(
            f"there is no suite {work.what!r}", hint=f"suites: {', '.join(makers)}; or a file TASKS.jsonl"
        )
    return await (maker or _tasks)(work, chosen, engines)


def _chosen_samples(work: Work, samples: list[Sample]) -> list[Sample]:
    if work.ids is not None:
        wanted = [name.strip() for name in work.ids.split(",") if name.strip()]
        by_id = {sample.id: sample for sample in samples}
        strangers = [name for name in wanted if name not in by_id]
        if strangers:
            raise ConfigError(f"there is no sample {strangers[0]!r}", where="--ids")
        samples = [by_id[name] for name in wanted]
    if work.limit is not None:
        if work.limit < 1:
            raise ConfigError(f"must be at least 1, is {work.limit}", where="--limit")
        samples = samples[: work.limit]
    if work.repeats < 1:
        raise ConfigError(f"must be at least 1, is {work.repeats}", where="--repeats")
    if work.repeats == 1:
        return samples
    replace = msgspec.structs.replace
    return [replace(s, id=f"{s.id}#{n}", group=s.group or s.id) for s in samples for n in range(work.repeats)]


async def _tasks(work: Work, chosen: Settings, engines: Sequence[Engine]) -> Prepared:
    from headway.adapters.environments import Sandbox
    from headway.suites import tasks

    if work.agent:
        raise ConfigError(f"task files have one agent, not {work.agent!r}", where="--agent")
    if work.inject_latency:
        raise ConfigError("only the suite bfcl knows it", where="--inject-latency")
    samples = _chosen_samples(work, tasks.load(Path(work.what)))
    wrong = await tasks.too_long(samples, engines)
    if wrong is not None:
        raise ConfigError(wrong, where=work.what, hint="an engine with a longer context can take it")
    names = [name if name != DEFAULT else "bash" for name in chosen.environments]
    if len(names) > 1:
        raise ConfigError("task files use one environment", where="--env", hint=f"given: {', '.join(names)}")
    places: dict[str, Environment] = {name: Sandbox(name) for name in names}
    agent = tasks.ShellAgent(names[0] if names else None)
    return Prepared(samples, agent.solve, places, lambda _: None)


KNOWING = frozenset({"longest-first", "oracle"})
"""Policies that are told how long each chain of a suite will be; for all others that would be cheating."""


async def _bfcl(work: Work, chosen: Settings, engines: Sequence[Engine]) -> Prepared:
    from headway.core.units import Nanos
    from headway.suites import bfcl

    if work.agent not in {"", "scripted", "model"}:
        raise ConfigError(f"must be scripted or model, is {work.agent!r}", where="--agent")
    contexts = [(await engine.join(Nanos(0))).max_context for engine in engines]
    known = [context for context in contexts if context is not None]
    most = max(known) if len(known) == len(contexts) else None
    tasks = bfcl.load_tasks(bfcl.CATEGORIES)
    fitted = bfcl.fit(tasks, most)
    samples = _chosen_samples(work, bfcl.samples(fitted.fitting, oracle=chosen.policy in KNOWING))
    delay = bfcl.InjectedLatency() if work.inject_latency else None
    agent = (
        bfcl.ModelAgent(max_context=most, latency=delay) if work.agent == "model" else bfcl.ScriptedAgent(latency=delay)
    )

    def score(results: Sequence[Result]) -> dict[str, Any]:
        values = [msgspec.convert(r.value, bfcl.BfclResult) for r in results if r.ok]
        played = {sample.data.id: sample.data for sample in samples}
        scores = bfcl.score(values, tasks=list(played.values())) if work.repeats == 1 else None
        mean = sum(value.score for value in values) / len(samples)
        return {"mean": mean, "by_category": scores.categories if scores else None}

    told = f"{chosen.policy} is told the number of official calls of each task: an oracle"
    notes = (*([fitted.line] if fitted.line else ()), *([told] if chosen.policy in KNOWING else ()))
    label = delay.label if delay else ""
    return Prepared(samples, agent.solve, {bfcl.ENVIRONMENT: bfcl.environment()}, score, label, notes)
