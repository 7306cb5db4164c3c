"""Settings from a TOML file: one table a setting, ``defaults`` for what a table leaves out.

What neither says is as in :data:`headway.workloads.acceptance.BASE`.
"""

import os
import tomllib
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, get_args

from headway.config.table import Table, nearest
from headway.core.units import EnvironmentId
from headway.errors import ConfigError
from headway.latency import LatencyModel
from headway.workloads.acceptance import BASE
from headway.workloads.setting import ACTING, EngineShape, EnvironmentShape, Length, Setting, Workload

_LENGTHS: dict[str, Length] = {name: name for name in get_args(Length)}


def read_settings(path: str | os.PathLike[str]) -> dict[str, Setting]:
    """All settings of a file, by name. Raises: ``ConfigError`` with the file, the key, and what is wrong."""
    file = Path(path)
    try:
        document = tomllib.loads(file.read_text())
    except OSError as error:
        raise ConfigError(f"can't be read: {error.strerror}", where=str(file)) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"is not TOML: {error}", where=str(file)) from error
    defaults = document.pop("defaults", {})
    if not document:
        raise ConfigError("holds no setting", where=str(file), hint="a table a setting, like [E1]")
    return {name: _setting(name, _merged(defaults, values), str(file)) for name, values in document.items()}


def find_setting(name: str, settings: Mapping[str, Setting], where: str = "") -> Setting:
    """The setting of that name. Raises: ``ConfigError`` which says what there is."""
    if name not in settings:
        raise ConfigError(f"there is no setting {name!r}", where=where, hint=nearest(name, list(settings)))
    return settings[name]


def _merged(defaults: object, values: object) -> object:
    if not isinstance(defaults, Mapping) or not isinstance(values, Mapping):
        return values
    merged = dict(defaults)
    for key, value in values.items():
        merged[key] = _merged(defaults.get(key), value)
    return merged


def _setting(name: str, values: object, file: str) -> Setting:
    outer = Table({name: values}, file, frozenset())
    table = outer.table(name)
    work, engine = _workload(table.table("workload")), _engine(table.table("engine"))
    environments = _environments(table)
    setting = Setting(
        name=name,
        workload=work,
        engine=engine,
        environments=environments,
        samples=table.integer("samples", least=1, default=BASE.samples),
        group=table.integer("group", least=1, default=BASE.group),
        engines=table.integer("engines", least=1, default=BASE.engines),
        source=table.text("source") or f"synthetic: {file}",
    )
    table.done()
    return setting


def _workload(table: Table) -> Workload:
    length = table.text("length") or "lognormal"
    if length not in _LENGTHS:
        raise table.wrong("length", f"unknown distribution {length!r}", hint=nearest(length, list(_LENGTHS)))
    given: dict[str, Any] = {
        field.name: table.number(field.name, least=0)
        for field in fields(Workload)
        if field.name not in {"length", "cap", "laws"} and table.has(field.name)
    }
    cap = table.integer("cap", least=1, default=Workload().cap)
    table.done([field.name for field in fields(Workload) if field.name != "laws"])
    try:
        return replace(Workload(), **given, length=_LENGTHS[length], cap=cap)
    except ConfigError as error:
        raise table.wrong("length", error.what, hint=error.hint) from error


def _engine(table: Table) -> EngineShape:
    cost, shape = BASE.engine.cost, BASE.engine

    def number(key: str, default: float) -> float:
        given = table.maybe_number(key, least=0)
        return default if given is None else given

    rate = table.number("prefill", above=0) if table.has("prefill") else 1 / cost.prefill
    states = table.integer("state_slots", least=0, default=shape.state_slots)
    made = EngineShape(
        cost=LatencyModel(
            number("a", cost.base), number("b", cost.per_sequence), number("c", cost.per_token), 1 / rate
        ),
        kv_tokens=table.integer("kv_tokens", least=1, default=shape.kv_tokens),
        state_slots=states or None,
        block_tokens=table.integer("block_tokens", least=1, default=shape.block_tokens),
        max_running=table.maybe_integer("max_running", least=1),
        keeps_decode=table.truth("keeps_decode") if table.has("keeps_decode") else shape.keeps_decode,
        running_states=table.integer("running_states", least=1, default=shape.running_states),
        forgets=table.truth("forgets") if table.has("forgets") else shape.forgets,
    )
    table.done()
    return made


def _environments(table: Table) -> dict[EnvironmentId, EnvironmentShape]:
    several = table.table("environments")
    names = list(several.names())
    if names:
        return {EnvironmentId(name): _environment(several.table(name)) for name in names}
    return {ACTING: _environment(table, own=False)}


def _environment(table: Table, *, own: bool = True) -> EnvironmentShape:
    """``own``: the table is about this environment and nothing else."""
    seconds = {
        key: table.number(key, least=0)
        for key in ("create_interval", "create_seconds", "resume_seconds", "share", "seconds")
        if table.has(key)
    }
    default = None if own else BASE.environments[ACTING].slots
    shape = EnvironmentShape(
        slots=table.integer("slots", least=1, default=default),
        instances=table.maybe_integer("instances", least=1),
        **seconds,
    )
    if own:
        table.done()
    return shape
