"""Settings: read from TOML and flags once, checked, and frozen. Nothing below the command line looks for them itself.

Every problem is one line: where (file and key), what, and what to do. Secrets are never settings: an engine's key is
named by the environment variable that holds it, and a URL with a password in it is refused.
"""

from headway.config.settings import (
    KINDS,
    EngineSettings,
    EnvironmentSettings,
    ResidencySettings,
    RetrySettings,
    Settings,
    TimeoutSettings,
    load,
)

__all__ = [
    "KINDS",
    "EngineSettings",
    "EnvironmentSettings",
    "ResidencySettings",
    "RetrySettings",
    "Settings",
    "TimeoutSettings",
    "load",
]
