"""Model families: which layers a config stands for. One function per way of saying which layer is which.

A family is known by ``model_type``. A config without one is recognised by fields that only one family has.
What is neither is refused: a wrong guess would size a cache wrongly and tell nobody.
"""

from collections.abc import Callable, Mapping
from typing import NoReturn

from headway.core.units import Tokens
from headway.errors import ConfigError
from headway.hybrid import attentions, recurrences
from headway.hybrid.fields import Fields
from headway.hybrid.geometry import Layer, Layers, Recurrent

Reader = Callable[[Fields], tuple[Layers, ...]]


def _pair(full: Layer, full_count: int, other: Layer, other_count: int) -> tuple[Layers, ...]:
    both = (Layers(full_count, full), Layers(other_count, other))
    return tuple(layers for layers in both if layers.count)


def _attention(fields: Fields) -> Layer:
    return attentions.latent(fields) if fields.has("kv_lora_rank") else attentions.grouped_query(fields)


def _depth(fields: Fields) -> int:
    return fields.integer("num_hidden_layers")


_FULL = ("attention", "full_attention")
_MAMBA = ("mamba", "linear_attention")
"""Two spellings of one thing: a model's own config, and the same as recent transformers save it."""


def _count(fields: Fields, names: tuple[str, ...], *wanted: str) -> int | None:
    """How many entries of a per-layer list are one of ``wanted``; None when there is no list."""
    listed = fields.items(*names)
    return None if listed is None else sum(1 for entry in listed if entry in wanted)


def _dense(fields: Fields) -> tuple[Layers, ...]:
    """Plain attention in every layer, or in every layer a sliding window."""
    window = fields.integer("sliding_window", default=0) if fields.flag("use_sliding_window", default=True) else 0
    if window and not fields.has("layer_types"):
        start = fields.integer("max_window_layers", default=0)
        return _pair(
            attentions.grouped_query(fields),
            start,
            attentions.grouped_query(fields, window=window),
            _depth(fields) - start,
        )
    return _windowed(fields) if window else (Layers(_depth(fields), attentions.grouped_query(fields)),)


def _latent(fields: Fields) -> tuple[Layers, ...]:
    return (Layers(_depth(fields), attentions.latent(fields)),)


def _windowed(fields: Fields) -> tuple[Layers, ...]:
    """Full and sliding-window layers side by side, by ``layer_types``, a pattern of 0 and 1, or one in so many."""
    sliding = _count(fields, ("layer_types",), "sliding_attention")
    if sliding is None:
        pattern = fields.items("hybrid_layer_pattern")
        sliding = None if pattern is None else sum(1 for entry in pattern if entry == 1)
    if sliding is None:
        depth = _depth(fields)
        sliding = depth - depth // fields.integer("sliding_window_pattern", "layer_types")
    full = _depth(fields) - sliding
    if fields.has("swa_num_key_value_heads"):
        return _pair(attentions.grouped_query(fields), full, attentions.window_heads(fields), sliding)
    window = attentions.grouped_query(fields, window=fields.integer("sliding_window"))
    return _pair(attentions.global_heads(fields), full, window, sliding)


def _gated_delta_net(fields: Fields) -> tuple[Layers, ...]:
    depth = _depth(fields)
    full = _count(fields, ("layer_types",), "full_attention")
    if full is None:
        full = depth // fields.integer("full_attention_interval", "layer_types")
    return _pair(attentions.grouped_query(fields), full, recurrences.gated_delta_net(fields), depth - full)


def _kimi_delta(fields: Fields) -> tuple[Layers, ...]:
    """Kimi lists its full-attention layers; GLM and transformers say it in ``layer_types``."""
    depth = _depth(fields)
    inner = fields.group("linear_attn_config") or fields
    listed = inner.items("full_attn_layers")
    full = len(listed) if listed is not None else _not_linear(fields)
    return _pair(_attention(fields), full, recurrences.kimi_delta_attention(fields), depth - full)


def _not_linear(fields: Fields) -> int:
    linear = _count(fields, ("layer_types",), "linear_attention")
    if linear is None:
        raise ConfigError(
            "none of linear_attn_config.full_attn_layers, full_attn_layers, layer_types is there",
            where=fields.where,
            hint="add it, or describe the layers in an override file",
        )
    return _depth(fields) - linear


def _bailing(fields: Fields) -> tuple[Layers, ...]:
    """Full attention ends each group of ``layer_group_size`` layers, and fills the tail after the last whole one."""
    depth, size = _depth(fields), fields.integer("layer_group_size")
    full = depth // size + depth % size
    kda = fields.has("short_conv_kernel_size")
    recurrent = recurrences.kimi_delta_attention(fields) if kda else recurrences.lightning_attention(fields)
    return _pair(_attention(fields), full, recurrent, depth - full)


