"""How vLLM's one pool is counted, and how its metrics are read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.adapters.engines.dialect import whole
from headway.adapters.engines.exposition import Exposition
from headway.adapters.engines.kinds import recognise
from headway.adapters.engines.vllm import Pool, _pool


def test_attention_only_counts_every_block_but_the_null_block():
    assert Pool(blocks=101, block=16, hybrid=False, max_context=4096, concurrency=None).split() == (1600, None)


@given(
    blocks=st.integers(2, 20_000),
    block=st.sampled_from([16, 256, 544]),
    states=st.integers(1, 12),
    context=st.integers(1, 40_000),
)
def test_kv_and_states_fit_together(blocks, block, states, context):
    """Fill both: whole blocks of KV, and for each state its blocks; nothing overflows, if one request fits at all."""
    longest = -(-context // block) + states
    pool = Pool(blocks, block, hybrid=True, max_context=context, concurrency=blocks / longest)
    kv, slots = pool.split()
    assert slots is not None
    assert slots >= 1
    if blocks - 1 >= longest:
        assert kv >= context
    shared = kv // block + slots * (pool.state_blocks + 1) <= blocks - 1
    one_alone = kv <= max(context, block)
    assert shared or one_alone


def test_state_blocks_follow_from_the_engines_own_concurrency():
    assert Pool(8192, 256, hybrid=True, max_context=8192, concurrency=8192 / 38).state_blocks == 6
    assert Pool(8192, 256, hybrid=True, max_context=None, concurrency=None).state_blocks == 6
    assert Pool(8192, 256, hybrid=True, max_context=8192, concurrency=1e6).state_blocks == 1


@pytest.mark.parametrize(
    ("labels", "usable"),
    [
        ({"num_gpu_blocks": "100", "block_size": "16"}, True),
        ({"num_gpu_blocks": "1", "block_size": "16"}, False),
        ({"num_gpu_blocks": "None", "block_size": "16"}, False),
        ({"num_gpu_blocks": "100"}, False),
        ({"num_gpu_blocks": "100", "block_size": "16", "kv_cache_max_concurrency": "None"}, True),
    ],
)
def test_labels_that_make_no_pool_are_passed_over(labels, usable):
    pool = _pool(labels, 4096)
    assert (pool is not None) == usable
    if pool is not None:
        assert (pool.hybrid, pool.concurrency) == (False, None)


def test_exposition_reads_labels_values_and_nothing_else():
    page = Exposition(
        '# HELP a b\na{x="1,2",y="say \\"hi\\" }",z="[]"} 1.5\na{x="3"} 2\nb 7\nc{} NaN\nd notanumber\n\n???\n'
    )
    assert page.total("a") == 3.5
    assert page.mean("a") == 1.75
    assert page.count("none", "b") == 7
    assert page.labels("a")[0] == {"x": "1,2", "y": 'say \\"hi\\" }', "z": "[]"}
    assert page.total("c", "d") is None
    assert page.mean("c") is None
    assert page.count("c") is None
    assert page.labels("c") == []


@pytest.mark.parametrize(
    ("value", "number"),
    [
        *[(3, 3), ("3", 3), ("3.0", 3), (3.7, 3), (0, None), (-1, None), (True, None), (None, None)],
        *[("None", None), ("inf", None), ("nan", None), ([], None)],
    ],
)
def test_whole_numbers(value, number):
    assert whole(value) == number


@pytest.mark.parametrize(
    ("owner", "kind"),
    [("vllm", "vllm"), ("sglang", "sglang"), ("llamacpp", "llamacpp"), ("llama.cpp", "llamacpp"), ("me", "openai")],
)
def test_engines_are_recognised_by_their_signature(owner, kind):
    assert recognise({"owned_by": owner}) == kind
    assert recognise({}) == "openai"
