"""``headway status`` and ``headway report``."""

from pathlib import Path
from typing import Annotated

import typer

from headway.cli.output import Json, emit_json, say

Run = Annotated[Path, typer.Argument(help="The journal of a run, running or over.")]


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command()(status)
    app.command()(report)


def status(run: Run, *, as_json: Json = False) -> None:
    """Say where a run stands; it may still be running."""
    from headway.views import summary, text

    known = summary.load(run)
    emit_json(known) if as_json else say(text.status(known))


def report(run: Run, *, as_json: Json = False) -> None:
    """Say where a run's time went: makespan, bound, phases, engines, environments, the slowest chains."""
    from headway.views import summary, text

    known = summary.load(run)
    emit_json(known) if as_json else say(text.report(known))
