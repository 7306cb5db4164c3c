"""The virtual driver: the same machine and policies, with a clock, engines and environments that are modelled."""

from headway.drivers.simulate.driver import Recorder, Simulation
from headway.drivers.simulate.engine import ContinuousBatching, Totals
from headway.drivers.simulate.environment import EnvironmentModel
from headway.drivers.simulate.models import EngineModel, FixedCost

__all__ = [
    "ContinuousBatching",
    "EngineModel",
    "EnvironmentModel",
    "FixedCost",
    "Recorder",
    "Simulation",
    "Totals",
]
