"""From a config to an `Architecture`: the package's entrance for models. Reads mappings and text, never files."""

from collections.abc import Mapping
from typing import cast

import msgspec

from headway.errors import ConfigError
from headway.hybrid import attention_models, hybrid_models, parameters
from headway.hybrid.families import layers_of, max_context, text_fields
from headway.hybrid.geometry import DTYPE_BYTES, Architecture, dtype_bytes

BUILT_IN = hybrid_models.MODELS + attention_models.MODELS
"""Models known by name, with their sources."""


def from_config(config: Mapping[str, object], *, name: str = "", source: str = "") -> Architecture:
    """The architecture of a Hugging Face ``config.json``, already parsed.

    Raises:
        ConfigError: a family that can't be sized, or a field that is missing or makes no sense.
    """
    where = name or "config.json"
    fields = text_fields(config, where)
    family, layers = layers_of(fields)
    dtype = fields.text("dtype", "torch_dtype") or "bfloat16"
    dtype_bytes(dtype, where=f"{where}, dtype")
    state = fields.text("mamba_ssm_dtype", "mamba_ssm_cache_dtype")
    return Architecture(
        name=name or "model",
        family=family,
        layers=layers,
        dtype=dtype.removeprefix("torch."),
        state_dtype=None if state in {None, "auto"} else state,
        max_context=max_context(fields),
        parameters=parameters.estimate(fields, layers),
        source=source,
    )


def from_json(text: bytes | str, *, name: str = "", source: str = "") -> Architecture:
    """The architecture of a ``config.json``'s text, or of an override file's.

    An override file is an `Architecture` in JSON: ``name``, ``family`` and ``layers``, each of them with a
    ``count`` and a ``layer`` of kind ``gqa``, ``mla`` or ``recurrent``. It is told by its ``layers``.
    """
    where = name or "config"
    try:
        parsed = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise ConfigError(f"not JSON: {error}", where=where) from error
    if not isinstance(parsed, dict):
        raise ConfigError("not a JSON object", where=where)
    if isinstance(parsed.get("layers"), list):
        return _override(cast("dict[str, object]", parsed), where)
    return from_config(cast("dict[str, object]", parsed), name=name, source=source)


def _override(values: dict[str, object], where: str) -> Architecture:
    try:
        found = msgspec.convert(values, Architecture)
    except msgspec.ValidationError as error:
        raise ConfigError(str(error), where=where, hint="see docs/resource-model.md for the override file") from error
    if not found.layers or any(group.count < 1 for group in found.layers):
        raise ConfigError("layers: every entry needs a count of 1 or more", where=where)
    for dtype in (found.dtype, found.state_dtype):
        if dtype is not None and dtype not in DTYPE_BYTES:
            raise ConfigError(f"unknown dtype {dtype!r}", where=where, hint=f"use one of {', '.join(DTYPE_BYTES)}")
    return found


def named(name: str) -> Architecture:
    """A model of the built-in table, by its full name or the part after the slash, in any case."""
    wanted = name.lower()
    for entry in BUILT_IN:
        if wanted in {entry.name.lower(), entry.name.lower().rpartition("/")[2]}:
            found = from_config(entry.config, name=entry.name, source=entry.source)
            return msgspec.structs.replace(found, note=entry.note)
    known = ", ".join(entry.name for entry in BUILT_IN)
    raise ConfigError(
        f"{name!r} is neither a file nor a built-in model",
        where="CONFIG",
        hint=f"give a config.json or one of {known}",
    )
