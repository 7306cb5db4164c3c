"""Each trap of hybrid models: when it is reported, with whose numbers, and when it is not."""

import msgspec
import pytest

from headway.core.units import Bytes, Tokens
from headway.hybrid.advice import Case, Warning, warnings
from headway.hybrid.architecture import named
from headway.hybrid.capacity import Loop
from headway.hybrid.engines import Engine
from headway.hybrid.geometry import Architecture
from headway.hybrid.sglang import Sglang
from headway.hybrid.vllm import Vllm
from headway.hybrid.workload import ByHand, Workload, by_hand

GIB = 1 << 30
LING = named("Ling-3.0-flash")
DENSE = named("Qwen3-8B")
WORK = by_hand(ByHand(turns=10, first_prompt=6000, growth=900, output=100, action=12))
LOOP = Loop(live=50, running=20.0, share=0.4, rate=1.0)


def case(model: Architecture, engine: Engine, memory: int = 40 * GIB, **changes: object) -> Case:
    pools = engine.pools(model, Bytes(memory), 4)
    slots = 500 if pools.slot_bytes else 0
    plain = Case(
        model=model,
        engine=engine,
        pools=pools,
        layout=engine.layout(model, Bytes(memory), 4) if isinstance(engine, Vllm) else None,
        slots=slots,
        tokens=pools.tokens_beside(slots),
        workload=None,
        live=None,
        loop=None,
        running=None,
        default_live=None,
    )
    return msgspec.structs.replace(plain, **changes)


def named_warning(found: Case, name: str) -> Warning | None:
    return next((w for w in warnings(found) if w.name == name), None)


def work(**changes: float) -> Workload:
    hand = ByHand(turns=10, first_prompt=6000, growth=900, output=100, action=12)
    return by_hand(msgspec.structs.replace(hand, **changes))


SPOKEN = {
    "more sequences than blocks": (
        case(LING, Vllm(num_blocks=200)),
        "max-num-seqs",
        "max_num_seqs 256 exceeds the pool's 200 blocks",
    ),
    "more sequences than the pool holds": (
        case(LING, Vllm(num_blocks=300, max_running=100), workload=WORK),
        "max-num-seqs",
        "max_num_seqs 100 exceeds the 9 running sequences of your mean 10,600 tokens",
    ),
    "a block longer than a sequence": (
        case(LING, Vllm(max_context=Tokens(500))),
        "block-size",
        "a block of 512 tokens is longer than the 500 of a sequence",
    ),
    "a block longer than the first prompts": (
        case(LING, Vllm(), workload=work(first_prompt=300)),
        "block-size",
        "longer than your first prompts (300)",
    ),
    "the kept state lies in unique tokens": (
        case(LING, Vllm(), workload=work(shared_prefix=4000)),
        "unique-checkpoint",
        "share 4,000 prompt tokens, but the one state that is kept lies at token 5,632: in tokens that no other",
    ),
    "no state is kept at all": (
        case(LING, Vllm(), workload=work(first_prompt=400, shared_prefix=300)),
        "unique-checkpoint",
        "none is kept",
    ),
    "a trajectory as large as the pool": (
        case(LING, Vllm(num_blocks=45), workload=WORK),
        "longest-trajectory",
        "(15,100 tokens) needs 40 of 44 blocks",
    ),
    "a trajectory as large as SGLang's pool": (
        case(LING, Sglang(), tokens=Tokens(16_000), workload=WORK),
        "longest-trajectory",
        "needs 15,100 of 16,000 KV tokens",
    ),
    "the size that vLLM logs": (case(LING, Vllm()), "logged-size", "at 262,144 tokens each, states included"),
    "the default ratio": (
        case(LING, Sglang(), workload=WORK, live=100, default_live=60),
        "default-ratio",
        "would keep 60 trajectories live instead of 100 at your mean context of 10,600 tokens",
    ),
    "slots reserved and not held": (
        case(LING, Sglang(), slots=100, loop=LOOP, running=25),
        "reserved-slots",
        "reserves 5 state slots per running request, so 100 slots run 20 at once; you need 20 on average and 25",
    ),
    "a host tier without states": (
        case(LING, Sglang(host_bytes=Bytes(GIB // 2)), slots=100, loop=LOOP),
        "host-tier",
        "fewer than your 30 paused trajectories",
    ),
    "a chunk that starts too many turns": (
        case(LING, Sglang(chunk_tokens=160_000), workload=WORK),
        "prefill-chunk",
        "can start 113 turns of 1,410 new tokens, which need 565 state slots; there are 500",
    ),
    "unified memory with latent attention": (case(LING, Sglang(unified=True)), "unified-memory", "refuse"),
    "history that is rewritten": (
        case(DENSE, Sglang(), workload=msgspec.structs.replace(WORK, shrunk=3)),
        "rewritten-history",
        "3 recorded turns",
    ),
    "longer than a sequence may be": (
        case(DENSE, Sglang(max_context=Tokens(9000)), workload=WORK),
        "context-length",
        "(15,100 tokens) exceeds the 9,000",
    ),
    "a geometry that was assumed": (case(named("Ling-3.1-flash"), Sglang()), "assumed-geometry", "head_dim"),
}


@pytest.mark.parametrize("trap", SPOKEN)
def test_a_trap_is_reported_with_the_users_numbers(trap: str) -> None:
    found, name, words = SPOKEN[trap]
    warning = named_warning(found, name)
    assert warning is not None
    assert words in warning.text


SILENT = {
    "few sequences": (case(LING, Vllm(max_running=9), workload=WORK), "max-num-seqs"),
    "no workload": (case(LING, Vllm()), "max-num-seqs"),
    "a dense model": (case(DENSE, Vllm(num_blocks=10)), "max-num-seqs"),
    "long prompts": (case(LING, Vllm(), workload=WORK), "block-size"),
    "a dense model's blocks": (case(DENSE, Vllm(max_context=Tokens(8))), "block-size"),
    "a shared prefix past the kept state": (case(LING, Vllm(), workload=work(shared_prefix=5700)), "unique-checkpoint"),
    "nothing shared": (case(LING, Vllm(), workload=WORK), "unique-checkpoint"),
    "room enough": (case(LING, Vllm(), workload=WORK), "longest-trajectory"),
    "no length known": (case(named("Qwen3-Next-80B-A3B-Instruct"), Vllm()), "logged-size"),
    "a good ratio": (case(LING, Sglang(), workload=WORK, live=100, default_live=96), "default-ratio"),
    "no workload for a ratio": (case(LING, Sglang(), live=100, default_live=6), "default-ratio"),
    "slots enough": (case(LING, Sglang(), loop=LOOP, running=25), "reserved-slots"),
    "a host tier with states": (case(LING, Sglang(host_bytes=Bytes(64 * GIB)), loop=LOOP), "host-tier"),
    "a small chunk": (case(LING, Sglang(chunk_tokens=8192), workload=WORK), "prefill-chunk"),
    "unified memory": (case(named("Qwen3.5-35B-A3B"), Sglang(unified=True)), "unified-memory"),
    "within the length": (case(DENSE, Sglang(), workload=WORK), "context-length"),
}


@pytest.mark.parametrize("case_", SILENT)
def test_where_there_is_no_trap_there_is_no_warning(case_: str) -> None:
    found, name = SILENT[case_]
    assert named_warning(found, name) is None
