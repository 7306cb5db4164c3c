"""The command line, and the composition root: the only place that picks classes for those who give names."""

from headway.cli.main import main

__all__ = ["main"]
