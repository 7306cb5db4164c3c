"""``headway``: the commands, and what becomes of errors.

Exit codes: 0 fine; 1 something outside failed; 2 something you wrote can't be used; 130 interrupted.
"""

import sys
from typing import Annotated, cast

import typer

from headway.cli import control, engine, plan, report, run, simulate
from headway.cli.compose import Interrupted
from headway.errors import BoundaryError, ConfigError, HeadwayError
from headway.version import __version__

_UsageError = cast("type[typer.BadParameter]", typer.BadParameter.__base__)
"""What typer raises for flags and arguments that it can't read; it has no public name of its own."""

app = typer.Typer(
    name="headway",
    help="Finish batches of LLM-agent tasks sooner: inference and environments scheduled together.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
run.register(app)
report.register(app)
control.register(app)
engine.register(app)
plan.register(app)
simulate.register(app)


@app.command()
def version(*, as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Print the version."""
    print(f'{{"headway": "{__version__}"}}' if as_json else f"headway {__version__}")  # noqa: T201


def main() -> None:
    """Run a command; every error of yours or of the world outside is one line, not a stack trace."""
    sys.exit(_outcome(sys.argv[1:]))


def _outcome(arguments: list[str]) -> int:  # noqa: PLR0911 - one line for each kind of end
    try:
        done = app(arguments, standalone_mode=False)
    except _UsageError as error:
        return _complain(error.format_message().replace("\n", " "), 2)
    except ConfigError as error:
        return _complain(str(error), 2)
    except Interrupted as error:
        return _complain(str(error), 130)
    except BoundaryError as error:
        return _complain(str(error), 1)
    except HeadwayError as error:
        return _complain(f"{error} (this is a fault of Headway's: please report it)", 1)
    except (typer.Abort, KeyboardInterrupt):
        return _complain("interrupted", 130)
    except BrokenPipeError:
        return 1
    return done if isinstance(done, int) else 0


def _complain(what: str, code: int) -> int:
    print(f"headway: {what}", file=sys.stderr)  # noqa: T201
    return code
