"""How many weights a model has, from its config's fields. An estimate: the time model needs no better.

Norms, biases, routers and low-rank gates are left out; published totals are met within a tenth.
"""

import math
from typing import assert_never

from headway.hybrid.fields import Fields
from headway.hybrid.geometry import Heads, Latent, Layers, Parameters, Recurrent


def _attention(layer: Heads | Latent, fields: Fields, hidden: int) -> int:
    if isinstance(layer, Heads):
        doubled = 2 if fields.flag("attn_output_gate") or fields.text("model_type") == "qwen3_next" else 1
        queries = layer.query_heads * layer.key_dim * doubled
        keys = layer.kv_heads * (layer.key_dim + layer.value_dim)
        return hidden * (queries + keys + layer.query_heads * layer.value_dim)
    nope = fields.integer("qk_nope_head_dim", default=128)
    value = fields.integer("v_head_dim", default=128)
    query_rank = fields.integer("q_lora_rank", default=0)
    query = layer.query_heads * (nope + layer.rope_dim)
    queries = (hidden + query) * query_rank if query_rank else hidden * query
    down = hidden * (layer.rank + layer.rope_dim)
    up = layer.rank * layer.query_heads * (nope + value)
    return queries + down + up + layer.query_heads * value * hidden


def _recurrent(layer: Recurrent, hidden: int) -> int:
    """Into the convolution's channels and a gate as wide as the output, and back."""
    match layer.family:
        case "gdn":
            value = layer.units * _root(layer.unit_elements)
            return hidden * (layer.channels + 2 * value)
        case "kda":
            value = layer.channels // 3
            return hidden * (layer.channels + 2 * value)
        case "lightning":
            return 5 * hidden * layer.units * _root(layer.unit_elements)
        case "mamba2":
            return hidden * (3 * layer.channels + layer.groups * layer.group_channels + layer.units)
        case "mamba1":
            return 3 * hidden * layer.channels
        case "shortconv":
            return 4 * hidden * layer.channels
        case _:
            assert_never(layer.family)


def _root(square: int) -> int:
    return math.isqrt(square)


def _expert_layers(fields: Fields, depth: int) -> int:
    pattern = fields.text("hybrid_override_pattern")
    if pattern is not None:
        return pattern.count("E")
    blocks = fields.items("layers_block_type")
    if blocks is not None:
        return sum(1 for block in blocks if block == "moe")
    return max(0, depth - fields.integer("first_k_dense_replace", default=0))


def _dense_layers(fields: Fields, depth: int, moe: int) -> int:
    pattern = fields.text("hybrid_override_pattern")
    if pattern is not None:
        return pattern.count("-")
    if fields.has("layers_block_type"):
        return 0
    return depth - moe


def estimate(fields: Fields, layers: tuple[Layers, ...]) -> Parameters | None:
    """The parameters of a model, or None when its config doesn't say how wide it is."""
    if not fields.has("hidden_size") or not fields.has("intermediate_size", "moe_intermediate_size"):
        return None
    hidden = fields.integer("hidden_size")
    depth = fields.integer("num_hidden_layers", default=sum(group.count for group in layers))
    mixers = sum(
        group.count
        * (
            _recurrent(group.layer, hidden)
            if isinstance(group.layer, Recurrent)
            else _attention(group.layer, fields, hidden)
        )
        for group in layers
    )
    matrices = 2 if fields.text("model_type") == "nemotron_h" or fields.has("ssm_state_size") else 3
    names = ("num_experts", "n_routed_experts", "num_local_experts")
    experts = fields.integer(*names, default=0)
    moe = _expert_layers(fields, depth) if experts else 0
    wide = fields.integer("intermediate_size", default=0)
    inner = fields.integer("moe_intermediate_size", "intermediate_size")
    expert_hidden = fields.integer("moe_latent_size", "routed_expert_hidden_size", default=hidden)
    shared = fields.integer(
        "shared_expert_intermediate_size",
        "moe_shared_expert_intermediate_size",
        default=inner * fields.integer("num_shared_experts", "n_shared_experts", default=0),
    )
    mlp = matrices * hidden * (wide * _dense_layers(fields, depth, moe) + shared * moe)
    embedding = fields.integer("vocab_size", default=0) * hidden * (1 if fields.flag("tie_word_embeddings") else 2)
    return Parameters(
        dense=mixers + mlp + embedding,
        routed=matrices * expert_hidden * inner * experts * moe,
        experts=max(1, experts),
        experts_per_token=fields.integer("num_experts_per_tok", "num_experts_per_token", "top_k_experts", default=1)
        if experts
        else 1,
    )
