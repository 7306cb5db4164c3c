"""How the engines lay memory out, and that flags and splits are exact inverses of each other."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.core.units import Bytes, Tokens
from headway.errors import ConfigError
from headway.hybrid.architecture import from_config, named
from headway.hybrid.engines import engine_of_kind, kind_of
from headway.hybrid.geometry import Architecture, Dtypes, Heads, Layers, Recurrent
from headway.hybrid.llamacpp import LlamaCpp, host_bytes
from headway.hybrid.sglang import (
    SLOTS_PER_REQUEST,
    Sglang,
    host_split,
    max_running,
    ratio_of_slots,
    recomputed,
    slots_of_ratio,
)
from headway.hybrid.vllm import CPU_ALIGNMENT, Vllm, cached_tokens, group_size

GIB = 1 << 30
LING = named("Ling-3.0-flash")
QWEN = named("Qwen3.5-35B-A3B")
DENSE = named("Qwen3-8B")
GPT = named("gpt-oss-20b")


# -- vLLM -------------------------------------------------------------------------------------------------------

QWEN38_27B = named("Qwen3.5-27B")
PUBLIC_LOGS = [
    # block sizes that people's vLLM logged, with the settings they gave (issue numbers of vllm-project/vllm)
    (QWEN, Vllm(), 1, 1056),  # 51250
    (QWEN38_27B, Vllm(kv_dtype="fp8", speculative=3), 1, 1600),  # 52520, 47272
    (QWEN38_27B, Vllm(kv_dtype="fp8", speculative=4), 1, 1616),
    (named("NVIDIA-Nemotron-3-Super-120B-A12B-FP8"), Vllm(kv_dtype="fp8"), 1, 8320),  # 48401
]


@pytest.mark.parametrize(("model", "engine", "tp", "block"), PUBLIC_LOGS)
def test_block_sizes_that_vllm_logged(model: Architecture, engine: Vllm, tp: int, block: int) -> None:
    assert engine.layout(model, Bytes(80 * GIB), tp).block_tokens == block


def tiny_qwen_next() -> Architecture:
    """A Qwen3-Next of four layers whose state is 1.05 pages of 128 tokens: the kind one runs on a CPU."""
    return from_config(
        {
            "model_type": "qwen3_next",
            "num_hidden_layers": 4,
            "full_attention_interval": 4,
            "hidden_size": 256,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 32,
            "linear_num_key_heads": 4,
            "linear_num_value_heads": 8,
            "linear_key_head_dim": 32,
            "linear_value_head_dim": 32,
            "linear_conv_kernel_dim": 4,
            "mamba_ssm_dtype": "float32",
        }
    )


def test_a_tiny_model_on_a_cpu_has_blocks_of_256_and_vllms_own_concurrency() -> None:
    layout = Vllm(alignment=CPU_ALIGNMENT, num_blocks=4096).layout(tiny_qwen_next(), Bytes(GIB), 1)
    assert (layout.block_tokens, layout.state_groups, layout.attention_groups) == (256, 3, 1)
    assert round(layout.padding * 100, 2) == 82.86
    assert round(layout.max_concurrency(Tokens(8192)), 2) == 107.79


def test_a_checkpoint_block_per_group_lowers_the_concurrency() -> None:
    engine = Vllm(alignment=CPU_ALIGNMENT, num_blocks=8192, checkpoint_blocks=1)
    layout = engine.layout(tiny_qwen_next(), Bytes(GIB), 1)
    assert round(layout.max_concurrency(Tokens(8192)), 1) == 199.8


def test_without_prefix_caching_a_running_request_has_one_state() -> None:
    layout = Vllm(prefix_caching=False, speculative=2).layout(LING, Bytes(80 * GIB), 4)
    assert (layout.state_blocks, layout.state_groups) == (3, 5)
    assert layout.sequence_blocks(Tokens(1)) == 1 + 5 * 3
    assert layout.sequence_blocks(Tokens(1), running=False) == 1 + 5


def test_the_retention_law_that_was_measured() -> None:
    prompts = [1520, 1744, 1968, 2192]
    law = [cached_tokens(Tokens(p), Tokens(40), 256, hybrid=True) for p in prompts[:-1]]
    assert law == [1280, 1536, 1792]
    kept = [cached_tokens(Tokens(p), Tokens(40), 256, hybrid=True, retention=256) for p in prompts[:2]]
    assert kept == [1536, 1536]
    cpu = [cached_tokens(Tokens(p), Tokens(0), 256, hybrid=True) for p in (2399, 2623, 2847)]
    assert cpu == [2304, 2560, 2816]


def test_a_retention_interval_between_blocks_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"retention-interval: 256 is not a multiple .* 512 \(use 512\)"):
        Vllm(retention=256).layout(LING, Bytes(80 * GIB), 4)
    assert Vllm(retention=256).layout(DENSE, Bytes(GIB), 1).block_tokens == 16  # it means nothing without states


def test_attention_alone_keeps_whole_blocks_of_the_output_too() -> None:
    assert cached_tokens(Tokens(100), Tokens(28), 16, hybrid=False) == 112
    assert cached_tokens(Tokens(100), Tokens(29), 16, hybrid=False) == 128
    assert cached_tokens(Tokens(0), Tokens(0), 16, hybrid=False) == 0


def test_state_dtypes_follow_each_engines_defaults() -> None:
    next_ = named("Qwen3-Next-80B-A3B-Instruct")  # its config is silent
    assert Vllm().dtypes(next_) == Dtypes("bfloat16", "bfloat16", "bfloat16")
    assert Vllm(conv_dtype="float32").dtypes(next_).state == "float32"
    assert Vllm().dtypes(LING).state == "float32"
    assert Vllm().dtypes(QWEN).state == "float32"
    assert Sglang().dtypes(next_) == Dtypes("bfloat16", "bfloat16", "float32")
    assert Sglang(kv_dtype="fp8", state_dtype="bfloat16").dtypes(QWEN) == Dtypes("fp8", "bfloat16", "bfloat16")
    assert LlamaCpp().dtypes(QWEN) == Dtypes("float16", "float32", "float32")


def test_windows_of_another_width_get_blocks_of_their_own() -> None:
    layout = Vllm().layout(named("gemma-4-26B-A4B"), Bytes(80 * GIB), 1)
    assert layout.page_bytes == 16 * 8192  # a window layer's token takes twice a full layer's
    assert (layout.block_tokens, layout.attention_groups) == (32, 1)
    assert layout.window_blocks == 5 * (1024 // 16 + 1)


def test_windows_alone() -> None:
    model = Architecture("m", "f", (Layers(4, Heads(8, 8, 64, 64, Tokens(100))),))
    layout = Vllm().layout(model, Bytes(GIB), 1)
    assert (layout.attention_groups, layout.tokens_beside(0), layout.window_blocks) == (0, 0, 8)
    pools = Vllm().pools(model, Bytes(GIB), 1)
    assert (pools.token_bytes, pools.tokens_beside(0)) == (0, 0)


def test_a_dense_model_keeps_the_users_block_size() -> None:
    assert Vllm(block_tokens=64).layout(DENSE, Bytes(GIB), 1).block_tokens == 64
    assert Vllm(block_tokens=600).layout(QWEN, Bytes(80 * GIB), 1).block_tokens == 1200


def test_models_that_vllms_layout_is_not_known_for_are_refused() -> None:
    only_states = Architecture("m", "f", (Layers(4, Recurrent("gdn", 4, 4, 8, 3)),))
    two_kinds = Architecture("m", "f", (Layers(4, Heads(8, 8, 64, 64)), Layers(4, Heads(8, 4, 64, 64))))
    for model in (only_states, two_kinds):
        with pytest.raises(ConfigError, match="one kind of full attention"):
            Vllm().layout(model, Bytes(GIB), 1)


def test_kinds_that_hardly_differ_in_number_share_one_group_size() -> None:
    assert group_size([12, 13]) == 13
    assert group_size([10, 0, 30]) == 10


@settings(deadline=None)
@given(slots=st.integers(0, 300), blocks=st.integers(1, 5000), tp=st.sampled_from([1, 2, 4, 8]))
def test_vllm_flags_and_split_are_inverse(slots: int, blocks: int, tp: int) -> None:
    layout = Vllm().layout(LING, Bytes(80 * GIB), tp)
    wanted = Tokens(blocks * layout.block_tokens)
    override = layout.blocks_for(slots, wanted)
    made = Vllm(num_blocks=override).layout(LING, Bytes(80 * GIB), tp)
    assert made.tokens_beside(slots) == wanted
    memory = Bytes(override * layout.bytes_per_block)
    assert Vllm().layout(LING, memory, tp).num_blocks == override
    pools = Vllm().pools(LING, memory, tp)
    assert pools.tokens_beside(slots) == wanted
    assert pools.slots_beside(wanted) == slots


# -- SGLang -----------------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(
    slots=st.integers(5, 4000),
    spare=st.integers(0, 400 * GIB),
    sigma=st.sampled_from([9_497_600, 18_995_200, 75_980_800, 153_944_064]),
)
def test_sglang_ratio_and_slots_are_inverse(slots: int, spare: int, sigma: int) -> None:
    memory = Bytes((slots + 3) * sigma + spare)
    ratio = ratio_of_slots(memory, Bytes(sigma), slots)
    assert slots_of_ratio(memory, Bytes(sigma), ratio) == slots


def test_the_default_ratio_by_hand() -> None:
    # 40 GiB, Ling-3.0-flash at TP 4: 40 GiB x 0.9 / 1.9 is 1071.1 slots of 18,995,200 bytes; one is SGLang's own
    engine = Sglang(ratio=0.9)
    pools = engine.pools(LING, Bytes(40 * GIB), 4)
    assert pools.fixed == (1070, (40 * GIB - 1071 * 18_995_200) // 8064)
    assert pools.running_limit == 1070 // 5


def test_slots_that_do_not_fit_have_no_ratio() -> None:
    with pytest.raises(ConfigError, match="10 state slots of 100 bytes don't fit in 1000 bytes"):
        ratio_of_slots(Bytes(1000), Bytes(100), 10)


def test_slots_so_fine_that_no_decimal_hits_them_are_refused() -> None:
    with pytest.raises(ConfigError, match="don't fit"):
        ratio_of_slots(Bytes(10**40), Bytes(1), 10**39)


@settings(deadline=None)
@given(slots=st.integers(5, 2000), page=st.sampled_from([1, 16, 64]))
def test_sglang_slots_flag_and_split_are_inverse(slots: int, page: int) -> None:
    engine = Sglang(slots=slots, page_tokens=page, unified=False)
    pools = engine.pools(LING, Bytes(80 * GIB), 4)
    assert pools.fixed is not None
    made, tokens = pools.fixed
    assert made == slots
    assert tokens % page == 0
    exact = Bytes((slots + 1) * pools.slot_bytes + tokens * pools.token_bytes)
    assert engine.pools(LING, exact, 4).fixed == (slots, tokens)


def test_too_few_slots_for_one_request_are_refused_by_the_flag_that_set_them() -> None:
    with pytest.raises(ConfigError, match=r"--max-mamba-cache-size: 4 state slots"):
        Sglang(slots=4).pools(LING, Bytes(80 * GIB), 4)
    with pytest.raises(ConfigError, match=r"--mamba-full-memory-ratio: 0 state slots"):
        Sglang(ratio=0.0001).pools(LING, Bytes(GIB), 4)


def test_unified_memory_leaves_the_split_open() -> None:
    pools = Sglang(slots=100, unified=True).pools(LING, Bytes(80 * GIB), 4)
    assert (pools.fixed, pools.running_limit) == (None, 20)


def test_a_dense_model_has_no_slots_to_split() -> None:
    pools = Sglang(slots=100).pools(DENSE, Bytes(80 * GIB), 1)
    assert (pools.fixed, pools.slot_bytes, pools.slots_beside(0)) == (None, 0, 0)


def test_running_requests_by_strategy() -> None:
    assert {name: max_running(100, name) for name in SLOTS_PER_REQUEST} == {
        "off": 100,
        "no_buffer": 33,
        "extra_buffer_lazy": 25,
        "extra_buffer": 20,
    }
    assert max_running(100, "extra_buffer", 7) == 7


def test_what_a_resident_prefix_computes_again() -> None:
    assert Sglang(page_tokens=64).grid == 256
    assert recomputed(Tokens(1000), 256) == 1000 - 768


def test_windows_take_their_share_of_sglangs_tokens() -> None:
    assert Sglang().pools(GPT, Bytes(GIB), 1).token_bytes == 24576 + round(24576 * 0.8)


def test_the_host_tier_is_split_like_the_device() -> None:
    pools = Sglang().pools(LING, Bytes(80 * GIB), 4)
    slots, tokens = 1000, Tokens(1_000_000)
    states = 1000 * pools.slot_bytes * 10 * GIB // (1000 * pools.slot_bytes + 1_000_000 * 8064)
    assert host_split(Bytes(10 * GIB), slots, tokens, pools) == (
        states // pools.slot_bytes,
        (10 * GIB - states) // 8064,
    )
    assert host_split(Bytes(GIB), 0, Tokens(0), pools) == (0, 0)
    dense = Sglang().pools(DENSE, Bytes(GIB), 1)
    assert host_split(Bytes(GIB), 0, Tokens(10), dense) == (0, GIB // 147456)
    states_only = Architecture("m", "f", (Layers(4, Recurrent("gdn", 4, 4, 8, 3)),))
    bare = Sglang().pools(states_only, Bytes(GIB), 1)
    assert host_split(Bytes(GIB), 5, Tokens(0), bare) == (GIB // bare.slot_bytes, 0)


# -- llama.cpp --------------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(slots=st.integers(1, 64), context=st.integers(64, 100_000))
def test_llamacpp_flags_and_split_are_inverse(slots: int, context: int) -> None:
    free = LlamaCpp().pools(QWEN, Bytes(80 * GIB), 1)
    memory = Bytes(free.bytes_of(slots, context, slots))
    made = LlamaCpp(slots=slots).pools(QWEN, memory, 1)
    assert made.fixed == (slots, context)
    assert made.per_sequence == context // slots
    assert LlamaCpp(slots=slots, context=Tokens(context)).pools(QWEN, memory, 1).fixed == (slots, context)


def test_llamacpp_slots_may_share_one_context() -> None:
    pools = LlamaCpp(slots=4, unified=True).pools(QWEN, Bytes(8 * GIB), 1)
    assert (pools.per_sequence, pools.whole, pools.live_limit) == (None, False, 4)
    assert host_bytes(4, pools, 32) == 4 * 32 * pools.slot_bytes


def test_llamacpp_has_no_tensor_parallelism() -> None:
    with pytest.raises(ConfigError, match=r"--tp: llama\.cpp is planned for one device"):
        LlamaCpp().pools(QWEN, Bytes(GIB), 2)


# -- by kind ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["vllm", "sglang", "llamacpp"])
def test_an_engine_knows_its_kind(kind: str) -> None:
    assert kind_of(engine_of_kind(kind)) == kind


def test_a_kind_without_a_layout_is_refused() -> None:
    with pytest.raises(ConfigError, match="--engine-kind: 'openai'"):
        engine_of_kind("openai")
