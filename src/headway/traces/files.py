"""Trace files: reading and writing, whatever they are packed in. Both stream: memory does not grow with the file."""

import os
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from headway.errors import ConfigError
from headway.traces import checks, lines
from headway.traces.foreign import not_ours
from headway.traces.format import VERSION, Counts, Recorded, Trace

PARQUET = ".parquet"
SUFFIXES = (".jsonl", ".jsonl.gz", PARQUET)


def read(path: str | os.PathLike[str], *, untimed: bool = False) -> tuple[Trace, Iterator[Recorded]]:
    """Read a trace: its header at once, its trajectories one by one.

    Without ``untimed`` an action that nobody measured is an error: no makespan may be claimed without it.

    Raises: ``ConfigError``, here or from the iterator: the file, the line, what is wrong, what to do.
    """
    file = Path(path)
    header, found = _parquet(file) if file.suffix == PARQUET else _lines(file)
    if header.version != VERSION:
        raise ConfigError(
            f"is a trace of version {header.version}; this Headway reads version {VERSION}",
            where=str(file),
            hint="use the version of Headway that made it",
        )
    if header.counts.untimed and not untimed:
        raise _no_duration(f"{header.counts.untimed} of {header.counts.actions} actions have no duration", str(file))
    return header, _checked(found, untimed=untimed)


def write(path: str | os.PathLike[str], header: Trace, trajectories: Iterable[Recorded]) -> Trace:
    """Write a trace, whole or not at all; the file's name says how: ``.jsonl``, ``.jsonl.gz`` or ``.parquet``.

    Returns the header as written: with its counts, and with a label if durations are assumed.
    Raises: ``ConfigError`` where it can't be written, or a trajectory can't be true.
    """
    target = Path(path)
    suffix = next((s for s in SUFFIXES if target.name.endswith(s)), None)
    if suffix is None:
        raise ConfigError(f"must end in {', '.join(SUFFIXES)}", where=str(target))
    tally = _Tally()
    done = header

    def at_last() -> Trace:
        nonlocal done
        done = tally.filled_in(header)
        return done

    counted = tally.over(_checked((("", trajectory) for trajectory in trajectories), untimed=True))
    try:
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}-") as folder:
            whole = Path(folder) / target.name
            if suffix == PARQUET:
                from headway.traces import parquet

                parquet.write(whole, counted, at_last)
            else:
                lines.write(whole, counted, at_last)
            with whole.open("rb+") as stream:
                os.fsync(stream.fileno())
            whole.replace(target)
    except OSError as error:
        raise ConfigError(f"can't be written: {error.strerror or error}", where=str(target)) from error
    return done


def new_header(source: str, **more: object) -> Trace:
    """Make the header of a trace that is made now."""
    return Trace(version=VERSION, source=source, made=datetime.now(UTC).isoformat(timespec="seconds"), **more)  # type: ignore[arg-type]  # fields by name


@dataclass(slots=True)
class _Tally:
    """Counts what passes by."""

    trajectories: int = 0
    turns: int = 0
    estimated: int = 0
    actions: int = 0
    untimed: int = 0
    tags: Counter[str] = field(default_factory=Counter[str])

    def over(self, found: Iterable[Recorded]) -> Iterator[Recorded]:
        for trajectory in found:
            self.trajectories += 1
            self.turns += len(trajectory.turns)
            self.estimated += sum(turn.lengths != "measured" for turn in trajectory.turns)
            for action in trajectory.actions():
                self.actions += 1
                if action.service_s is None:
                    self.untimed += 1
                else:
                    self.tags[action.tag] += 1
            yield trajectory

    def filled_in(self, header: Trace) -> Trace:
        counts = Counts(
            trajectories=self.trajectories,
            turns=self.turns,
            actions=self.actions,
            derived=self.tags["derived"],
            assumed=self.tags["assumed"],
            untimed=self.untimed,
            estimated=self.estimated,
        )
        label = ""
        if counts.assumed:
            by = f" ({header.assume})" if header.assume else ""
            label = f"{counts.assumed} of {counts.actions} action times assumed{by}, not measured"
        return msgspec.structs.replace(header, counts=counts, label=label)


def _checked(found: Iterable[tuple[str, Recorded]], *, untimed: bool) -> Iterator[Recorded]:
    names = set[str]()
    for where, trajectory in found:
        place = where or f"trajectory {trajectory.id!r}"
        if trajectory.id in names:
            raise ConfigError(f"the trajectory {trajectory.id!r} comes twice", where=where, hint="ids must be unique")
        names.add(trajectory.id)
        said = checks.wrong(trajectory)
        if said is not None:
            raise ConfigError(f"can't be true: {said}", where=place, hint="make it again, or delete this trajectory")
        said = None if untimed else checks.untimed(trajectory)
        if said is not None:
            raise _no_duration(said, place)
        yield trajectory


def _no_duration(what: str, where: str) -> ConfigError:
    hint = "no makespan may be claimed without: import it with --assume DISTRIBUTION, which becomes its label"
    return ConfigError(what, where=where, hint=hint)


def _lines(file: Path) -> tuple[Trace, Iterator[tuple[str, Recorded]]]:
    try:
        return lines.head(file), lines.trajectories(file)
    except msgspec.MsgspecError as error:
        if lines.is_ours(file):
            raise ConfigError(f"its header can't be read: {error}", where=f"{file}, line 1") from error
        raise not_ours(file) from error


def _parquet(file: Path) -> tuple[Trace, Iterator[tuple[str, Recorded]]]:
    from headway.traces import parquet

    return parquet.head(file), parquet.trajectories(file)
