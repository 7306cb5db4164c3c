"""What a file is that is not a trace, as far as its name and its beginning tell."""

from pathlib import Path

from headway.errors import ConfigError


def not_ours(file: Path) -> ConfigError:
    """The error for a file that is no trace: what it seems to be, and what makes a trace of it."""
    return ConfigError(
        "is not a Headway trace", where=str(file), hint="headway import FILE -o TRACE.jsonl may know its format"
    )
