"""The plan: how to split memory, how many trajectories to keep live, which flags to pass, what would help.

`plan` is the package's entrance. Without a workload or a time model it gives bytes and limits only, and says why.
"""

from typing import TypedDict

import msgspec

from headway.core.units import Bytes, Tokens
from headway.errors import ConfigError
from headway.hybrid import advice
from headway.hybrid.capacity import Loop, Reference, Scene, reference
from headway.hybrid.engines import Engine, kind_of
from headway.hybrid.flags import command_of, flags_of
from headway.hybrid.geometry import Architecture, Dtypes, check_tp, dtype_bytes
from headway.hybrid.llamacpp import LlamaCpp
from headway.hybrid.outcome import Outcome, Prediction
from headway.hybrid.pools import Pools
from headway.hybrid.reuse import Reuse, recomputed, reuse
from headway.hybrid.sglang import DEFAULT_RATIO, Sglang, slots_of_ratio
from headway.hybrid.timing import Timing
from headway.hybrid.vllm import Layout, Vllm
from headway.hybrid.workload import Workload

GIB = 1 << 30
_USUAL_CONTEXT = Tokens(32_768)


class Plan(msgspec.Struct, frozen=True):
    """A plan for one engine. Bytes are per rank. Null: not known, and ``reason`` says why."""

    model: str
    family: str
    source: str
    engine: str
    tp: int
    memory: Bytes
    dtypes: Dtypes
    kv_bytes_per_token: Bytes
    state_bytes_per_sequence: Bytes
    window_bytes_per_sequence: Bytes
    state_slots: int
    kv_tokens: Tokens
    slots_per_running_request: int
    block_tokens: int
    num_blocks: int | None
    layout: Layout | None
    reference_concurrency: int | None
    largest_concurrency: int | None
    max_running_requests: int | None
    binding: str | None
    reason: str | None
    prediction: Prediction | None
    default: Outcome | None
    gains: tuple[Outcome, ...]
    flags: tuple[str, ...]
    command: str
    warnings: tuple[advice.Warning, ...]
    workload: Workload | None
    constants: str | None


class _Solution(msgspec.Struct, frozen=True):
    engine: Engine
    pools: Pools
    slots: int
    tokens: Tokens
    scene: Scene | None = None
    found: Reference | None = None
    reused: Reuse | None = None

    @property
    def loop(self) -> Loop | None:
        """The steady state at the reference concurrency, if there is one."""
        if self.scene is None or self.found is None or not self.found.live:
            return None
        return self.scene.loop(self.found.live)

    @property
    def running(self) -> int | None:
        """Requests to allow at once."""
        if self.scene is None or self.loop is None:
            return None
        return max(1, self.scene.demand(self.loop.live).running)

    @property
    def tokens_per_second(self) -> float:
        """Output tokens of one engine."""
        if self.scene is None or self.loop is None:
            return 0.0
        return self.loop.rate * self.scene.workload.output.mean


def plan(
    architecture: Architecture,
    engine: Engine,
    memory: Bytes,
    tp: int,
    workload: Workload | None = None,
    constants: Timing | None = None,
) -> Plan:
    """Plan one engine replica.

    Args:
        architecture: the model, from `architecture.from_config`, `from_json` or `named`.
        engine: a `Vllm`, `Sglang` or `LlamaCpp` with the settings that are already decided.
        memory: bytes per rank that the engine may use for KV and state.
        tp: tensor-parallel size.
        workload: from `workload.from_turns` or `by_hand`; None: bytes and limits only.
        constants: a time model, `timing.Fitted` or `timing.assumed`; None: bytes and limits only.

    Raises:
        ConfigError: sizes that can't be, or memory that doesn't hold even one block or slot.
    """
    check_tp(tp)
    if memory <= 0:
        raise ConfigError(f"{memory} bytes is no cache", where="--memory", hint="give bytes per rank, as 80GiB")
    solution = _solve(architecture, engine, memory, tp, workload, constants)
    default = _default(architecture, solution, memory, tp)
    layout = engine.layout(architecture, memory, tp) if isinstance(engine, Vllm) else None
    flags = flags_of(engine, solution.pools, slots=solution.slots, tokens=solution.tokens, running=solution.running)
    found = solution.found
    return Plan(
        **_bytes(architecture, engine, memory, tp),
        state_slots=solution.slots,
        kv_tokens=solution.tokens,
        slots_per_running_request=solution.pools.running_slots,
        block_tokens=solution.pools.token_grain,
        num_blocks=None if layout is None else layout.num_blocks,
        layout=layout,
        reference_concurrency=None if found is None else found.live or None,
        largest_concurrency=None if found is None else found.largest,
        max_running_requests=solution.running,
        binding=None if found is None else found.binding,
        reason=_reason(workload, constants, found),
        prediction=_predict(solution),
        default=default,
        gains=() if solution.loop is None else _gains(architecture, solution, memory, tp),
        flags=flags,
        command=command_of(engine, architecture, tp, flags),
        warnings=advice.warnings(_case(architecture, solution, layout, workload, default)),
        workload=workload,
        constants=None if constants is None else constants.label,
    )


