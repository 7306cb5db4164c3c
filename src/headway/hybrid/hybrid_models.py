"""Geometry facts of models with recurrent layers: the fields of their public configs that memory depends on.

A fact's source is beside it. What a note calls assumed was not on the model's card: check it before you trust it.
"""

from headway.hybrid.catalogue import Entry, experts, hub


def _qwen35(name: str, depth: int, hidden: int, heads: tuple[int, int, int], /, **rest: object) -> Entry:
    return hub(
        name,
        model_type="qwen3_5_text",
        num_hidden_layers=depth,
        hidden_size=hidden,
        num_attention_heads=heads[0],
        num_key_value_heads=heads[1],
        head_dim=256,
        full_attention_interval=4,
        attn_output_gate=True,
        linear_num_key_heads=16,
        linear_num_value_heads=heads[2],
        linear_key_head_dim=128,
        linear_value_head_dim=128,
        linear_conv_kernel_dim=4,
        mamba_ssm_dtype="float32",
        dtype="bfloat16",
        vocab_size=248320,
        max_position_embeddings=262144,
        **rest,
    )


def _nemotron(name: str, hidden: int, mamba_heads: int, /, **rest: object) -> Entry:
    return hub(
        name,
        **{
            "model_type": "nemotron_h",
            "hidden_size": hidden,
            "num_attention_heads": 32,
            "num_key_value_heads": 2,
            "head_dim": 128,
            "mamba_num_heads": mamba_heads,
            "mamba_head_dim": 64,
            "ssm_state_size": 128,
            "n_groups": 8,
            "conv_kernel": 4,
            "mamba_ssm_cache_dtype": "float32",
            "dtype": "bfloat16",
            "vocab_size": 131072,
            "max_position_embeddings": 262144,
            **rest,
        },
    )


def _ling(name: str, depth: int, group: int, heads: int, hidden: int, note: str, /, **rest: object) -> Entry:
    config = {
        "model_type": "bailing_hybrid",
        "num_hidden_layers": depth,
        "layer_group_size": group,
        "num_attention_heads": heads,
        "head_dim": 128,
        "kv_lora_rank": 512,
        "qk_rope_head_dim": 64,
        "short_conv_kernel_size": 4,
        "hidden_size": hidden,
        "vocab_size": 157184,
        "dtype": "bfloat16",
        **rest,
    }
    return Entry(name, config, f"transformers 5.24 bailing_hybrid defaults and the card of huggingface.co/{name}", note)


_NANO = "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME"
_SUPER = "MEMEMEM*" + "EMEMEMEM*" * 2 + "EMEMEMEMEM*" * 4 + "EMEMEMEM*" + "EMEMEMEME"
_H56 = "M-M-M-M*" + "-M-M-M-M-M*" * 9 + "-M-M-M-M-M-"
_ULTRA = ("mamba", "attention", "moe")

