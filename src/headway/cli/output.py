"""What commands print: JSON on request, else text."""

import sys
import time
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


class Countdown:
    """Says how far long work is and how long it may still take: on one line of a terminal, else at every tenth."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    def __call__(self, done: int, total: int, what: str) -> None:
        """``done`` of ``total`` pieces are done, ``what`` was the last one."""
        text = f"{done}/{total}  {what}{self._left(done, total)}"
        if sys.stderr.isatty():
            sys.stderr.write(f"\r{text:<72.72}" + ("\n" if done == total else ""))
            sys.stderr.flush()
        elif done == total or done * 10 // total > (done - 1) * 10 // total:
            note(text)

    def _left(self, done: int, total: int) -> str:
        if done == total:
            return ""
        left = (time.monotonic() - self._began) / done * (total - done)
        return f"  (about {left:.0f} s left)" if left < 90 else f"  (about {left / 60:.0f} min left)"