def _minimax(fields: Fields) -> tuple[Layers, ...]:
    """``attn_type_list``: 1 is softmax attention, 0 lightning."""
    depth = _depth(fields)
    kinds = fields.items("attn_type_list")
    if kinds is None:
        full = _count(fields, ("layer_types",), "full_attention")
        if full is None:
            raise ConfigError("none of attn_type_list, layer_types is there", where=fields.where)
    else:
        full = sum(1 for kind in kinds if kind == 1)
    return _pair(attentions.grouped_query(fields), full, recurrences.lightning_attention(fields), depth - full)


def _nemotron(fields: Fields) -> tuple[Layers, ...]:
    """A letter or a word per block: M or mamba, * or attention, and MLP or experts, which keep nothing."""
    pattern = fields.text("hybrid_override_pattern")
    if pattern is not None:
        mamba, full = pattern.count("M"), pattern.count("*")
    else:
        names = ("layers_block_type", "layer_types")
        found = _count(fields, names, *_MAMBA), _count(fields, names, *_FULL)
        if found[0] is None or found[1] is None:
            raise ConfigError("none of hybrid_override_pattern, layers_block_type is there", where=fields.where)
        mamba, full = found[0], found[1]
    return _pair(attentions.grouped_query(fields), full, recurrences.mamba2(fields), mamba)


def _falcon(fields: Fields) -> tuple[Layers, ...]:
    """Attention and Mamba2 side by side in every layer."""
    depth = _depth(fields)
    return _pair(attentions.grouped_query(fields), depth, recurrences.mamba2(fields), depth)


def _listed_mamba(fields: Fields) -> tuple[Layers, ...]:
    """Granite-4 lists every layer's kind; Bamba lists which ones are attention."""
    depth = _depth(fields)
    full = _count(fields, ("layer_types", "layers_block_type"), *_FULL)
    if full is None:
        indices = fields.items("attn_layer_indices")
        if indices is None:
            raise ConfigError("none of layer_types, attn_layer_indices is there", where=fields.where)
        full = len(indices)
    return _pair(attentions.grouped_query(fields), full, recurrences.mamba2(fields), depth - full)


def _zamba2(fields: Fields) -> tuple[Layers, ...]:
    """Mamba2 in every layer; in some, a shared attention block too, with a cache for each place it runs."""
    hybrid = fields.items("hybrid_layer_ids")
    full = len(hybrid) if hybrid is not None else _count(fields, ("layers_block_type",), "hybrid")
    if full is None:
        raise ConfigError("none of hybrid_layer_ids, layers_block_type is there", where=fields.where)
    depth = _depth(fields)
    return _pair(attentions.grouped_query(fields), full, recurrences.mamba2(fields), depth)


def _jamba(fields: Fields) -> tuple[Layers, ...]:
    depth = _depth(fields)
    period, offset = fields.integer("attn_layer_period"), fields.integer("attn_layer_offset")
    full = sum(1 for layer in range(depth) if layer % period == offset)
    return _pair(attentions.grouped_query(fields), full, recurrences.mamba1(fields), depth - full)


def _lfm2(fields: Fields) -> tuple[Layers, ...]:
    depth = _depth(fields)
    indices = fields.items("full_attn_idxs")
    full = len(indices) if indices is not None else _count(fields, ("layer_types",), "full_attention")
    if full is None:
        raise ConfigError("none of full_attn_idxs, layer_types is there", where=fields.where)
    return _pair(attentions.grouped_query(fields), full, recurrences.short_convolution(fields), depth - full)


