"""The plan as a whole: what it says with everything known, with less, and with nothing that fits."""

import math
import shlex

import msgspec
import pytest

from headway.core.units import Bytes, Tokens
from headway.errors import ConfigError
from headway.hybrid.architecture import named
from headway.hybrid.capacity import Scene
from headway.hybrid.engines import Engine
from headway.hybrid.geometry import Architecture, Layers, Recurrent
from headway.hybrid.llamacpp import LlamaCpp
from headway.hybrid.plan import GIB, Plan, plan
from headway.hybrid.reuse import recomputed, reuse
from headway.hybrid.sglang import Sglang
from headway.hybrid.timing import Assumed, assumed
from headway.hybrid.vllm import Vllm
from headway.hybrid.workload import ByHand, by_hand

LING = named("Ling-3.0-flash")
QWEN = named("Qwen3.5-35B-A3B")
DENSE = named("Qwen3-8B")
HAND = ByHand(
    turns=30,
    turns_sd=12,
    first_prompt=6000,
    first_prompt_sd=1500,
    growth=900,
    growth_sd=500,
    output=250,
    output_sd=150,
    action=12,
    action_sd=20,
)
WORK = by_hand(HAND)
ALL = [(LING, Sglang()), (LING, Vllm()), (QWEN, Sglang()), (QWEN, Vllm()), (DENSE, Sglang()), (DENSE, Vllm())]
MEMORY = Bytes(40 * GIB)


def timing(model: Architecture, engine: Engine, tp: int = 4) -> Assumed:
    return assumed("H100", model, tp, engine.dtypes(model))


def full(model: Architecture, engine: Engine, tp: int = 4, memory: Bytes = MEMORY) -> Plan:
    return plan(model, engine, memory, tp, WORK, timing(model, engine, tp))


@pytest.mark.parametrize(("model", "engine"), ALL)
def test_the_split_fits_and_holds_what_it_promises(model: Architecture, engine: Engine) -> None:
    found = full(model, engine)
    assert found.reason is None
    assert found.reference_concurrency is not None
    assert found.largest_concurrency is not None
    pools = engine.pools(model, MEMORY, 4)
    assert pools.bytes_of(found.state_slots, found.kv_tokens) <= pools.free
    assert pools.tokens_beside(found.state_slots) == found.kv_tokens
    again = recomputed(engine, model, pools, WORK)
    split = msgspec.structs.replace(pools, fixed=(found.state_slots, found.kv_tokens))
    scene = Scene(split, WORK, timing(model, engine), again)
    assert scene.violated(found.largest_concurrency) is None
    assert scene.violated(math.ceil(found.largest_concurrency * 1.02) + 1) is not None


def test_the_plan_beats_the_default_ratio_and_says_by_how_much() -> None:
    found = full(LING, Sglang())
    assert found.default is not None
    assert found.reference_concurrency is not None
    usual = full(LING, Sglang(ratio=0.9))
    assert found.default.reference_concurrency == usual.reference_concurrency
    assert (found.default.state_slots, found.default.kv_tokens) == (usual.state_slots, usual.kv_tokens)
    assert found.default.reference_concurrency < 0.7 * found.reference_concurrency
    assert (usual.default, usual.binding, found.binding) == (None, "kv", "memory")
    assert "default-ratio" in [w.name for w in found.warnings]


def test_the_first_order_ratio_is_near_the_plans() -> None:
    found = full(LING, Sglang())
    assert found.prediction is not None
    phi = found.prediction.inference_share
    first_order = found.state_bytes_per_sequence * (5 * phi + 1 - phi) / (found.kv_bytes_per_token * WORK.context.mean)
    made = found.state_slots * found.state_bytes_per_sequence / (found.kv_tokens * found.kv_bytes_per_token)
    assert made == pytest.approx(first_order, rel=0.25)


