"""From a wanted split to an engine's flags and its command line. Everything in them is the engine's own spelling."""

import shlex
from typing import assert_never

from headway.core.units import Tokens
from headway.hybrid.engines import Engine
from headway.hybrid.geometry import Architecture
from headway.hybrid.llamacpp import LlamaCpp
from headway.hybrid.pools import Pools
from headway.hybrid.sglang import Sglang
from headway.hybrid.vllm import Vllm

Pairs = tuple[tuple[str, object], ...]


def _given(pairs: Pairs) -> tuple[str, ...]:
    """The flags whose value is not None, each followed by its value; True stands for a flag alone."""
    found: list[str] = []
    for name, value in pairs:
        if value is True:
            found.append(name)
        elif value is not None and value is not False:
            found += [name, str(value)]
    return tuple(found)


def flags_of(engine: Engine, pools: Pools, *, slots: int, tokens: Tokens, running: int | None) -> tuple[str, ...]:
    """The flags that give exactly this split. ``running`` None: leave the engine's own limit on running requests."""
    match engine:
        case Vllm():
            return _given(_vllm(engine, pools, running))
        case Sglang():
            return _given(_sglang(engine, pools, slots, tokens, running))
        case LlamaCpp():
            return _given(
                (
                    ("--parallel", slots),
                    ("--ctx-size", tokens),
                    ("--kv-unified", engine.unified),
                    ("--ctx-checkpoints", engine.checkpoints if pools.slot_bytes else None),
                )
            )
        case _:
            assert_never(engine)


def _vllm(engine: Vllm, pools: Pools, running: int | None) -> Pairs:
    states = pools.slot_bytes > 0
    return (
        ("--kv-cache-memory-bytes", pools.memory if engine.num_blocks is None else None),
        ("--num-gpu-blocks-override", engine.num_blocks),
        ("--max-num-seqs", running if engine.max_running is None else engine.max_running),
        ("--max-model-len", engine.max_context),
        ("--enable-prefix-caching" if engine.prefix_caching else "--no-enable-prefix-caching", True),
        ("--block-size", engine.block_tokens),
        ("--prefix-cache-retention-interval", engine.retention or None),
        ("--kv-cache-dtype", _vllm_kv(engine.kv_dtype)),
        ("--mamba-cache-dtype", engine.conv_dtype if states else None),
        ("--mamba-ssm-cache-dtype", engine.state_dtype if states else None),
    )


def _sglang(engine: Sglang, pools: Pools, slots: int, tokens: Tokens, running: int | None) -> Pairs:
    states, off = pools.slot_bytes > 0, engine.strategy == "off"
    return (
        ("--max-mamba-cache-size", slots if states and not engine.unified else None),
        ("--max-total-tokens", None if engine.unified else tokens),
        ("--max-running-requests", running if engine.max_running is None else engine.max_running),
        ("--disable-radix-cache", off),
        ("--mamba-radix-cache-strategy", engine.strategy if states and not off else None),
        ("--mamba-track-interval", engine.track_interval if states and not off else None),
        ("--page-size", engine.page_tokens if engine.page_tokens > 1 else None),
        ("--enable-unified-memory", engine.unified),
        ("--chunked-prefill-size", engine.chunk_tokens),
        ("--context-length", engine.max_context),
        ("--kv-cache-dtype", _sglang_kv(engine.kv_dtype)),
        ("--mamba-ssm-dtype", engine.state_dtype if states else None),
    )


def _vllm_kv(dtype: str | None) -> str | None:
    return None if dtype is None else {"fp8_e4m3": "fp8"}.get(dtype, dtype)


def _sglang_kv(dtype: str | None) -> str | None:
    return None if dtype is None else {"fp8": "fp8_e4m3"}.get(dtype, dtype)


def command_of(engine: Engine, model: Architecture, tp: int, flags: tuple[str, ...]) -> str:
    """The whole command line, quoted for a shell."""
    return shlex.join((*_program(engine, model, str(tp)), *flags))


def _program(engine: Engine, model: Architecture, tp: str) -> tuple[str, ...]:
    match engine:
        case Vllm():
            return ("vllm", "serve", model.name, "--tensor-parallel-size", tp)
        case Sglang():
            return ("python", "-m", "sglang.launch_server", "--model-path", model.name, "--tp-size", tp)
        case LlamaCpp():
            return ("llama-server", "--model", f"{model.name}.gguf")
        case _:
            assert_never(engine)
