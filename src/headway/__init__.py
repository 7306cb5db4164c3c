"""Headway finishes batches of LLM-agent tasks sooner."""

__version__ = "0.1.0"
