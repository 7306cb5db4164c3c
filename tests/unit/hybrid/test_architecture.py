"""Bytes per token and per sequence, against published geometry and against arithmetic done by hand."""

import json
import os
from pathlib import Path

import pytest

from headway.errors import ConfigError
from headway.hybrid.architecture import BUILT_IN, from_config, from_json, named
from headway.hybrid.geometry import Architecture, Dtypes, Heads, Latent, Layers, Parameters, Recurrent, dtype_bytes
from headway.hybrid.vllm import Vllm

FP32_STATE = Dtypes(kv="bfloat16", conv="bfloat16", state="float32")

# name: {TP: (KV bytes per token, state bytes per sequence, vLLM's block with bf16 KV, with fp8 KV)}, per rank
PUBLISHED = {
    "Qwen/Qwen3.5-27B": {
        1: (65536, 153944064, 784, 1568),
        2: (32768, 76972032, 784, 1568),
        4: (16384, 38486016, 784, 1568),
        8: (16384, 19243008, 400, 784),
    },
    "Qwen/Qwen3.5-35B-A3B": {
        1: (20480, 64389120, 1056, 2096),
        2: (10240, 32194560, 1056, 2096),
        4: (10240, 16097280, 528, 1056),
        8: (10240, 8048640, 272, 528),
    },
    "Qwen/Qwen3.5-122B-A10B": {
        1: (24576, 153649152, 2096, 4176),
        2: (12288, 76824576, 2096, 4176),
        4: (12288, 38412288, 1056, 2096),
        8: (12288, 19206144, 528, 1056),
    },
    "Qwen/Qwen3.5-397B-A17B": {
        1: (30720, 192061440, 2096, 4176),
        2: (15360, 96030720, 2096, 4176),
        4: (15360, 48015360, 1056, 2096),
        8: (15360, 24007680, 528, 1056),
    },
    "Qwen/Qwen3-Next-80B-A3B-Instruct": {
        1: (24576, 77266944, 1056, 2096),
        2: (12288, 38633472, 1056, 2096),
        4: (12288, 19316736, 528, 1056),
        8: (12288, 9658368, 272, 528),
    },
    "moonshotai/Kimi-Linear-48B-A3B-Instruct": {
        1: (8064, 43417600, 1920, 3840),
        2: (8064, 21708800, 1024, 1920),
        4: (8064, 10854400, 512, 1024),
        8: (8064, 5427200, 256, 512),
    },
    "moonshotai/Kimi-K3": {
        1: (27648, 449372160, 5760, 11392),
        2: (27648, 224686080, 2944, 5760),
        4: (27648, 112343040, 1536, 2944),
        8: (27648, 56171520, 768, 1536),
    },
    "inclusionAI/Ling-3.0-flash": {
        1: (8064, 75980800, 1920, 3840),
        2: (8064, 37990400, 1024, 1920),
        4: (8064, 18995200, 512, 1024),
        8: (8064, 9497600, 256, 512),
    },
    "inclusionAI/Ling-3.1-flash": {
        1: (10368, 273530880, 3840, 7552),
        4: (10368, 68382720, 1024, 1920),
    },
    "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16": {
        1: (6144, 49082368, 2096, 4176),
        2: (3072, 24541184, 2096, 4176),
        4: (3072, 12270592, 1056, 2096),
        8: (3072, 6135296, 528, 1056),
    },
    "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-FP8": {
        1: (8192, 170229760, 4160, 8320),
        2: (4096, 85114880, 4160, 8320),
        4: (4096, 42557440, 2080, 4160),
        8: (4096, 21278720, 1040, 2080),
    },
    "nvidia/NVIDIA-Nemotron-3-Ultra-550B-A55B-BF16": {
        1: (12288, 407961600, 8304, 16608),
        2: (6144, 203980800, 8304, 16608),
        4: (6144, 101990400, 4160, 8304),
        8: (6144, 50995200, 2080, 4160),
    },
    "nvidia/Nemotron-H-56B-Base-8K": {
        1: (40960, 912605184, 4128, 8256),
        2: (20480, 456302592, 4128, 8256),
        4: (10240, 228151296, 4128, 8256),
        8: (5120, 114075648, 4128, 8256),
    },
}

