"""From words to a plan: model, engine, memory, workload, time model, and a live engine beside it."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from headway.adapters import replicas
from headway.adapters.engines import OpenAIEngine, connect
from headway.adapters.engines.measure import measure as ask
from headway.core.units import Bytes, Tokens
from headway.errors import ConfigError
from headway.hybrid.architecture import from_config, from_json, named
from headway.hybrid.budget import Budget, parse_bytes
from headway.hybrid.engines import Engine, engine_of_kind, kind_of
from headway.hybrid.geometry import Architecture, check_tp, dtype_bytes
from headway.hybrid.measured import Check, Measured, compare, render_checks
from headway.hybrid.plan import Plan, plan
from headway.hybrid.render import render
from headway.hybrid.timing import Timing, assumed
from headway.hybrid.timing import device as known_device
from headway.hybrid.vllm import Vllm
from headway.hybrid.workload import ByHand, Spread, Workload, by_hand


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What the user gave, as it was written."""

    config: str
    kind: str | None = None
    url: str | None = None
    tp: int = 1
    memory: str | None = None
    device_memory: str | None = None
    weights: str | None = None
    utilization: float = 0.9
    overhead: str = "0"
    workload: Path | None = None
    by_hand: dict[str, str | None] = {}
    shared_prefix: int = 0
    fit: Path | None = None
    device: str | None = None
    kv_dtype: str | None = None
    state_dtype: str | None = None
    options: tuple[str, ...] = ()


class Answer(msgspec.Struct, frozen=True):
    """The plan; how its memory was derived, if it was; and how a live engine compares, if there is one."""

    plan: Plan
    subtraction: str | None = None
    measured: Measured | None = None
    checks: tuple[Check, ...] = ()


def answer(question: Question) -> Answer:
    """Make the plan. Raises: ``ConfigError`` for anything that can't be used, ``BoundaryError`` from a live engine."""
    check_tp(question.tp)
    model = architecture(question.config)
    measured = None if question.url is None else _measured(question.url, question.kind)
    engine = _engine(question, None if measured is None else measured.engine)
    work = _workload(question)
    timing = _timing(question, model, engine)
    memory, subtraction = _memory(question, model)
    if memory is None:
        engine, memory = _as_found(model, engine, measured, question.tp)
    made = plan(model, engine, memory, question.tp, work, timing)
    checks = () if measured is None else compare(made, measured)
    return Answer(made, subtraction, measured, checks)


def text(found: Answer) -> str:
    """The page."""
    lines = [] if found.subtraction is None else [f"Cache per rank: {found.subtraction}", ""]
    lines.append(render(found.plan))
    if found.measured is not None:
        lines += [render_checks(found.checks, found.measured), ""]
    return "\n".join(lines).rstrip()


def merged(found: Answer) -> dict[str, Any]:
    """The plan's own keys on top, what surrounds it beside them."""
    around = {"subtraction": found.subtraction, "measured": found.measured, "checks": found.checks}
    return {**msgspec.structs.asdict(found.plan), **around}


def write(found: Answer, path: Path) -> None:
    """Write the JSON. Raises: ``ConfigError``."""
    try:
        path.write_bytes(msgspec.json.format(msgspec.json.encode(merged(found)), indent=2) + b"\n")
    except OSError as error:
        raise ConfigError(f"can't be written: {error.strerror}", where=str(path)) from error


