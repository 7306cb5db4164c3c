"""Bytes per token and per sequence, against published geometry and against arithmetic done by hand."""

import json
import os
from pathlib import Path

import pytest

from headway.hybrid.architecture import BUILT_IN, from_config, named
from headway.hybrid.geometry import Dtypes, Parameters
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