# name: (KV bytes per token of the layers that grow, state bytes, most bytes in windows), TP 1
PUBLISHED_AT_ONE = {
    "ai21labs/Jamba-v0.1": (16384, 16056320, 0),
    "meta-llama/Meta-Llama-3.1-8B": (131072, 0, 0),
    "meta-llama/Meta-Llama-3.1-70B": (327680, 0, 0),
    "Qwen/Qwen3-8B": (147456, 0, 0),
    "Qwen/Qwen3-32B": (262144, 0, 0),
    "Qwen/Qwen3-30B-A3B": (98304, 0, 0),
    "Qwen/Qwen3-235B-A22B": (192512, 0, 0),
    "deepseek-ai/DeepSeek-V3": (70272, 0, 0),
    "openai/gpt-oss-20b": (24576, 0, 12 * 2048 * 128),
    "openai/gpt-oss-120b": (36864, 0, 18 * 2048 * 128),
    "google/gemma-4-26B-A4B": (20480, 0, 25 * 8192 * 1024),
    "XiaomiMiMo/MiMo-V2-Flash": (23040, 0, 39 * 5120 * 128),
}


@pytest.mark.parametrize(("name", "tp"), [(name, tp) for name, ranks in PUBLISHED.items() for tp in ranks])
def test_published_bytes_and_block_sizes_byte_for_byte(name: str, tp: int) -> None:
    model = named(name)
    kv, state, block, block_fp8 = PUBLISHED[name][tp]
    assert model.kv_bytes_per_token(tp, FP32_STATE) == kv
    assert model.state_bytes_per_sequence(tp, FP32_STATE) == state
    for dtype, expected in (("bfloat16", block), ("fp8", block_fp8)):
        engine = Vllm(kv_dtype=dtype, state_dtype="float32")
        assert engine.layout(model, 1 << 40, tp).block_tokens == expected


@pytest.mark.parametrize("name", PUBLISHED_AT_ONE)
def test_published_bytes_of_models_without_a_tp_table(name: str) -> None:
    model = named(name)
    kv, state, window = PUBLISHED_AT_ONE[name]
    assert model.kv_bytes_per_token(1, FP32_STATE) == kv
    assert model.state_bytes_per_sequence(1, FP32_STATE) == state
    assert model.window_bytes_per_sequence(1, FP32_STATE) == window


def test_every_built_in_model_is_checked_and_says_where_it_comes_from() -> None:
    assert {entry.name for entry in BUILT_IN} == {*PUBLISHED, *PUBLISHED_AT_ONE}
    assert all(entry.source for entry in BUILT_IN)
    assert "assumed" in named("Ling-3.1-flash").note


BILLIONS = {
    "Qwen/Qwen3.5-27B": (27, 27),
    "Qwen/Qwen3.5-397B-A17B": (397, 17),
    "Qwen/Qwen3-Next-80B-A3B-Instruct": (80, 3.9),
    "moonshotai/Kimi-Linear-48B-A3B-Instruct": (48, 3.5),
    "inclusionAI/Ling-3.0-flash": (124, 5.1),
    "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-FP8": (120, 12),
    "nvidia/NVIDIA-Nemotron-3-Ultra-550B-A55B-BF16": (550, 55),
    "nvidia/Nemotron-H-56B-Base-8K": (56, 56),
    "meta-llama/Meta-Llama-3.1-8B": (8, 8),
    "Qwen/Qwen3-30B-A3B": (30.5, 3.3),
    "deepseek-ai/DeepSeek-V3": (671, 37),
    "openai/gpt-oss-120b": (117, 5.1),
}


@pytest.mark.parametrize("name", BILLIONS)
def test_parameters_are_estimated_within_an_eighth(name: str) -> None:
    found = named(name).parameters
    assert found is not None
    total, active = BILLIONS[name]
    assert found.total / 1e9 == pytest.approx(total, rel=0.125)
    assert found.active / 1e9 == pytest.approx(active, rel=0.125)