class _Bytes(TypedDict):
    model: str
    family: str
    source: str
    engine: str
    tp: int
    memory: Bytes
    dtypes: Dtypes
    kv_bytes_per_token: Bytes
    state_bytes_per_sequence: Bytes
    window_bytes_per_sequence: Bytes


def _bytes(model: Architecture, engine: Engine, memory: Bytes, tp: int) -> _Bytes:
    dtypes = engine.dtypes(model)
    return _Bytes(
        model=model.name,
        family=model.family,
        source=model.source,
        engine=kind_of(engine),
        tp=tp,
        memory=memory,
        dtypes=dtypes,
        kv_bytes_per_token=model.kv_bytes_per_token(tp, dtypes),
        state_bytes_per_sequence=model.state_bytes_per_sequence(tp, dtypes, _speculative(engine)),
        window_bytes_per_sequence=model.window_bytes_per_sequence(tp, dtypes),
    )


def _case(
    model: Architecture,
    solution: _Solution,
    layout: Layout | None,
    workload: Workload | None,
    default: Outcome | None,
) -> advice.Case:
    return advice.Case(
        model=model,
        engine=solution.engine,
        pools=solution.pools,
        layout=layout,
        slots=solution.slots,
        tokens=solution.tokens,
        workload=workload,
        live=None if solution.found is None else solution.found.live,
        loop=solution.loop,
        running=solution.running,
        default_live=None if default is None else default.reference_concurrency,
    )


def _speculative(engine: Engine) -> int:
    return 0 if isinstance(engine, LlamaCpp) else engine.speculative


def _reason(workload: Workload | None, constants: Timing | None, found: Reference | None) -> str | None:
    if workload is None:
        return "no workload: how long trajectories get, and how long they act, is not known"
    if constants is None:
        return "no time model: fit one from a run (--fit) or assume a device's (--device)"
    if found is not None and not found.live:
        return f"not even one trajectory of this workload fits: {found.binding} is short"
    return None


def _solve(
    model: Architecture,
    engine: Engine,
    memory: Bytes,
    tp: int,
    workload: Workload | None,
    constants: Timing | None,
) -> _Solution:
    pools = engine.pools(model, memory, tp)
    _check_memory(pools)
    if workload is None or constants is None:
        return _Solution(engine, pools, *_neutral(model, engine, pools))
    again = recomputed(engine, model, pools, workload)
    scene = Scene(pools, workload, constants, again)
    found = reference(scene)
    if pools.fixed is not None:
        slots, tokens = pools.fixed
    elif not found.largest:
        slots, tokens = _neutral(model, engine, pools)
    else:
        need = scene.demand(found.largest)
        slots = max(need.slots, pools.running_slots) if pools.slot_bytes else 0
        if isinstance(engine, LlamaCpp):
            slots = found.largest
        tokens = pools.tokens_beside(slots, found.largest)
    return _Solution(engine, pools, slots, tokens, scene, found, reuse(again, workload))


def _check_memory(pools: Pools) -> None:
    least = pools.bytes_of(pools.running_slots, 1, 1)
    if pools.fixed is None and least > pools.free:
        raise ConfigError(
            f"one running request takes {least + pools.reserve_bytes} bytes, the cache has {pools.memory}",
            where="--memory",
            hint="give more memory, more ranks or smaller dtypes",
        )


