"""Where a simulated batch comes from: a named setting, a file of settings, recorded trajectories, an earlier run."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from headway.analysis.simulate import Source, Traced
from headway.core.progress import Progress, TurnSample
from headway.core.units import EnvironmentId
from headway.errors import ConfigError
from headway.journal import SUFFIX, read
from headway.latency import Fit, LatencyModel, fit
from headway.traces import Script, Scripts, read_traces
from headway.workloads import ACCEPTANCE, PUBLISHED, EnvironmentShape, Setting, find_setting, read_settings
from headway.workloads.acceptance import BASE

_MOST_SWEPT = 64
_SWEPT = ("slots", "engines", "samples", "group", "mean", "sigma", "kv_tokens", "state_slots")


@dataclass(frozen=True, slots=True)
class Changes:
    """What a command line changes about a source; None: nothing.

    ``slots`` are those of the sole environment, ``environments`` those of named ones.
    """

    samples: int | None = None
    slots: int | None = None
    engines: int | None = None
    environments: tuple[tuple[EnvironmentId, int], ...] = ()
    cost: LatencyModel | None = None


def known_settings() -> dict[str, Setting]:
    """Every setting that has a name of its own."""
    return {**ACCEPTANCE, **PUBLISHED}


def setting_source(name: str, file: str | os.PathLike[str] | None = None, changes: Changes = Changes()) -> Source:
    """A setting by its name, from a file of settings if one is given. Raises: ``ConfigError``."""
    if file is None:
        setting = find_setting(name, known_settings())
    else:
        setting = find_setting(name, read_settings(file), str(file))
    return _changed(setting, changes)


def trace_source(path: str | os.PathLike[str], changes: Changes = Changes()) -> Traced:
    """Recorded trajectories, from a file of traces or from a journal. Raises: ``ConfigError``.

    Engines are two of the comparison's, environments have 16 slots each, unless changed. With fewer ``samples`` the
    first ones are taken. The setting's source says how many durations are assumed.
    """
    file = Path(path)
    if file.suffix == SUFFIX:
        scripts, source = _of_journal(file)
    else:
        recorded = read_traces(file)
        scripts = recorded.scripts
        source = f"recorded: {file.name}"
        if recorded.assumed:
            source += f" ({recorded.assumed} of {recorded.actions} action times assumed, not measured)"
    scripts = scripts[: changes.samples]
    names = {step.action.environment for script in scripts for step in script.steps if step.action is not None}
    places = {name: BASE.environments[next(iter(BASE.environments))] for name in sorted(names)}
    setting = replace(BASE, name=file.stem, source=source, environments=places, samples=len(scripts), engines=2)
    return Traced(_changed(setting, changes), scripts)


def fit_run(path: str | os.PathLike[str]) -> Fit:
    """The cost of tokens as the turns of a recorded run show it, and how far off that is. Raises: ``ConfigError``."""
    samples: list[TurnSample] = []
    progress = Progress(samples.append)
    for row in read(path).rows:
        progress.apply(row.fact, row.commands)
    found = fit(samples)
    if found is None:
        raise ConfigError(f"has too few turns to fit a cost to ({len(samples)})", where=str(path))
    return found


def swept(source: Source, sweep: str) -> list[Source]:
    """The same source with one number changed, like ``slots=4..64`` (doubling) or ``slots=4,12,20``.

    Raises: ``ConfigError``.
    """
    key, equals, text = sweep.partition("=")
    if not equals or key not in _SWEPT:
        raise ConfigError(f"can't sweep {sweep!r}", where="--sweep", hint=f"KEY=A..B or KEY=A,B; {', '.join(_SWEPT)}")
    values = _values(text)
    return [_swept(source, key, value) for value in values]


def _values(text: str) -> list[float]:
    low, dots, high = text.partition("..")
    try:
        numbers = [float(part) for part in ((low, high) if dots else text.split(","))]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) <= 0 or (dots and numbers[0] > numbers[1]):
        raise ConfigError(f"can't read {text!r} as numbers above 0", where="--sweep", hint="like 4..64 or 4,12,20")
    if not dots:
        return numbers
    value, values = numbers[0], list[float]()
    while value <= numbers[1] and len(values) < _MOST_SWEPT:
        values.append(value)
        value *= 2
    return values


def _swept(source: Source, key: str, value: float) -> Source:
    setting = source if isinstance(source, Setting) else source.setting
    if key == "slots":
        made = setting.with_slots(round(value))
    elif key in {"engines", "samples", "group"}:
        made = replace(setting, **{key: round(value)})  # type: ignore[arg-type]  # one of three numbers
    elif key in {"kv_tokens", "state_slots"}:
        made = replace(setting, engine=replace(setting.engine, **{key: round(value)}))  # type: ignore[arg-type]
    else:
        made = replace(setting, workload=replace(setting.workload, **{key: value}))  # type: ignore[arg-type]
    made = replace(made, name=f"{setting.name} {key}={value:g}")
    if isinstance(source, Setting):
        return made
    if key in {"samples", "group", "mean", "sigma"}:
        raise ConfigError(f"recorded trajectories are as they are: no sweep of {key}", where="--sweep")
    return Traced(made, source.scripts)


def _changed(setting: Setting, changes: Changes) -> Setting:
    if changes.samples is not None:
        setting = replace(setting, samples=changes.samples)
    if changes.engines is not None:
        setting = replace(setting, engines=changes.engines)
    if changes.slots is not None:
        setting = setting.with_slots(changes.slots)
    if changes.cost is not None:
        setting = replace(setting, engine=replace(setting.engine, cost=changes.cost))
    return _with_environments(setting, changes.environments)


def _with_environments(setting: Setting, slots: Sequence[tuple[EnvironmentId, int]]) -> Setting:
    places: dict[EnvironmentId, EnvironmentShape] = dict(setting.environments)
    for name, number in slots:
        if name not in places:
            known = ", ".join(places)
            raise ConfigError(f"there is no environment {name!r}", where=setting.name, hint=f"one of: {known}")
        places[name] = replace(places[name], slots=number)
    return replace(setting, environments=places)


def _of_journal(file: Path) -> tuple[tuple[Script, ...], str]:
    scripts = Scripts()
    for row in read(file).rows:
        scripts.apply(row.fact, row.commands)
    found = scripts.finished()
    if not found:
        raise ConfigError("has no finished trajectory", where=str(file))
    source = f"recorded: {file.name}"
    if scripts.others:
        source += f" ({scripts.others} turns and actions of side streams left out)"
    return found, source
