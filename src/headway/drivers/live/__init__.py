"""Real clock, real engines, real environments. One task owns the machine; every other only reports facts."""

from headway.drivers.live.asked import Service
from headway.drivers.live.coordinator import Agent, Coordinator, Ports
from headway.drivers.live.engines import NoEngineError, Watch
from headway.drivers.live.occupy import let_go, occupy

__all__ = ["Agent", "Coordinator", "NoEngineError", "Ports", "Service", "Watch", "let_go", "occupy"]
