"""The record of a trajectory, and where records come from: files of public traces, and journals of earlier runs."""

from headway.traces.journals import Scripts
from headway.traces.recorded import Recorded, read_traces
from headway.traces.script import Script, ScriptedAction, Step

__all__ = ["Recorded", "Script", "ScriptedAction", "Scripts", "Step", "read_traces"]
