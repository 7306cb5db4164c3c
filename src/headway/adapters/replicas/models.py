"""Tiny models, made on the spot in the engine's environment and kept by what they were made from."""

import hashlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from headway.adapters.replicas import make_model, venv
from headway.adapters.replicas.places import Announce, cache, locked
from headway.errors import BoundaryError, ConfigError

DEFAULT = "tiny-qwen3-next"
MODELS = tuple(make_model.RECIPES)
"""What ``up`` can make; a directory with a model of your own will do as well."""

BLOCK_TOKENS = 256
"""Block size that all of ``MODELS`` are shaped for; it must be *given* to vLLM 0.32 on CPUs.

Left to itself, the engine's worker settles on 256 for these models, but its scheduler goes on cutting prompts at
128: recurrent states are then saved at places where nobody looks, and half of all prefix hits are lost.
"""


def flags(model: str) -> tuple[str, ...]:
    """Return what vLLM must be told about a model that ``ensure`` made; nothing for a model of your own."""
    return ("--block-size", str(BLOCK_TOKENS)) if model in MODELS else ()


def config(model: str) -> dict[str, Any]:
    """Return what sizes the cache in the ``config.json`` of a model of ``MODELS``, made or not."""
    family, settings = make_model.RECIPES[model]
    return {
        "model_type": _TYPES[family],
        "vocab_size": make_model.VOCABULARY,
        "max_position_embeddings": make_model.CONTEXT,
        "dtype": "bfloat16",
        **_IMPLIED[family],
        **settings,
    }


_TYPES = {"Qwen3Next": "qwen3_next", "GraniteMoeHybrid": "granitemoehybrid"}
_IMPLIED: dict[str, dict[str, Any]] = {
    "Qwen3Next": {"full_attention_interval": 4, "linear_conv_kernel_dim": 4},
    "GraniteMoeHybrid": {"mamba_d_conv": 4},
}
"""What transformers fills in."""


def ensure(model: str, root: Path, announce: Announce) -> Path:
    """Return the directory of ``model``, made first if need be with the environment in ``root``.

    Raises: ``ConfigError`` (no such model), ``BoundaryError`` (it can't be made).
    """
    own = Path(model)
    if (own / "config.json").is_file():
        return own.resolve()
    if model not in MODELS:
        raise ConfigError(
            f"no such model: {model!r}", where="--model", hint=f"one of {', '.join(MODELS)}, or a directory with one"
        )
    script = Path(make_model.__file__)
    home = cache() / "models" / f"{model}-{_digest(model, script)}"
    with locked(home.parent / f"{home.name}.lock"):
        if not home.is_dir():
            announce(f"making the model {model} in {home}")
            _make(model, script, root, home)
    return home


def _digest(model: str, script: Path) -> str:
    return hashlib.sha256(f"{venv.VERSION}\0{model}\0".encode() + script.read_bytes()).hexdigest()[:12]


def _make(model: str, script: Path, root: Path, home: Path) -> None:
    draft = home.with_name(f"{home.name}.making")
    shutil.rmtree(draft, ignore_errors=True)
    done = subprocess.run(
        [str(venv.python(root)), "-I", str(script), model, str(draft)],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
    )
    if done.returncode:
        raise BoundaryError(f"could not make the model {model}:\n{venv.last_lines(done.stderr, 8)}")
    draft.replace(home)
