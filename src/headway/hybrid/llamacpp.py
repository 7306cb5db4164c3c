"""llama.cpp's cache layout: slots. Each holds one sequence's state and its share of the context.

``--ctx-size`` is divided among ``--parallel`` slots. Up to ``--ctx-checkpoints`` states per slot lie in host memory.
"""

import msgspec

from headway.core.units import Bytes, Tokens
from headway.errors import ConfigError
from headway.hybrid.geometry import Architecture, Dtypes
from headway.hybrid.pools import Pools


class LlamaCpp(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="llamacpp"):
    """A llama.cpp server's settings that decide its cache. None: chosen by the plan.

    ``slots`` is ``--parallel``, ``context`` is ``--ctx-size`` over all of them, ``unified`` is ``--kv-unified``.
    """

    kv_dtype: str | None = None
    slots: int | None = None
    context: Tokens | None = None
    unified: bool = False
    checkpoints: int = 32

    def dtypes(self, model: Architecture) -> Dtypes:  # noqa: ARG002 - the engines share one signature
        """KV in f16 unless a flag says otherwise; states always in f32."""
        return Dtypes(kv=self.kv_dtype or "float16", conv="float32", state="float32")

    def pools(self, model: Architecture, memory: Bytes, tp: int) -> Pools:
        """The layout for a model.

        Raises:
            ConfigError: tensor parallelism, which is not how llama.cpp splits a model.
        """
        if tp != 1:
            raise ConfigError("llama.cpp is planned for one device", where="--tp", hint="use --tp 1")
        dtypes = self.dtypes(model)
        pools = Pools(
            memory=memory,
            slot_bytes=model.state_bytes_per_sequence(1, dtypes),
            token_bytes=model.kv_bytes_per_token(1, dtypes),
            token_grain=Tokens(1),
            reserve_bytes=Bytes(0),
            sequence_bytes=model.window_bytes_per_sequence(1, dtypes),
            running_slots=1,
            paused_slots=1,
            whole=not self.unified,
        )
        if self.slots is None:
            return pools
        tokens = pools.tokens_beside(self.slots, self.slots) if self.context is None else self.context
        return msgspec.structs.replace(
            pools,
            fixed=(self.slots, tokens),
            live_limit=self.slots,
            per_sequence=None if self.unified else Tokens(tokens // self.slots),
        )


def host_bytes(slots: int, pools: Pools, checkpoints: int) -> Bytes:
    """Host memory that the state checkpoints of all slots may take."""
    return Bytes(slots * checkpoints * pools.slot_bytes)
