"""The geometry of a live engine as the resource model compares it: what it reports, unsplit."""

from headway.adapters.engines.engine import OpenAIEngine
from headway.adapters.engines.vllm import Vllm
from headway.core.units import Nanos
from headway.hybrid.measured import Measured


async def measure(engine: OpenAIEngine) -> Measured:
    """Ask an engine what it holds. Of several data-parallel ranks behind one URL the first counts.

    Raises: ``ConfigError`` (nobody there, not an engine), ``EngineError``.
    """
    fact = await engine.join(Nanos(0))
    found = Measured(
        engine=fact.kind,
        url=str(fact.engine),
        block_tokens=fact.block_tokens,
        kv_tokens=fact.kv_tokens,
        state_slots=fact.state_slots,
        max_running=fact.max_running,
        max_context=fact.max_context,
    )
    if fact.kind != Vllm.kind:
        return found
    pools = await Vllm().pools(engine.wire, fact.max_context)
    pool = pools[0] if pools else None
    return Measured(
        engine=fact.kind,
        url=str(fact.engine),
        block_tokens=None if pool is None else pool.block,
        num_blocks=None if pool is None else pool.blocks,
        max_context=fact.max_context,
        concurrency=None if pool is None else pool.concurrency,
    )
