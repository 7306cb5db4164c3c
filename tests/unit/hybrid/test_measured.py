"""What an engine turned out to hold, beside its plan."""

from headway.core.units import Bytes
from headway.hybrid.architecture import named
from headway.hybrid.llamacpp import LlamaCpp
from headway.hybrid.measured import Check, Measured, compare, render_checks
from headway.hybrid.plan import plan
from headway.hybrid.sglang import Sglang
from headway.hybrid.vllm import Vllm

QWEN, DENSE = named("Qwen3.5-35B-A3B"), named("Qwen3-8B")
MEMORY = Bytes(40 << 30)


def test_one_pool_is_compared_by_its_blocks() -> None:
    made = plan(QWEN, Vllm(), MEMORY, 4)
    assert made.layout is not None
    measured = Measured(
        "vllm",
        block_tokens=made.layout.block_tokens,
        num_blocks=made.layout.num_blocks - 1,
        max_context=8192,
        concurrency=made.layout.num_blocks / (-(-8192 // made.layout.block_tokens) + 6) * 1.004,
    )
    found = compare(made, measured)
    assert [check.agrees for check in found] == [True, False, True]
    assert "DIFFERS" in render_checks(found, measured)


def test_without_a_length_there_is_no_concurrency_to_compare() -> None:
    found = compare(plan(QWEN, Vllm(), MEMORY, 4), Measured("vllm"))
    assert [check.agrees for check in found] == [None, None]


def test_two_pools_are_compared_by_their_sizes() -> None:
    made = plan(QWEN, Sglang(), MEMORY, 4)
    found = compare(made, Measured("sglang", state_slots=made.state_slots, kv_tokens=made.kv_tokens + 1))
    assert [(check.name, check.agrees) for check in found] == [("state slots", True), ("KV tokens", False)]


def test_a_model_without_states_has_only_tokens() -> None:
    made = plan(DENSE, LlamaCpp(slots=2), MEMORY, 1)
    assert compare(made, Measured("llamacpp", max_running=2, kv_tokens=made.kv_tokens)) == (
        Check("KV tokens", made.kv_tokens, made.kv_tokens, agrees=True),
    )


def test_llamacpp_counts_states_by_slots() -> None:
    made = plan(QWEN, LlamaCpp(slots=2), MEMORY, 1)
    assert compare(made, Measured("llamacpp", max_running=3))[0] == Check("state slots", 2, 3, agrees=False)
