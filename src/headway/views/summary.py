"""Everything that a report says of one run, as plain values: the snapshot, the bounds, and what the run was."""

import os
from typing import Literal

import msgspec

from headway import journal
from headway.core.bounds import Term, of_run
from headway.core.progress import Progress, Snapshot, TurnSample, snapshot
from headway.core.units import Nanos, seconds
from headway.latency import Fit, fit

_MOST_TURNS = 200_000  # that a fit looks at: of longer runs, the first so many

Standing = Literal["finished", "running", "stopped"]


class BoundSnapshot(msgspec.Struct, frozen=True):
    """One lower bound on the makespan. ``kind``: CP, ENV or LLM; ``of``: which trajectory or environment."""

    kind: str
    of: str
    value_s: float
    estimate: bool


class FitSnapshot(msgspec.Struct, frozen=True):
    """The latency model that fits the run's turns: seconds per step, sequence, context token and prompt token."""

    base_s: float
    per_sequence_s: float
    per_token_s: float
    prefill_s: float
    turns: int
    median_error: float
    mean_error: float


class Summary(msgspec.Struct, frozen=True):
    """One run. ``bounds``: largest first, over the samples that are done.

    ``binding`` is the one that counts: the largest that does not exceed the makespan; an estimate that does exceed it
    shows that the fit is off (``fit_is_off``). ``makespan_over_bound`` is None until the batch is complete.
    ``standing``: finished; running, by ``process``; or stopped, to be resumed.
    """

    run: str
    policy: str
    standing: Standing
    process: int | None
    settings: dict[str, object]
    source: dict[str, object]
    versions: dict[str, str]
    batch: Snapshot
    bounds: list[BoundSnapshot]
    binding: BoundSnapshot | None
    makespan_over_bound: float | None
    fit: FitSnapshot | None
    fit_is_off: bool


def load(path: str | os.PathLike[str], *, chains: int = 10) -> Summary:
    """Read a run, finished or not, and draw up its summary. Raises: ``ConfigError``."""
    process = journal.owner(path)  # before reading: if it ends meanwhile, we say less than is true, not more
    header, rows = journal.read(path)
    turns: list[TurnSample] = []
    progress = Progress(lambda turn: turns.append(turn) if len(turns) < _MOST_TURNS else None)
    for _, fact, commands in rows:
        progress.apply(fact, commands)
    return summarise(os.fspath(path), header, progress, found=fit(turns), process=process, chains=chains)


def summarise(
    run: str,
    header: journal.Header,
    progress: Progress,
    *,
    found: Fit | None = None,
    process: int | None = None,
    now: Nanos | None = None,
    chains: int = 10,
) -> Summary:
    """Draw up the summary of a batch; ``found``: a latency model fitted to it, for the engines' bound."""
    batch = snapshot(progress, now=now, chains=chains)
    bounds = [_bound(term) for term in of_run(progress, found.model if found else None)]
    makespan = batch.makespan_s or 0.0
    credible = [bound for bound in bounds if not (bound.estimate and batch.complete and bound.value_s > makespan)]
    binding = credible[0] if credible else None
    standing: Standing = "finished" if batch.complete else "stopped" if process is None else "running"
    ratio = makespan / binding.value_s if batch.complete and binding and binding.value_s else None
    return Summary(
        run=run,
        policy=header.policy,
        standing=standing,
        process=process,
        settings=header.settings,
        source=header.source,
        versions=header.versions,
        batch=batch,
        bounds=bounds,
        binding=binding,
        makespan_over_bound=ratio,
        fit=_fit(found),
        fit_is_off=len(credible) < len(bounds),
    )


def _bound(term: Term) -> BoundSnapshot:
    return BoundSnapshot(term.kind, term.of, seconds(term.value), term.estimate)


def _fit(found: Fit | None) -> FitSnapshot | None:
    if found is None:
        return None
    model = found.model
    return FitSnapshot(
        model.base,
        model.per_sequence,
        model.per_token,
        model.prefill,
        found.turns,
        found.median_error,
        found.mean_error,
    )
