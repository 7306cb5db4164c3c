"""What commands print: JSON on request, else text."""

import sys
from typing import Annotated

import msgspec
import typer

Json = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]


def emit_json(value: object) -> None:
    """Print a value as one indented JSON document."""
    say(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def say(text: str) -> None:
    """Print to standard output."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def note(text: str) -> None:
    """Tell how it goes, on standard error."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()