WIDE = {"hidden_size": 512, "intermediate_size": 1024, "vocab_size": 100, "tie_word_embeddings": True}
SMALL = {
    "lightning": (
        {"model_type": "minimax", "num_hidden_layers": 1, "num_attention_heads": 8, "attn_type_list": [0]},
        5 * 512 * 512,
    ),
    "mamba1": (
        {
            "model_type": "jamba",
            "num_hidden_layers": 1,
            "num_attention_heads": 8,
            "attn_layer_period": 8,
            "attn_layer_offset": 4,
            "mamba_expand": 2,
            "mamba_d_state": 16,
            "mamba_d_conv": 4,
        },
        3 * 512 * 1024,
    ),
    "shortconv": (
        {
            "model_type": "lfm2",
            "num_hidden_layers": 1,
            "num_attention_heads": 8,
            "full_attn_idxs": [],
            "conv_L_cache": 3,
        },
        4 * 512 * 512,
    ),
    "mla without a query rank": (
        {
            "model_type": "deepseek_v2",
            "num_hidden_layers": 1,
            "num_attention_heads": 8,
            "kv_lora_rank": 64,
            "qk_rope_head_dim": 32,
            "qk_nope_head_dim": 64,
            "v_head_dim": 64,
        },
        512 * 8 * 96 + 512 * 96 + 64 * 8 * 128 + 8 * 64 * 512,
    ),
    "tied embeddings and a plain MLP": (
        {"model_type": "llama", "num_hidden_layers": 1, "num_attention_heads": 8},
        512 * (8 * 64 + 8 * 128 + 8 * 64),
    ),
}


@pytest.mark.parametrize("case", SMALL)
def test_parameters_of_one_layer_by_hand(case: str) -> None:
    config, mixer = SMALL[case]
    assert from_config({**WIDE, **config}).parameters == Parameters(dense=mixer + 3 * 512 * 1024 + 100 * 512)


def test_a_step_touches_more_experts_the_more_sequences_it_has() -> None:
    found = Parameters(dense=10, routed=90, experts=9, experts_per_token=1)
    assert found.active == 20
    assert found.touched(0) == 10
    assert found.touched(1) == pytest.approx(20)
    assert 99 < found.touched(100) <= found.total == 100


# -- families that are not in the table, on numbers worked out by hand ------------------------------------------

