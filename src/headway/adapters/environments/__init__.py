"""Where actions run: in this process, or as local processes behind a fence."""

from headway.adapters.environments.in_process import InProcess
from headway.adapters.environments.limits import Command, Completed, Limits
from headway.adapters.environments.place import Place
from headway.adapters.environments.sandbox import Sandbox

__all__ = ["Command", "Completed", "InProcess", "Limits", "Place", "Sandbox"]