def read_plan(path: Path) -> Plan:
    """A plan that ``headway plan -o`` wrote. Raises: ``ConfigError``."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Plan)
    except OSError as error:
        raise ConfigError(f"can't be read: {error.strerror}", where=str(path)) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        hint = "make it with: headway plan CONFIG ... -o plan.json"
        raise ConfigError(f"not a plan: {error}", where=str(path), hint=hint) from error


# -- the model and the engine -------------------------------------------------------------------------------


def architecture(name: str) -> Architecture:
    """A file, a folder with a ``config.json``, a built-in model, or one that ``engine up`` makes."""
    path = Path(name)
    file = path / "config.json" if path.is_dir() else path
    if path.exists():
        try:
            found = file.read_bytes()
        except OSError as error:
            raise ConfigError(f"can't be read: {error.strerror}", where=str(file)) from error
        return from_json(found, name=str(path), source=str(file))
    if name in replicas.MODELS:
        return from_config(replicas.config(name), name=name, source="made by headway engine up")
    return named(name)


def _engine(question: Question, found: str | None) -> Engine:
    kind = question.kind or found
    if kind is None:
        raise ConfigError("for which engine?", where="--engine-kind", hint="give vllm, sglang or llamacpp")
    engine = engine_of_kind(kind)
    if isinstance(engine, Vllm) and question.config in replicas.MODELS:
        engine = msgspec.structs.replace(engine, block_tokens=replicas.BLOCK_TOKENS)
    fields: dict[str, Any] = {"kv_dtype": question.kv_dtype, "state_dtype": question.state_dtype}
    changes = {key: value for key, value in fields.items() if value is not None}
    known = tuple(engine.__struct_fields__)
    for pair in question.options:
        key, equals, value = pair.partition("=")
        if not equals or key not in known:
            hint = f"{kind} has {', '.join(known)}"
            raise ConfigError(f"{key!r} is not a setting of it", where=f"--set {pair}", hint=hint)
        changes[key] = value
    for key in changes:
        if key not in known:
            raise ConfigError(f"{kind} has no such choice", where=f"--{key.replace('_', '-')}")
    try:
        return msgspec.convert({**msgspec.to_builtins(engine), **changes}, type(engine), strict=False)
    except msgspec.ValidationError as error:
        raise ConfigError(str(error), where="--set") from error


# -- memory -------------------------------------------------------------------------------------------------


def _memory(question: Question, model: Architecture) -> tuple[Bytes | None, str | None]:
    """Bytes for the cache per rank, and the subtraction that gave them; None: nothing was said of it."""
    if question.memory is not None:
        if question.device_memory is not None:
            raise ConfigError("--memory and --device-memory exclude each other", hint="give one of them")
        return parse_bytes(question.memory, where="--memory"), None
    if question.device_memory is not None:
        total = parse_bytes(question.device_memory, where="--device-memory")
    elif question.device is not None and question.url is None:
        total = Bytes(known_device(question.device).memory)
    else:
        return None, None
    weights, label = _weights(question, model)
    budget = Budget(total, question.utilization, weights, parse_bytes(question.overhead, where="--overhead"))
    return budget.left, budget.text(budget.left) + label


def _weights(question: Question, model: Architecture) -> tuple[Bytes, str]:
    if question.weights is not None:
        return parse_bytes(question.weights, where="--weights"), ""
    if model.parameters is None:
        raise ConfigError("the size of the weights is not known", where="--weights", hint="give bytes per rank")
    size = model.parameters.total * dtype_bytes(model.dtype, where="weights") // question.tp
    return Bytes(size), f" (weights estimated from the config: {model.parameters.total / 1e9:.3g}B in {model.dtype})"


def _as_found(model: Architecture, engine: Engine, measured: Measured | None, tp: int) -> tuple[Engine, Bytes]:
    """Plan for what a live vLLM holds, or for the blocks that were given."""
    blocks = engine.num_blocks if isinstance(engine, Vllm) else None
    if isinstance(engine, Vllm) and measured is not None and measured.num_blocks is not None:
        blocks = blocks or measured.num_blocks
        engine = msgspec.structs.replace(engine, num_blocks=blocks)
        if engine.block_tokens is None and measured.block_tokens:
            engine = msgspec.structs.replace(engine, block_tokens=measured.block_tokens)
    if blocks is None or not isinstance(engine, Vllm):
        hint = "give --memory 80GiB, or --device-memory (or --device) to derive it"
        raise ConfigError(f"how much memory for the cache of {kind_of(engine)}?", where="--memory", hint=hint)
    return engine, Bytes(blocks * engine.layout(model, Bytes(0), tp).bytes_per_block)


# -- workload and time model --------------------------------------------------------------------------------

_MEAN = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(?:(?:~|±|\+-)\s*(\d+(?:\.\d+)?))?\s*")


def _mean(name: str, written: str) -> tuple[float, float]:
    found = _MEAN.fullmatch(written)
    if found is None:
        where = f"--{name.replace('_', '-')}"
        raise ConfigError(f"{written!r} is no number", where=where, hint="give a mean, or mean~deviation as 30~12")
    return float(found[1]), float(found[2] or 0)


def _workload(question: Question) -> Workload | None:
    given = {name: _mean(name, value) for name, value in question.by_hand.items() if value is not None}
    if question.workload is not None:
        return _recorded(question.workload, given, question.shared_prefix)
    if not given:
        return None
    missing = [name.replace("_", "-") for name in question.by_hand if name not in given]
    if missing:
        raise ConfigError(f"a workload by hand needs --{' and --'.join(missing)} too")
    numbers: dict[str, Any] = {"shared_prefix": question.shared_prefix}
    for name, (mean, deviation) in given.items():
        numbers |= {name: mean, f"{name}_sd": deviation}
    return by_hand(msgspec.convert(numbers, ByHand))


def _recorded(path: Path, given: Mapping[str, tuple[float, float]], shared: int) -> Workload:
    from headway.analysis.profile import profile

    strangers = [name.replace("_", "-") for name in given if name != "action"]
    if strangers:
        raise ConfigError(f"--workload and --{strangers[0]} exclude each other", hint="only --action may be given too")
    work = profile(path)
    if "action" in given:
        mean, deviation = given["action"]
        work = msgspec.structs.replace(work, action=Spread.guess(mean, deviation))
    return msgspec.structs.replace(work, shared_prefix=Tokens(shared)) if shared else work


def _timing(question: Question, model: Architecture, engine: Engine) -> Timing | None:
    if question.fit is not None:
        from headway.analysis.profile import fitted

        if question.device is not None and question.memory is not None:
            raise ConfigError("--fit and --device exclude each other", hint="a fit says more; drop --device")
        return fitted(question.fit)
    return None if question.device is None else assumed(question.device, model, question.tp, engine.dtypes(model))


# -- a live engine ------------------------------------------------------------------------------------------


def _measured(url: str, kind: str | None) -> Measured:
    import anyio

    return anyio.run(measure, url, kind)


async def measure(url: str, kind: str | None = None) -> Measured:
    """Ask a live engine for its geometry. Raises: ``ConfigError``, ``EngineError``."""
    engine = connect(url, kind=kind)
    try:
        return await ask(engine)
    finally:
        await engine.close()


async def agreed(path: Path, engines: Sequence[OpenAIEngine]) -> Plan:
    """The plan of a file, once every engine turned out to be what it says. Raises: ``ConfigError``, ``EngineError``."""
    made = read_plan(path)
    for engine in engines:
        measured = await ask(engine)
        if measured.engine != made.engine:
            raise ConfigError(f"is for {made.engine}, {measured.url} is {measured.engine}", where=str(path))
        for check in compare(made, measured):
            if check.agrees is False:
                what = f"{measured.url} has {check.measured:,g} {check.name}, the plan {check.planned:,g}"
                raise ConfigError(
                    what, where=str(path), hint="start it with the plan's flags, or plan with --engine-url"
                )
    return made
