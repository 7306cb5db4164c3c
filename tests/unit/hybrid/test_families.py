"""Families by hand, refusals, and override files."""

import json

import pytest

from headway.errors import ConfigError
from headway.hybrid.architecture import from_config, from_json, named
from headway.hybrid.geometry import Architecture, Dtypes, Heads, Latent, Layers, Recurrent, dtype_bytes

FP32_STATE = Dtypes(kv="bfloat16", conv="bfloat16", state="float32")

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
    "granite as recent transformers save it": (
        {
            **MAMBA2,
            "model_type": "granitemoehybrid",
            "num_hidden_layers": 40,
            "layer_types": ["linear_attention", "full_attention"] * 20,
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
