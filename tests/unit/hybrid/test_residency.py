"""From a plan in slots, blocks and bytes to what a coordinator counts."""

import msgspec

from headway.core.units import Bytes, Tokens
from headway.hybrid.architecture import named
from headway.hybrid.plan import plan
from headway.hybrid.residency import Capacity, capacity_of
from headway.hybrid.sglang import Sglang
from headway.hybrid.timing import assumed
from headway.hybrid.vllm import Vllm
from headway.hybrid.workload import ByHand, by_hand

QWEN, DENSE = named("Qwen3.5-35B-A3B"), named("Qwen3-8B")
WORK = by_hand(ByHand(turns=20, first_prompt=4000, growth=500, output=200, action=5))
MEMORY = Bytes(40 << 30)


def test_states_go_by_what_a_trajectory_holds_on_average() -> None:
    made = plan(QWEN, Sglang(), MEMORY, 4, WORK, assumed("H100", QWEN, 4, Sglang().dtypes(QWEN)))
    found = capacity_of(made)
    assert made.prediction is not None
    assert made.largest_concurrency is not None
    assert found.live == made.reference_concurrency
    assert found.kv_tokens == made.kv_tokens
    assert found.states == int(made.state_slots / (1 + 4 * made.prediction.inference_share))
    assert found.states > made.largest_concurrency


def test_blocks_lose_half_of_the_last_one() -> None:
    made = plan(QWEN, Vllm(), MEMORY, 4, WORK, assumed("H100", QWEN, 4, Vllm().dtypes(QWEN)))
    assert made.largest_concurrency is not None
    assert capacity_of(made).kv_tokens == made.kv_tokens - made.largest_concurrency * made.block_tokens // 2


def test_without_a_reference_every_state_counts_as_running() -> None:
    made = plan(QWEN, Sglang(slots=103), MEMORY, 4)
    assert capacity_of(made) == Capacity(None, made.kv_tokens, 20)


def test_what_a_model_lacks_is_not_limited() -> None:
    made = plan(DENSE, Vllm(), MEMORY, 1)
    assert capacity_of(made).states is None
    assert capacity_of(msgspec.structs.replace(made, kv_bytes_per_token=0)).kv_tokens is None


def test_one_block_is_always_left() -> None:
    made = msgspec.structs.replace(plan(QWEN, Vllm(), MEMORY, 4), kv_tokens=Tokens(0))
    assert capacity_of(made).kv_tokens == made.block_tokens