MAMBA2 = {
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "hidden_size": 4096,
    "mamba_n_heads": 128,
    "mamba_d_head": 64,
    "mamba_d_state": 128,
    "mamba_d_conv": 4,
    "mamba_n_groups": 1,
}
MAMBA2_STATE = (128 * 64 + 2 * 1 * 128) * 3 * 2 + 128 * 64 * 128 * 4  # conv in bf16, recurrence in fp32
LFM2 = {"num_attention_heads": 32, "num_key_value_heads": 8, "hidden_size": 2048, "conv_L_cache": 3}
BAILING = {"num_hidden_layers": 20, "layer_group_size": 8, "num_attention_heads": 16, "head_dim": 128}
ZAMBA = {
    "num_hidden_layers": 6,
    "num_attention_heads": 32,
    "attention_head_dim": 160,
    "n_mamba_heads": 80,
    "mamba_headdim": 64,
    "mamba_d_state": 64,
    "mamba_d_conv": 4,
    "mamba_ngroups": 1,
}
KDA = {
    "num_hidden_layers": 8,
    "num_attention_heads": 64,
    "kv_lora_rank": 512,
    "qk_rope_head_dim": 0,
    "index_head_dim": 128,
    "index_kpool": 16,
    "linear_num_heads": 64,
    "linear_head_dim": 128,
    "linear_conv_kernel_dim": 4,
}
DENSE = {"num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 2, "hidden_size": 512}

FAMILIES = {
    "granite lists its layers": (
        {
            **MAMBA2,
            "model_type": "granitemoehybrid",
            "num_hidden_layers": 40,
            "layer_types": ["mamba", "attention"] * 20,
        },
        (20 * 4096, 20 * MAMBA2_STATE),
    ),
    "bamba lists its attention layers": (
        {**MAMBA2, "model_type": "bamba", "num_hidden_layers": 32, "attn_layer_indices": [9, 18, 27]},
        (3 * 4096, 29 * MAMBA2_STATE),
    ),
    "bamba, known by its fields": (
        {**MAMBA2, "num_hidden_layers": 32, "attn_layer_indices": [9, 18, 27]},
        (3 * 4096, 29 * MAMBA2_STATE),
    ),
    "falcon has both in every layer": (
        {**MAMBA2, "model_type": "falcon_h1", "num_hidden_layers": 44},
        (44 * 4096, 44 * MAMBA2_STATE),
    ),
    "zamba shares an attention block": (
        {**ZAMBA, "model_type": "zamba2", "hybrid_layer_ids": [2, 5]},
        (2 * 32 * 2 * 160 * 2, 6 * ((80 * 64 + 128) * 3 * 2 + 80 * 64 * 64 * 4)),
    ),
    "zamba, by its blocks": (
        {**ZAMBA, "layers_block_type": ["mamba", "mamba", "hybrid"] * 2},
        (2 * 32 * 2 * 160 * 2, 6 * ((80 * 64 + 128) * 3 * 2 + 80 * 64 * 64 * 4)),
    ),
    "lfm2 by indices": (
        {**LFM2, "num_hidden_layers": 16, "full_attn_idxs": [2, 5, 8, 10, 12, 14]},
        (6 * 2048, 10 * 2048 * 2 * 2),
    ),
    "lfm2 by kinds, with a width of its own": (
        {
            **LFM2,
            "model_type": "lfm2",
            "conv_dim": 1024,
            "num_hidden_layers": 2,
            "layer_types": ["conv", "full_attention"],
        },
        (2048, 1024 * 2 * 2),
    ),
    "bailing: the tail beyond the last whole group is attention too": (
        {**BAILING, "num_key_value_heads": 4},
        (6 * 4 * 256 * 2, 14 * 16 * 128 * 128 * 4),
    ),
    "bailing with latent attention and KDA": (
        {**BAILING, "num_hidden_layers": 16, "kv_lora_rank": 512, "qk_rope_head_dim": 64, "short_conv_kernel_size": 4},
        (2 * 576 * 2, 14 * (3 * 16 * 128 * 3 * 2 + 16 * 128 * 128 * 4)),
    ),
    "minimax by its list": (
        {**DENSE, "attn_type_list": [0, 0, 0, 1]},
        (2 * 128 * 2, 3 * 8 * 64 * 64 * 4),
    ),
    "minimax by kinds": (
        {**DENSE, "model_type": "minimax", "layer_types": ["linear_attention", "full_attention"] * 2},
        (2 * 2 * 128 * 2, 2 * 8 * 64 * 64 * 4),
    ),
    "glm: indexed latent attention beside KDA": (
        {**KDA, "model_type": "glm5_next", "layer_types": ["linear_attention"] * 6 + ["full_attention"] * 2},
        (2 * (512 * 2 + 9), 6 * (3 * 64 * 128 * 3 * 2 + 64 * 128 * 128 * 4)),
    ),
    "gated delta net by its list": (
        {
            **DENSE,
            "model_type": "qwen3_next",
            "layer_types": ["linear_attention", "linear_attention", "linear_attention", "full_attention"],
            "linear_num_key_heads": 2,
            "linear_num_value_heads": 4,
            "linear_key_head_dim": 16,
            "linear_value_head_dim": 32,
            "linear_conv_kernel_dim": 4,
        },
        (2 * 128 * 2, 3 * ((2 * 2 * 16 + 4 * 32) * 3 * 2 + 4 * 32 * 16 * 4)),
    ),
    "a multimodal model": (
        {"model_type": "qwen3_vl", "text_config": {**DENSE, "model_type": "qwen3_vl_text"}},
        (4 * 2 * 128 * 2, 0),
    ),
    "a text_config that says nothing": (
        {**DENSE, "model_type": "llama", "text_config": {}},
        (4 * 2 * 128 * 2, 0),
    ),
    "a window that is switched off": (
        {**DENSE, "model_type": "qwen2", "sliding_window": 4096, "use_sliding_window": False, "max_window_layers": 2},
        (4 * 2 * 128 * 2, 0),
    ),
}


@pytest.mark.parametrize("case", FAMILIES)
def test_families_by_hand(case: str) -> None:
    config, (kv, state) = FAMILIES[case]
    model = from_config(config)
    assert (model.kv_bytes_per_token(1, FP32_STATE), model.state_bytes_per_sequence(1, FP32_STATE)) == (kv, state)


WINDOWS = {
    "every layer": ({**DENSE, "model_type": "mistral", "sliding_window": 100}, (0, 4)),
    "the later layers": ({**DENSE, "model_type": "qwen2", "sliding_window": 100, "max_window_layers": 3}, (3, 1)),
    "a list": (
        {
            **DENSE,
            "model_type": "qwen3",
            "sliding_window": 100,
            "layer_types": ["full_attention", "sliding_attention"] * 2,
        },
        (2, 2),
    ),
    "one in so many": (
        {**DENSE, "model_type": "gemma3_text", "sliding_window": 100, "sliding_window_pattern": 4},
        (1, 3),
    ),
    "every other": ({**DENSE, "model_type": "gemma2", "sliding_window": 100}, (2, 2)),
    "every other, listed": (
        {
            **DENSE,
            "model_type": "gemma2",
            "sliding_window": 100,
            "layer_types": ["sliding_attention"] * 3 + ["full_attention"],
        },
        (1, 3),
    ),
}


@pytest.mark.parametrize("case", WINDOWS)
def test_sliding_windows(case: str) -> None:
    config, (full, sliding) = WINDOWS[case]
    model = from_config(config)
    each = 2 * 128 * 2
    assert model.kv_bytes_per_token(1, FP32_STATE) == full * each
    assert model.window_bytes_per_token(1, FP32_STATE) == sliding * each
    assert model.window_bytes_per_sequence(1, FP32_STATE) == sliding * each * 100


def test_kv_heads_are_shared_out_and_then_replicated() -> None:
    heads = Heads(query_heads=64, kv_heads=4, key_dim=128, value_dim=128)
    assert [heads.kv_bytes(tp, Dtypes()) // 512 for tp in (1, 2, 4, 8, 16)] == [4, 2, 1, 1, 1]
    assert Latent(query_heads=32, rank=512, rope_dim=64).kv_bytes(16, Dtypes(kv="fp8")) == 576


def test_mamba2_pads_its_groups_so_that_every_rank_has_them() -> None:
    layer = Recurrent(
        family="mamba2", units=64, unit_elements=64 * 128, channels=4096, taps=3, groups=8, group_channels=256
    )
    assert layer.conv_elements(8) == (4096 + 8 * 256) // 8 * 3
    assert layer.conv_elements(16) == (4096 + 16 * 256) // 16 * 3


def test_speculative_tokens_widen_every_convolution_but_mamba1s() -> None:
    wide = Recurrent(family="gdn", units=4, unit_elements=4, channels=8, taps=3)
    assert (wide.conv_elements(1), wide.conv_elements(1, 2)) == (24, 40)
    assert Recurrent(family="mamba1", channels=8, taps=3).conv_elements(1, 2) == 24


@pytest.mark.parametrize(
    ("tp", "layer", "words"),
    [
        (3, Heads(query_heads=8, kv_heads=8, key_dim=1, value_dim=1), "8 attention heads"),
        (4, Heads(query_heads=8, kv_heads=6, key_dim=1, value_dim=1), "6 KV heads"),
        (4, Latent(query_heads=6, rank=1, rope_dim=1), "6 attention heads"),
    ],
)
def test_a_split_that_does_not_divide_is_refused(tp: int, layer: Heads | Latent, words: str) -> None:
    with pytest.raises(ConfigError, match=f"--tp: {words} can't be split over {tp} ranks"):
        layer.kv_bytes(tp, Dtypes())


@pytest.mark.parametrize("tp", [0, 17])
def test_a_tensor_parallel_size_out_of_range_is_refused(tp: int) -> None:
    with pytest.raises(ConfigError, match="--tp"):
        named("Qwen3-8B").kv_bytes_per_token(tp, Dtypes())


def test_an_unknown_dtype_is_refused() -> None:
    assert dtype_bytes("torch.float16", where="x") == 2
    with pytest.raises(ConfigError, match="unknown dtype 'nf4'"):
        dtype_bytes("nf4", where="KV dtype")


# -- refusals ---------------------------------------------------------------------------------------------------

REFUSALS = {
    "unknown family": ({**DENSE, "model_type": "deepseek_v4"}, "'deepseek_v4' is not a family.*linear_attn_config"),
    "no family at all": (DENSE, "no model_type; looked for model_type, then for one of attn_layer_indices"),
    "missing field": ({"model_type": "llama", "num_hidden_layers": 2}, "none of num_attention_heads is there"),
    "text for a number": ({**DENSE, "model_type": "llama", "num_hidden_layers": "four"}, "num_hidden_layers is 'four'"),
    "negative": ({**DENSE, "model_type": "llama", "num_hidden_layers": -1}, "not a whole number"),
    "a boolean": ({**DENSE, "model_type": "llama", "num_hidden_layers": True}, "not a whole number"),
    "family is no text": ({**DENSE, "model_type": 3}, "model_type is '3', not text"),
    "list is no list": ({**DENSE, "model_type": "minimax", "attn_type_list": "0001"}, "not a list"),
    "object is no object": ({**DENSE, "model_type": "llama", "text_config": [1]}, "not an object"),
    "dtype": ({**DENSE, "model_type": "llama", "dtype": "int3"}, "unknown dtype 'int3'"),
    "no layers": ({**DENSE, "model_type": "llama", "num_hidden_layers": 0}, "contradict num_hidden_layers"),
    "more attention than layers": (
        {**LFM2, "model_type": "lfm2", "num_hidden_layers": 2, "full_attn_idxs": [0, 1, 2]},
        "contradict num_hidden_layers",
    ),
    "minimax": ({**DENSE, "model_type": "minimax"}, "none of attn_type_list, layer_types"),
    "nemotron": ({**DENSE, "model_type": "nemotron_h"}, "none of hybrid_override_pattern"),
    "granite": ({**DENSE, "model_type": "bamba"}, "none of layer_types, attn_layer_indices"),
    "zamba": ({**DENSE, "model_type": "zamba2"}, "none of hybrid_layer_ids"),
    "lfm2": ({**LFM2, "model_type": "lfm2", "num_hidden_layers": 4}, "none of full_attn_idxs"),
    "kimi": ({**KDA, "model_type": "kimi_linear"}, "none of linear_attn_config.full_attn_layers"),
    "shared KV": (
        {**DENSE, "model_type": "gemma4", "num_kv_shared_layers": 2},
        "num_kv_shared_layers is not supported.*override",
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_what_cannot_be_sized_is_refused_by_name(case: str) -> None:
    config, words = REFUSALS[case]
    with pytest.raises(ConfigError, match=words):
        from_config(config)


def test_a_name_is_found_in_any_case_and_an_unknown_one_lists_the_known() -> None:
    assert named("ling-3.0-FLASH").name == "inclusionAI/Ling-3.0-flash"
    with pytest.raises(ConfigError, match=r"CONFIG: 'nope' is neither .*Qwen/Qwen3-8B"):
        named("nope")


def test_text_and_dtypes_of_a_config() -> None:
    config = {**DENSE, "model_type": "llama", "torch_dtype": "float16", "max_position_embeddings": 4096}
    model = from_json(json.dumps(config), name="mine")
    assert (model.name, model.dtype, model.state_dtype, model.max_context) == ("mine", "float16", None, 4096)
    assert model.parameters is None
    assert from_config({**config, "mamba_ssm_dtype": "auto"}).state_dtype is None
    assert from_config({**config, "mamba_ssm_dtype": "float32"}).state_dtype == "float32"


# -- override files ---------------------------------------------------------------------------------------------

OVERRIDE = """{"name": "mine", "family": "own", "layers": [
  {"count": 7, "layer": {"kind": "mla", "query_heads": 32, "rank": 512, "rope_dim": 64}},
  {"count": 2, "layer": {"kind": "gqa", "query_heads": 32, "kv_heads": 8, "key_dim": 64, "value_dim": 64, "window": 9}},
  {"count": 35, "layer": {"kind": "recurrent", "family": "kda", "units": 32, "unit_elements": 16384,
                          "channels": 12288, "taps": 3}}]}"""


def test_an_override_file_describes_any_layers() -> None:
    model = from_json(OVERRIDE)
    assert model.kv_bytes_per_token(4, FP32_STATE) == 8064
    assert model.state_bytes_per_sequence(1, FP32_STATE) == 75980800
    assert model.window_bytes_per_token(1, FP32_STATE) == 2 * 8 * 128 * 2
    assert model == Architecture(
        "mine",
        "own",
        (
            Layers(7, Latent(32, 512, 64)),
            Layers(2, Heads(32, 8, 64, 64, 9)),
            Layers(35, Recurrent("kda", 32, 16384, 12288, 3)),
        ),
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "not JSON"),
        ("[1]", "not a JSON object"),
        ('{"layers": [{"count": 1}]}', "missing required field"),
        (OVERRIDE.replace('"rank": 512', '"rnk": 512'), "rnk"),
        (OVERRIDE.replace('"count": 7', '"count": 0'), "needs a count"),
        ('{"name": "a", "family": "b", "layers": []}', "needs a count"),
        (OVERRIDE.replace('"family": "own"', '"family": "own", "dtype": "int3"'), "unknown dtype 'int3'"),
        (OVERRIDE.replace('"family": "own"', '"family": "own", "state_dtype": "int3"'), "unknown dtype 'int3'"),
    ],
)
def test_a_bad_override_file_is_refused(text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        from_json(text)


# -- a published table, where one is at hand ------------------------------------------------------------------

TABLE = os.environ.get("HEADWAY_MODELS_JSON", "")


def _rows() -> list[dict]:
    return [row for row in json.loads(Path(TABLE).read_text())["models"] if not row["lead"]] if TABLE else []


def _complete(row: dict) -> dict:
    """A row's config, with the layer lists that the table abridges."""
    config, layers = dict(row["config"]), row["layers"]
    full, other, sliding = layers["full_attention"], layers["recurrent"], layers["sliding_window"]
    if row["recurrent_kind"] == "mamba2":
        config.update(model_type="nemotron_h", layers_block_type=["mamba"] * other + ["attention"] * full)
        if config.get("head_dim") is None:
            config["head_dim"] = config["head_dim_used"]
    elif "linear_attn_config" in config:
        inner = {**config["linear_attn_config"], "full_attn_layers": list(range(full))}
        config["linear_attn_config"] = inner
    elif sliding:
        config["model_type"] = "mimo_v2_flash"
        config["layer_types"] = ["full_attention"] * full + ["sliding_attention"] * sliding
        config.setdefault("num_hidden_layers", full + sliding)
        config.setdefault("num_attention_heads", 64)
    elif not row["recurrent_kind"]:
        config["model_type"] = "deepseek_v3" if "kv_lora_rank" in config else "llama"
    return config


@pytest.mark.skipif(not TABLE, reason="HEADWAY_MODELS_JSON names no table of published models")
@pytest.mark.parametrize("row", _rows(), ids=lambda row: row["name"])
def test_a_table_of_published_models_byte_for_byte(row: dict) -> None:
    model = from_config(_complete(row), name=row["name"])
    assert model.kv_bytes_per_token(1, FP32_STATE) == row["kv_bytes_per_token_full_layers"]
    assert model.state_bytes_per_sequence(1, FP32_STATE) == row["state_bytes_per_sequence"]
    assert model.window_bytes_per_token(1, FP32_STATE) == row["swa_bytes_per_token_inside_window"]
    assert model.window_bytes_per_sequence(1, FP32_STATE) == row["swa_max_bytes_per_seq"]
    for tp, ranks in (row.get("tp") or {}).items():
        assert model.kv_bytes_per_token(int(tp), FP32_STATE) == ranks["kv_bytes_per_token_per_rank"]
        assert model.state_bytes_per_sequence(int(tp), FP32_STATE) == ranks["state_bytes_per_seq_per_rank"]
    for key, expected in (row.get("vllm") or {}).items():
        tp, dtype = key.removeprefix("tp").split("_")
        engine = Vllm(kv_dtype={"bf16": "bfloat16"}.get(dtype, dtype), state_dtype="float32")
        layout = engine.layout(model, 1 << 40, int(tp))
        found = {
            "block_size": layout.block_tokens,
            "page_bytes_per_layer": layout.page_bytes,
            "pad_pct": round(layout.padding * 100, 1),
            "mamba_groups": layout.state_groups,
            "attn_groups": layout.attention_groups,
            "layers_per_group": layout.layers_per_group,
            "bytes_per_block": layout.bytes_per_block,
            "blocks_per_seq_state_align": layout.state_groups * layout.state_blocks,
        }
        assert found == {name: expected[name] for name in found}
