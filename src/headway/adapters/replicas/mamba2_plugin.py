"""A vLLM plugin that makes Mamba2 models run with prefix caching, as a package of two files.

vLLM 0.32 asks Mamba2 layers for a state at any token position when prefix caching is on; on CPUs the layer then
reads past its block table. The layer's base class asks for states at block boundaries only, which works.
"""

from pathlib import Path

NAME = "headway_vllm_mamba2"

_MODULE = '''"""Give MambaMixer2 its base class's cache layout."""


def register() -> None:
    from vllm.model_executor.layers.mamba.abstract import MambaBase
    from vllm.model_executor.layers.mamba.mamba_mixer2 import MambaMixer2

    MambaMixer2.get_kv_cache_spec = MambaBase.get_kv_cache_spec
'''
_METADATA = f"Metadata-Version: 2.1\nName: {NAME.replace('_', '-')}\nVersion: 1.0\n"
_ENTRY_POINTS = f"[vllm.general_plugins]\n{NAME} = {NAME}:register\n"


def install(site: Path) -> None:
    """Write the plugin into a site-packages directory. Idempotent."""
    metadata = site / f"{NAME}-1.0.dist-info"
    metadata.mkdir(exist_ok=True)
    (site / f"{NAME}.py").write_text(_MODULE, "utf-8")
    (metadata / "METADATA").write_text(_METADATA, "utf-8")
    (metadata / "entry_points.txt").write_text(_ENTRY_POINTS, "utf-8")
