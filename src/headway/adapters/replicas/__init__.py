"""Real engines on this machine, for trying things out: tiny hybrid models on vLLM's CPU build, one core each."""

from headway.adapters.replicas.fleet import BASE_PORT, down, listed, up
from headway.adapters.replicas.models import BLOCK_TOKENS, DEFAULT, MODELS, config
from headway.adapters.replicas.record import Replica

__all__ = ["BASE_PORT", "BLOCK_TOKENS", "DEFAULT", "MODELS", "Replica", "config", "down", "listed", "up"]