def test_the_flags_give_the_plan_back() -> None:
    found = full(LING, Sglang())
    given = dict(zip(found.flags[::2], found.flags[1::2], strict=True))
    engine = Sglang(slots=int(given["--max-mamba-cache-size"]), max_running=int(given["--max-running-requests"]))
    assert found.max_running_requests == engine.max_running
    again = full(LING, engine)
    assert (again.state_slots, again.kv_tokens) == (found.state_slots, found.kv_tokens)
    assert int(given["--max-total-tokens"]) == found.kv_tokens
    assert again.reference_concurrency == found.reference_concurrency

    blocks = full(LING, Vllm())
    memory = Bytes(int(blocks.flags[blocks.flags.index("--kv-cache-memory-bytes") + 1]))
    assert full(LING, Vllm(), memory=memory).num_blocks == blocks.num_blocks
    assert full(LING, Vllm(), memory=memory).reference_concurrency == blocks.reference_concurrency


@pytest.mark.parametrize(("model", "engine"), ALL)
def test_everything_that_would_help_helps(model: Architecture, engine: Engine) -> None:
    found = full(model, engine)
    assert found.prediction is not None
    assert found.reference_concurrency is not None
    changes = {gain.change: gain for gain in found.gains}
    names = {"one more GiB per rank", "one more replica (of both)", "KV in fp8"}
    assert set(changes) == (names | {"states in bfloat16"} if found.state_bytes_per_sequence else names)
    for gain in changes.values():
        assert gain.reference_concurrency >= found.reference_concurrency
        assert gain.output_tokens_per_second >= found.prediction.output_tokens_per_second
    assert changes["one more replica (of both)"].reference_concurrency == 2 * found.reference_concurrency


def test_dtypes_that_are_small_already_are_not_offered() -> None:
    found = full(LING, Vllm(kv_dtype="fp8", state_dtype="bfloat16"))
    assert [gain.change for gain in found.gains] == ["one more GiB per rank", "one more replica (of both)"]


def test_without_a_workload_there_are_bytes_and_limits_and_a_reason() -> None:
    found = plan(LING, Sglang(), MEMORY, 4)
    assert (found.kv_bytes_per_token, found.state_bytes_per_sequence) == (8064, 18_995_200)
    assert (found.state_slots, found.kv_tokens) == (1070, 2_803_300)
    assert (found.reference_concurrency, found.binding, found.prediction, found.gains) == (None, None, None, ())
    assert found.reason is not None
    assert found.reason.startswith("no workload")
    timed = plan(LING, Sglang(), MEMORY, 4, WORK)
    assert timed.reason is not None
    assert timed.reason.startswith("no time model")
    assert timed.workload == WORK


def test_without_a_workload_sequences_are_as_long_as_they_may_be() -> None:
    short = plan(LING, Vllm(max_context=Tokens(4096)), MEMORY, 4)
    assert short.num_blocks is not None
    sequences = (short.num_blocks - 1) // (8 + 5 * 2)
    assert short.state_slots == 2 * sequences
    assert short.kv_tokens >= sequences * 4096
    assert plan(DENSE, Vllm(), MEMORY, 1).state_slots == 0
    assert plan(named("Jamba-v0.1"), Vllm(), MEMORY, 1).state_slots > 0  # its config gives no length
    assert plan(QWEN, LlamaCpp(), MEMORY, 1).state_slots == 7
    assert plan(LING, Sglang(slots=50), MEMORY, 4).state_slots == 50


def test_a_plan_is_json_with_the_names_that_scripts_read() -> None:
    found = msgspec.json.decode(msgspec.json.encode(full(LING, Sglang())))
    assert {
        "kv_bytes_per_token",
        "state_bytes_per_sequence",
        "state_slots",
        "kv_tokens",
        "reference_concurrency",
        "binding",
        "flags",
        "warnings",
    } <= set(found)
    assert found["constants"] == "assumed from the data sheet of H100"


@pytest.mark.parametrize("memory", [0, 10_000_000])
def test_memory_that_holds_nothing_is_refused(memory: int) -> None:
    with pytest.raises(ConfigError, match="--memory"):
        plan(LING, Sglang(), Bytes(memory), 4)