MODELS: tuple[Entry, ...] = (
    _qwen35("Qwen/Qwen3.5-27B", 64, 5120, (24, 4, 48), intermediate_size=17408),
    _qwen35("Qwen/Qwen3.5-35B-A3B", 40, 2048, (16, 2, 32), **experts(256, 8, 512, shared_expert_intermediate_size=512)),
    _qwen35(
        "Qwen/Qwen3.5-122B-A10B", 48, 3072, (32, 2, 64), **experts(256, 8, 1024, shared_expert_intermediate_size=1024)
    ),
    _qwen35(
        "Qwen/Qwen3.5-397B-A17B", 60, 4096, (32, 2, 64), **experts(512, 10, 1024, shared_expert_intermediate_size=1024)
    ),
    Entry(
        "Qwen/Qwen3-Next-80B-A3B-Instruct",
        {
            "model_type": "qwen3_next",
            "num_hidden_layers": 48,
            "hidden_size": 2048,
            "num_attention_heads": 16,
            "num_key_value_heads": 2,
            "head_dim": 256,
            "full_attention_interval": 4,
            "linear_num_key_heads": 16,
            "linear_num_value_heads": 32,
            "linear_key_head_dim": 128,
            "linear_value_head_dim": 128,
            "linear_conv_kernel_dim": 4,
            "vocab_size": 151936,
            **experts(512, 10, 512, shared_expert_intermediate_size=512),
        },
        "transformers 5.24 configuration_qwen3_next.py, whose defaults are this checkpoint",
    ),
    Entry(
        "moonshotai/Kimi-Linear-48B-A3B-Instruct",
        {
            "model_type": "kimi_linear",
            "num_hidden_layers": 27,
            "hidden_size": 2304,
            "num_attention_heads": 32,
            "kv_lora_rank": 512,
            "qk_rope_head_dim": 64,
            "linear_num_heads": 32,
            "linear_head_dim": 128,
            "linear_conv_kernel_dim": 4,
            "full_attn_layers": [4, 8, 12, 16, 20, 24, 27],
            "first_k_dense_replace": 1,
            "intermediate_size": 9216,
            "num_shared_experts": 1,
            "vocab_size": 163840,
            **experts(256, 8, 1024),
        },
        "transformers 5.24 configuration_kimi_linear.py, whose defaults are this checkpoint",
    ),
    hub(
        "moonshotai/Kimi-K3",
        model_type="kimi_linear",
        num_hidden_layers=93,
        hidden_size=7168,
        num_attention_heads=96,
        kv_lora_rank=512,
        q_lora_rank=1536,
        qk_rope_head_dim=64,
        qk_nope_head_dim=128,
        v_head_dim=128,
        linear_attn_config={
            "num_heads": 96,
            "head_dim": 128,
            "short_conv_kernel_size": 4,
            "full_attn_layers": [*range(4, 93, 4), 93],
        },
        intermediate_size=33792,
        first_k_dense_replace=1,
        num_shared_experts=2,
        routed_expert_hidden_size=3584,
        vocab_size=163840,
        max_position_embeddings=1048576,
        dtype="bfloat16",
        **experts(896, 16, 3072),
    ),
    _ling(
        "inclusionAI/Ling-3.0-flash",
        *(42, 6, 32, 2560),
        "",
        intermediate_size=6144,
        first_k_dense_replace=2,
        n_shared_experts=1,
        max_position_embeddings=262144,
        **experts(512, 8, 768),
    ),
    _ling(
        "inclusionAI/Ling-3.1-flash",
        *(72, 8, 64, 4096),
        "head_dim, kv_lora_rank, qk_rope_head_dim and short_conv_kernel_size are assumed from Ling-3.0",
        intermediate_size=10240,
        first_k_dense_replace=4,
        n_shared_experts=1,
        **experts(512, 8, 1280),
    ),
    _nemotron(
        "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
        *(2688, 64),
        num_hidden_layers=52,
        hybrid_override_pattern=_NANO,
        intermediate_size=1856,
        moe_shared_expert_intermediate_size=3712,
        **experts(128, 6, 1856),
    ),
    _nemotron(
        "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-FP8",
        *(4096, 128),
        num_hidden_layers=88,
        hybrid_override_pattern=_SUPER,
        intermediate_size=2688,
        moe_latent_size=1024,
        moe_shared_expert_intermediate_size=5376,
        **experts(512, 22, 2688),
    ),
    _nemotron(
        "nvidia/NVIDIA-Nemotron-3-Ultra-550B-A55B-BF16",
        *(8192, 256),
        num_attention_heads=64,
        layers_block_type=[kind for kind, count in zip(_ULTRA, (48, 12, 48), strict=True) for _ in range(count)],
        intermediate_size=5120,
        moe_latent_size=2048,
        moe_shared_expert_intermediate_size=10240,
        **experts(512, 22, 5120),
    ),
    _nemotron(
        "nvidia/Nemotron-H-56B-Base-8K",
        *(8192, 256),
        num_hidden_layers=118,
        num_attention_heads=64,
        num_key_value_heads=8,
        ssm_state_size=256,
        hybrid_override_pattern=_H56,
        mamba_ssm_cache_dtype=None,
        intermediate_size=32768,
        max_position_embeddings=8192,
    ),
    Entry(
        "ai21labs/Jamba-v0.1",
        {
            "model_type": "jamba",
            "num_hidden_layers": 32,
            "attn_layer_period": 8,
            "attn_layer_offset": 4,
            "hidden_size": 4096,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "mamba_d_state": 16,
            "mamba_d_conv": 4,
            "mamba_expand": 2,
        },
        "transformers 5.24 configuration_jamba.py, whose defaults are this checkpoint",
    ),
)
