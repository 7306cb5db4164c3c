"""Adapters: one outside thing each, behind a Protocol of ``headway.ports``."""