def _neutral(model: Architecture, engine: Engine, pools: Pools) -> tuple[int, Tokens]:
    """A split that needs no workload: the engine's own default, or sequences as long as the model allows."""
    if pools.fixed is not None:
        return pools.fixed
    if isinstance(engine, Sglang) and pools.slot_bytes:
        slots = slots_of_ratio(pools.memory, pools.slot_bytes, DEFAULT_RATIO)
        return slots, pools.tokens_beside(slots)
    wanted = None if isinstance(engine, LlamaCpp) else engine.max_context
    length = wanted or model.max_context or _USUAL_CONTEXT
    each = pools.running_slots if pools.slot_bytes or isinstance(engine, LlamaCpp) else 0
    sequences = max(1, pools.free // max(1, pools.bytes_of(each, length, 1)))
    return each * sequences, pools.tokens_beside(each * sequences, sequences)


def _predict(solution: _Solution) -> Prediction | None:
    scene, loop, reused = solution.scene, solution.loop, solution.reused
    if scene is None or loop is None or reused is None:
        return None
    return Prediction(
        running=loop.running,
        inference_share=loop.share,
        turn_seconds=loop.live / loop.rate - scene.workload.action.mean,
        turns_per_second=loop.rate,
        output_tokens_per_second=solution.tokens_per_second,
        hit_rate=reused.hit_rate,
        recompute_share=reused.recompute_share,
        recomputed_per_turn=reused.recomputed,
    )


def _outcome(change: str, solution: _Solution, replicas: int = 1) -> Outcome:
    live = 0 if solution.found is None else solution.found.live
    return Outcome(
        change,
        solution.slots * replicas,
        Tokens(solution.tokens * replicas),
        live * replicas,
        solution.tokens_per_second * replicas,
    )


def _default(model: Architecture, solution: _Solution, memory: Bytes, tp: int) -> Outcome | None:
    """What SGLang's default ratio gives, where the split is ours to choose."""
    engine, scene = solution.engine, solution.scene
    if not isinstance(engine, Sglang) or scene is None or solution.pools.fixed is not None:
        return None
    if engine.unified or not solution.pools.slot_bytes:
        return None
    if slots_of_ratio(memory, solution.pools.slot_bytes, DEFAULT_RATIO) < solution.pools.running_slots:
        return None
    usual = msgspec.structs.replace(engine, ratio=DEFAULT_RATIO)
    other = _solve(model, usual, memory, tp, scene.workload, scene.timing)
    return _outcome(f"the default ratio {DEFAULT_RATIO}", other)


def _gains(model: Architecture, solution: _Solution, memory: Bytes, tp: int) -> tuple[Outcome, ...]:
    """One more GiB, one more replica, a smaller state dtype, a smaller KV dtype: each on its own."""
    engine = solution.engine
    if isinstance(engine, Vllm) and engine.num_blocks is not None:
        engine, memory = msgspec.structs.replace(engine, num_blocks=None), solution.pools.memory
    found = [
        _outcome("one more GiB per rank", _again(model, solution, engine, Bytes(memory + GIB), tp)),
        _outcome("one more replica (of both)", solution, 2),
    ]
    dtypes = engine.dtypes(model)
    if not isinstance(engine, LlamaCpp):
        if solution.pools.slot_bytes and dtype_bytes(dtypes.state, where="state dtype") > 2:
            smaller = msgspec.structs.replace(engine, state_dtype="bfloat16")
            found.append(_outcome("states in bfloat16", _again(model, solution, smaller, memory, tp)))
        if dtype_bytes(dtypes.kv, where="KV dtype") > 1:
            smaller = msgspec.structs.replace(engine, kv_dtype="fp8")
            found.append(_outcome("KV in fp8", _again(model, solution, smaller, memory, tp)))
    return tuple(found)


def _again(model: Architecture, solution: _Solution, engine: Engine, memory: Bytes, tp: int) -> _Solution:
    scene = solution.scene
    workload, timing = (None, None) if scene is None else (scene.workload, scene.timing)
    return _solve(model, engine, memory, tp, workload, timing)