def test_a_workload_that_does_not_fit_once_has_a_reason_instead_of_a_number() -> None:
    found = full(LING, Vllm(), memory=Bytes(GIB // 8))
    assert (found.reference_concurrency, found.prediction, found.gains) == (None, None, ())
    assert found.reason == "not even one trajectory of this workload fits: memory is short"
    assert found.largest_concurrency == 0
    tight = full(LING, Sglang(strategy="no_buffer"), memory=Bytes(GIB // 4))
    assert tight.default is not None
    assert tight.default.reference_concurrency == 0
    assert tight.default.output_tokens_per_second == 0


def test_a_default_ratio_that_could_not_run_anything_is_no_comparison() -> None:
    memory = Bytes(9 * 18_995_200)
    assert full(LING, Sglang(), memory=memory).default is None


def test_unified_memory_has_no_split_to_compare_or_to_pass() -> None:
    found = full(QWEN, Sglang(unified=True))
    assert found.default is None
    assert "--enable-unified-memory" in found.flags
    assert not {"--max-mamba-cache-size", "--max-total-tokens"} & set(found.flags)


def test_no_radix_cache_keeps_nothing_and_computes_everything_again() -> None:
    off, on = full(LING, Sglang(strategy="off")), full(LING, Sglang())
    assert off.prediction is not None
    assert on.prediction is not None
    assert off.prediction.hit_rate == 0 < on.prediction.hit_rate
    assert off.prediction.recomputed_per_turn == WORK.context.mean
    assert "--disable-radix-cache" in off.flags


def test_llamacpp_gives_each_trajectory_a_slot() -> None:
    found = full(QWEN, LlamaCpp(), tp=1)
    assert found.largest_concurrency == found.state_slots
    assert found.kv_tokens // found.state_slots >= WORK.longest.p95
    assert [g.change for g in found.gains] == ["one more GiB per rank", "one more replica (of both)"]
    fixed = full(QWEN, LlamaCpp(slots=4), tp=1)
    assert (fixed.binding, fixed.largest_concurrency, fixed.reference_concurrency) == ("slots", 4, 4)
    shared = full(QWEN, LlamaCpp(unified=True), tp=1)
    assert shared.reference_concurrency is not None
    assert found.reference_concurrency is not None
    assert shared.reference_concurrency > found.reference_concurrency
    assert "--kv-unified" in shared.flags
    assert full(DENSE, LlamaCpp(), tp=1).state_slots > 1


def test_a_model_of_states_alone() -> None:
    model = Architecture("m", "gdn", (Layers(4, Recurrent("gdn", 64, 128 * 128, 8192, 3)),))
    found = plan(model, Sglang(), Bytes(GIB), 1, WORK, timing(LING, Sglang()))
    assert (found.kv_bytes_per_token, found.kv_tokens, found.binding) == (0, 0, "state")


COMMANDS = [
    (
        Vllm(
            num_blocks=2000,
            max_running=9,
            max_context=Tokens(8192),
            kv_dtype="fp8_e4m3",
            conv_dtype="float32",
            state_dtype="float32",
            block_tokens=512,
            retention=1024,
            prefix_caching=False,
        ),
        "vllm serve inclusionAI/Ling-3.0-flash --tensor-parallel-size 4 --num-gpu-blocks-override 2000 "
        "--max-num-seqs 9 --max-model-len 8192 --no-enable-prefix-caching --block-size 512 "
        "--prefix-cache-retention-interval 1024 --kv-cache-dtype fp8 --mamba-cache-dtype float32 "
        "--mamba-ssm-cache-dtype float32",
    ),
    (
        Sglang(
            slots=100,
            max_running=9,
            max_context=Tokens(8192),
            kv_dtype="fp8",
            state_dtype="bfloat16",
            page_tokens=64,
            chunk_tokens=4096,
            strategy="no_buffer",
        ),
        "python -m sglang.launch_server --model-path inclusionAI/Ling-3.0-flash --tp-size 4 "
        "--max-mamba-cache-size 100 --max-total-tokens 10396416 --max-running-requests 9 "
        "--mamba-radix-cache-strategy no_buffer --mamba-track-interval 256 --page-size 64 "
        "--chunked-prefill-size 4096 --context-length 8192 --kv-cache-dtype fp8_e4m3 --mamba-ssm-dtype bfloat16",
    ),
]


@pytest.mark.parametrize(("engine", "command"), COMMANDS)
def test_the_command_line_is_ready_to_paste(engine: Engine, command: str) -> None:
    found = plan(LING, engine, MEMORY, 4)
    given, wanted = shlex.split(found.command), command.split()
    where = wanted.index("--max-total-tokens") + 1 if "--max-total-tokens" in wanted else None
    if where is not None:
        wanted[where] = str(found.kv_tokens)
    assert given == wanted


def test_reuse_by_engine() -> None:
    def again(model: Architecture, engine: Engine, tp: int = 4) -> float:
        return recomputed(engine, model, engine.pools(model, MEMORY, tp), WORK)

    assert again(LING, Sglang()) == 127.5
    assert again(DENSE, Sglang(page_tokens=64)) == 31.5
    assert again(LING, Vllm()) == (512 + 1) / 2 + 250
    assert again(LING, Vllm(retention=512)) == (512 + 1) / 2
    assert again(LING, Vllm(retention=51200)) == (512 + 1) / 2 + 250
    assert again(DENSE, Vllm()) == 8.5
    assert again(QWEN, LlamaCpp(), 1) == 250
    assert again(DENSE, LlamaCpp(), 1) == 1


def test_reuse_of_nothing() -> None:
    empty = by_hand(ByHand(turns=1, first_prompt=0, growth=0, output=0, action=0))
    assert reuse(0, empty) == reuse(0, empty).__class__(0, 0, 0)


@pytest.mark.parametrize(("model", "engine"), ALL)
def test_a_plan_survives_its_json(model: Architecture, engine: Engine) -> None:
    found = full(model, engine)
    assert msgspec.json.decode(msgspec.json.encode(found), type=Plan) == found
    assert msgspec.json.decode(msgspec.json.encode(engine), type=Engine) == engine


def test_the_block_pool_obeys_one_constraint() -> None:
    found = full(LING, Vllm())
    assert found.largest_concurrency is not None
    layout = Vllm().layout(LING, MEMORY, 4)
    pools = Vllm().pools(LING, MEMORY, 4)
    scene = Scene(pools, WORK, timing(LING, Vllm()), recomputed(Vllm(), LING, pools, WORK))
    live = found.largest_concurrency
    kv = live * math.ceil(WORK.context.mean / layout.block_tokens) * layout.attention_groups
    loop = scene.loop(live)
    running, ended = loop.running, scene.ended(loop)
    kv += ended * math.ceil(WORK.longest.mean / layout.block_tokens) * layout.attention_groups
    states = layout.state_groups * (2 * running + (live - running) + 2 * ended)
    swing = layout.state_groups * 3 * math.sqrt(running * (1 - running / live))
    swing += 3 * math.sqrt(live) * WORK.context.sd / layout.block_tokens
    assert kv + states + swing == pytest.approx(layout.num_blocks, rel=0.01)


def test_a_fixed_number_of_blocks_does_not_fix_what_more_memory_would_bring() -> None:
    by_bytes = full(QWEN, Vllm())
    assert by_bytes.num_blocks is not None
    by_blocks = full(QWEN, Vllm(num_blocks=by_bytes.num_blocks))
    assert by_blocks.reference_concurrency == by_bytes.reference_concurrency
    now, changes = by_blocks.reference_concurrency, {gain.change: gain for gain in by_blocks.gains}
    assert now is not None
    assert changes["one more GiB per rank"].reference_concurrency > now
    assert changes["KV in fp8"].reference_concurrency > now