def _gemma2(fields: Fields) -> tuple[Layers, ...]:
    """Sliding window in every other layer."""
    if fields.has("layer_types"):
        return _windowed(fields)
    depth = _depth(fields)
    window = attentions.grouped_query(fields, window=fields.integer("sliding_window"))
    return _pair(attentions.grouped_query(fields), depth // 2, window, depth - depth // 2)


def _shared_kv(reader: Reader) -> Reader:
    """Refuse models whose last layers borrow another layer's KV: how much that saves depends on the engine."""

    def read(fields: Fields) -> tuple[Layers, ...]:
        if fields.integer("num_kv_shared_layers", default=0):
            raise ConfigError(
                "num_kv_shared_layers is not supported",
                where=fields.where,
                hint="describe the layers that keep a cache in an override file",
            )
        return reader(fields)

    return read


_BY_TYPE: dict[str, tuple[str, Reader]] = {
    **dict.fromkeys(
        (
            *("llama", "mistral", "ministral", "mixtral", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "mimo"),
            *("qwen2_vl_text", "qwen2_5_vl_text", "qwen3_vl_text", "qwen3_vl_moe_text", "smollm3", "gemma"),
            *("glm", "glm4", "glm4_moe", "minimax_m2", "granite", "granitemoe", "phi3", "phi4", "olmo", "olmo2"),
            *("olmoe", "starcoder2", "internlm2", "internlm3", "ernie4_5", "ernie4_5_moe", "seed_oss"),
        ),
        ("dense", _dense),
    ),
    **dict.fromkeys(
        ("deepseek_v2", "deepseek_v3", "deepseek_v32", "kimi_k2", "kimi_k25", "glm_moe_dsa", "glm4_moe_lite"),
        ("mla", _latent),
    ),
    **dict.fromkeys(
        ("gpt_oss", "mimo_v2_flash", "gemma3", "gemma3_text", "olmo3", "cohere2", "exaone4"),
        ("sliding-window", _windowed),
    ),
    "gemma2": ("sliding-window", _gemma2),
    **dict.fromkeys(("gemma4", "gemma4_text"), ("sliding-window", _shared_kv(_windowed))),
    **dict.fromkeys(
        ("qwen3_next", "qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text"), ("gdn", _gated_delta_net)
    ),
    **dict.fromkeys(("kimi_linear", "kimi_k3", "glm5_next", "glm5_next_text"), ("kda", _kimi_delta)),
    **dict.fromkeys(
        ("bailing_hybrid", "bailing_moe_v3", "bailing_moe_v2_5", "bailing_moe_linear"), ("bailing", _bailing)
    ),
    **dict.fromkeys(
        ("minimax", "minimax_text_01", "minimax_text01", "minimax_m1", "MiniMaxText01", "MiniMaxM1"),
        ("lightning", _minimax),
    ),
    "nemotron_h": ("mamba2", _nemotron),
    "falcon_h1": ("mamba2", _falcon),
    **dict.fromkeys(("granitemoehybrid", "bamba"), ("mamba2", _listed_mamba)),
    "zamba2": ("mamba2", _zamba2),
    "jamba": ("mamba1", _jamba),
    **dict.fromkeys(("lfm2", "lfm2_moe"), ("shortconv", _lfm2)),
}

_BY_FIELDS: tuple[tuple[tuple[str, ...], str], ...] = (
    (("linear_num_key_heads",), "qwen3_next"),
    (("linear_attn_config",), "kimi_linear"),
    (("linear_num_heads",), "kimi_linear"),
    (("layer_group_size",), "bailing_hybrid"),
    (("attn_type_list",), "minimax"),
    (("mamba_num_heads", "ssm_state_size"), "nemotron_h"),
    (("n_mamba_heads",), "zamba2"),
    (("attn_layer_indices",), "bamba"),
    (("attn_layer_period",), "jamba"),
    (("conv_L_cache",), "lfm2"),
)


def _refuse(fields: Fields, kind: str | None) -> NoReturn:
    hybrid = ", ".join(sorted({name for names, _ in _BY_FIELDS for name in names}))
    what = "no model_type" if kind is None else f"model_type {kind!r} is not a family that can be sized"
    raise ConfigError(
        f"{what}; looked for model_type, then for one of {hybrid}",
        where=fields.where,
        hint="describe its layers in an override file",
    )


def layers_of(fields: Fields) -> tuple[str, tuple[Layers, ...]]:
    """The family's name and the layers of a config, or a `ConfigError` that says what was looked for."""
    kind = fields.text("model_type")
    known = kind
    if kind is None:
        known = next((name for names, name in _BY_FIELDS if all(fields.has(n) for n in names)), None)
    if known is None or known not in _BY_TYPE:
        _refuse(fields, kind)
    family, reader = _BY_TYPE[known]
    layers = reader(fields)
    if any(group.count < 1 for group in layers) or not layers:
        raise ConfigError("the layer counts contradict num_hidden_layers", where=fields.where)
    first = next((g.layer.family for g in layers if isinstance(g.layer, Recurrent)), family)
    return first, layers


def text_fields(config: Mapping[str, object], where: str) -> Fields:
    """The language model's own fields: multimodal configs nest them in ``text_config``."""
    fields = Fields(config, where)
    inner = fields.group("text_config") or fields.group("llm_config")
    return fields if inner is None or not inner.has("num_hidden_layers", "hidden_size") else inner


def max_context(fields: Fields) -> Tokens | None:
    """The longest sequence the model is made for, or None."""
    length = fields.integer("max_position_embeddings", default=0)
    return Tokens(length) if length else None
