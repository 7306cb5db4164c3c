"""The attention layer of each family, from config fields to shapes."""

from headway.core.units import Tokens
from headway.hybrid.fields import Fields
from headway.hybrid.geometry import Heads, Latent


def grouped_query(fields: Fields, *, window: int | None = None) -> Heads:
    """Multi-head, grouped-query or multi-query attention."""
    heads = fields.integer("num_attention_heads")
    if fields.has("head_dim", "attention_head_dim"):
        key_dim = fields.integer("head_dim", "attention_head_dim")
    else:
        key_dim = fields.integer("hidden_size") // heads
    return Heads(
        query_heads=heads,
        kv_heads=fields.integer("num_key_value_heads", default=heads),
        key_dim=key_dim,
        value_dim=fields.integer("v_head_dim", default=key_dim),
        window=None if window is None else Tokens(window),
    )


def global_heads(fields: Fields) -> Heads:
    """Gemma 4's full-attention layers, which have heads of their own."""
    local = grouped_query(fields)
    dim = fields.integer("global_head_dim", default=local.key_dim)
    kv_heads = fields.integer("num_global_key_value_heads", default=local.kv_heads)
    return Heads(query_heads=local.query_heads, kv_heads=kv_heads, key_dim=dim, value_dim=dim)


def window_heads(fields: Fields) -> Heads:
    """MiMo-V2's sliding-window layers, which have heads of their own."""
    heads = fields.integer("swa_num_attention_heads", "num_attention_heads")
    key_dim = fields.integer("swa_head_dim", "head_dim")
    return Heads(
        query_heads=heads,
        kv_heads=fields.integer("swa_num_key_value_heads", "num_key_value_heads"),
        key_dim=key_dim,
        value_dim=fields.integer("swa_v_head_dim", "v_head_dim", default=key_dim),
        window=Tokens(fields.integer("sliding_window")),
    )


def latent(fields: Fields) -> Latent:
    """Multi-head latent attention, with the key index of sparse attention where there is one.

    The index keeps an fp8 key per token and a 4-byte scale per 128 of its elements; ``index_kpool`` tokens
    share one (SGLang's indexer cell size).
    """
    index = 0
    if fields.has("index_head_dim"):
        dim = fields.integer("index_head_dim")
        index = -(-(dim + 4 * -(-dim // 128)) // fields.integer("index_kpool", default=1))
    return Latent(
        query_heads=fields.integer("num_attention_heads"),
        rank=fields.integer("kv_lora_rank"),
        rope_dim=fields.integer("qk_rope_head_dim"),
        index_bytes=index,
    )
