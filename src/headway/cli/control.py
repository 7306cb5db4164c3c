"""``headway control``: steer a batch that runs in another process."""

import functools
from pathlib import Path
from typing import Annotated

import anyio
import typer

from headway.adapters.control import Order, Verb, send
from headway.cli.output import Json, emit_json, say

_control = typer.Typer(help="Steer a batch that runs in another process.", no_args_is_help=True)
Run = Annotated[Path, typer.Argument(help="The journal of the running batch.")]


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.add_typer(_control, name="control")


def _order(run: Path, verb: Verb, argument: str, *, as_json: bool) -> None:
    anyio.run(functools.partial(send, run, Order(verb, argument)))
    emit_json({"done": verb, "argument": argument}) if as_json else say("done")


@_control.command()
def pause(run: Run, *, as_json: Json = False) -> None:
    """Start nothing new; what runs goes on."""
    _order(run, "pause", "", as_json=as_json)


@_control.command("continue")
def go_on(run: Run, *, as_json: Json = False) -> None:
    """Go on after a pause."""
    _order(run, "resume", "", as_json=as_json)


@_control.command()
def cancel(run: Run, sample: Annotated[str, typer.Argument(help="The sample's id.")], *, as_json: Json = False) -> None:
    """Give up one sample."""
    _order(run, "cancel", sample, as_json=as_json)


@_control.command()
def slots(run: Run, change: Annotated[str, typer.Argument(help="NAME=N")], *, as_json: Json = False) -> None:
    """Change the slots of an environment."""
    _order(run, "slots", change, as_json=as_json)


@_control.command()
def concurrency(
    run: Run, live: Annotated[str, typer.Argument(help="A number, or none.")], *, as_json: Json = False
) -> None:
    """Change how many trajectories may be live."""
    _order(run, "concurrency", live, as_json=as_json)
