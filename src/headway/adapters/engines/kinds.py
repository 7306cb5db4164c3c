"""The kinds of engine that Headway knows, and how to tell them apart."""

from collections.abc import Mapping
from typing import Any

from headway.adapters.engines.dialect import Dialect
from headway.adapters.engines.llamacpp import LlamaCpp
from headway.adapters.engines.openai import Plain
from headway.adapters.engines.sglang import SGLang
from headway.adapters.engines.vllm import Vllm

DIALECTS: Mapping[str, Dialect] = {d.kind: d for d in (Vllm(), SGLang(), LlamaCpp(), Plain())}
"""By the name that ``--engine-kind`` takes."""


def recognise(model: Mapping[str, Any]) -> str:
    """Tell the kind from an entry of ``/v1/models``: each engine signs it as its owner. Unsigned: ``openai``."""
    owner = str(model.get("owned_by", "")).lower().replace(".", "").replace("-", "")
    return owner if owner in DIALECTS else "openai"
