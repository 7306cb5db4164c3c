"""``headway simulate``, ``headway bakeoff`` and ``headway fit``."""

import os
from pathlib import Path
from typing import Annotated

import typer

from headway.analysis import bakeoff as contest
from headway.analysis import pages, recording, sources
from headway.analysis.kept import Kept
from headway.analysis.simulate import Source, simulate
from headway.cli.output import Countdown, Json, emit_json, note, say
from headway.core.units import EnvironmentId
from headway.errors import ConfigError
from headway.workloads import ACCEPTANCE, read_settings

Seeds = Annotated[int, typer.Option(help="How many batches are drawn; every policy plays the same ones.")]
FirstSeed = Annotated[int, typer.Option(help="The number of the first of them.")]
Keep = Annotated[Path | None, typer.Option(help="A file that keeps what is done, so that it can be interrupted.")]
Processes = Annotated[int | None, typer.Option(help="Processes to use; all cores if not given.")]


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command("simulate")(simulate_command)
    app.command("bakeoff")(bakeoff_command)
    app.command()(fit)


def simulate_command(
    *,
    setting: Annotated[str | None, typer.Option(help="A named setting, E1 ... R3 or swe, bfcl ...")] = None,
    settings: Annotated[Path | None, typer.Option(help="TOML file of settings to look --setting up in.")] = None,
    trace: Annotated[Path | None, typer.Option(help="Recorded trajectories: traces or a journal.")] = None,
    policy: Annotated[str, typer.Option(help="Names, comma separated.")] = "coupled-fifo,fifo,default",
    seeds: Seeds = 8,
    first_seed: FirstSeed = 0,
    samples: Annotated[int | None, typer.Option(help="Samples in a batch.")] = None,
    slots: Annotated[int | None, typer.Option(help="Slots of the sole environment.")] = None,
    env: Annotated[list[str] | None, typer.Option("--env", help="NAME=SLOTS; once for each environment.")] = None,
    replicas: Annotated[int | None, typer.Option(help="Modelled engines.")] = None,
    fit_from: Annotated[Path | None, typer.Option("--fit", help="Fit the engine's cost to this run.")] = None,
    sweep: Annotated[str | None, typer.Option(help="KEY=A..B or KEY=A,B: one table for each value.")] = None,
    journal: Annotated[Path | None, typer.Option(help="Write the first policy's first batch as a journal.")] = None,
    processes: Processes = None,
    as_json: Json = False,
) -> None:
    """Play policies against each other in virtual time, with the very code that schedules live."""
    changes = sources.Changes(
        samples=samples,
        slots=slots,
        engines=replicas,
        environments=_environments(env),
        cost=None if fit_from is None else sources.fit_run(fit_from).model,
    )
    source = _source(setting, settings, trace, changes)
    names = _names(policy)
    numbers = _numbers(seeds, first_seed)
    if journal is not None:
        recording.record(source, names[0], journal)
        note(f"journal: {journal} ({names[0]}, seed 0)")
    found = [
        simulate(one, names, numbers, processes=_cores(processes), progress=Countdown())
        for one in (sources.swept(source, sweep) if sweep else [source])
    ]
    if as_json:
        emit_json(found if sweep else found[0])
    else:
        say("\n\n".join(pages.table(result) for result in found))


def bakeoff_command(
    *,
    setting: Annotated[str | None, typer.Option(help="Comma separated; all of the comparison if not given.")] = None,
    settings: Annotated[Path | None, typer.Option(help="TOML file: play its settings, or those named.")] = None,
    trace: Annotated[Path | None, typer.Option(help="Play recorded trajectories: traces or a journal.")] = None,
    policy: Annotated[str | None, typer.Option(help="Comma separated; every named one if not given.")] = None,
    seeds: Seeds = 4,
    first_seed: FirstSeed = 0,
    keep: Keep = None,
    samples: Annotated[int | None, typer.Option(help="Samples in a batch.")] = None,
    processes: Processes = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write a page, .md or .html.")] = None,
    as_json: Json = False,
) -> None:
    """Try every policy on every setting: paired differences, intervals, the best rival, the oracle."""
    numbers = _numbers(seeds, first_seed)
    chosen = _sources(setting, settings, trace, sources.Changes(samples=samples))
    if output is not None and output.suffix not in {".md", ".html"}:
        raise ConfigError(f"must end in .md or .html, is {output.name}", where="--output")
    if output is not None and not output.parent.is_dir():
        raise ConfigError("there is no such folder", where=str(output.parent))
    found = contest.bakeoff(
        chosen,
        _names(policy) if policy else (),
        numbers,
        processes=_cores(processes),
        progress=Countdown(),
        kept=None if keep is None else Kept(keep),
    )
    if output is not None:
        output.write_text(pages.html(found) if output.suffix == ".html" else pages.markdown(found), encoding="utf-8")
        note(f"written: {output}")
    if as_json:
        emit_json(found)
    elif output is None:
        say(pages.markdown(found))


def fit(run: Annotated[Path, typer.Argument(help="The journal of a run.")], *, as_json: Json = False) -> None:
    """Fit the cost of tokens to a run's turns, and say how far off the fit is."""
    found = sources.fit_run(run)
    if as_json:
        emit_json(found)
        return
    model = found.model
    say(
        f"step      {1e3 * model.base:.3g} ms + {1e3 * model.per_sequence:.3g} ms per sequence"
        f" + {1e9 * model.per_token:.3g} ns per token of context\n"
        f"prefill   {1e6 * model.prefill:.3g} us per token\n"
        f"error     {found.median_error:.1%} in the median, {found.mean_error:.1%} on average, of {found.turns} turns"
    )


def _source(setting: str | None, settings: Path | None, trace: Path | None, changes: sources.Changes) -> Source:
    if (setting is None) == (trace is None):
        raise ConfigError("needs a --setting or a --trace", hint=f"settings: {', '.join(sources.known_settings())}")
    if trace is not None:
        return sources.trace_source(trace, changes)
    return sources.setting_source(setting or "", settings, changes)


def _sources(setting: str | None, settings: Path | None, trace: Path | None, changes: sources.Changes) -> list[Source]:
    if trace is not None:
        if setting is not None or settings is not None:
            raise ConfigError("is a workload of its own: it takes no --setting and no --settings", where="--trace")
        return [sources.trace_source(trace, changes)]
    names = _names(setting) if setting else list(read_settings(settings) if settings else ACCEPTANCE)
    return [sources.setting_source(name, settings, changes) for name in names]


def _environments(given: list[str] | None) -> tuple[tuple[EnvironmentId, int], ...]:
    pairs = []
    for pair in given or ():
        name, _, number = pair.partition("=")
        if not (name and number.isdecimal() and int(number)):
            raise ConfigError(f"must be NAME=SLOTS with at least 1, is {pair!r}", where="--env")
        pairs.append((EnvironmentId(name), int(number)))
    return tuple(pairs)


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise ConfigError("names nothing", hint="a name, or several with commas between")
    return names


def _numbers(seeds: int, first: int) -> range:
    _positive("--seeds", seeds)
    if first < 0:
        raise ConfigError(f"must not be negative, is {first}", where="--first-seed")
    return range(first, first + seeds)


def _positive(flag: str, number: int) -> None:
    if number < 1:
        raise ConfigError(f"must be at least 1, is {number}", where=flag)


def _cores(processes: int | None) -> int:
    if processes is not None:
        _positive("--processes", processes)
    return processes or os.cpu_count() or 1
