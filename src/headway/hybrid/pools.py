"""What an engine's layout comes down to for planning: state slots and KV tokens that share, or split, some bytes.

`vllm`, `sglang` and `llamacpp` each make one of these. All arithmetic is in whole bytes.
"""

import msgspec

from headway.core.units import Bytes, Tokens


class Pools(msgspec.Struct, frozen=True):
    """How one engine turns memory into state slots S and KV tokens T, per rank.

    Args:
        memory: bytes the engine may use for both.
        slot_bytes: one state slot; 0 for a model without recurrent layers.
        token_bytes: one KV token over the layers that keep every token.
        token_grain: KV is given out in blocks of this many tokens.
        reserve_bytes: taken before anything is given out.
        sequence_bytes: sliding-window KV of one live sequence.
        running_slots: state slots of a running request.
        paused_slots: state slots a paused trajectory needs to be resumed from where it was.
        caching: whether a paused trajectory keeps anything at all.
        fixed: (S, T) where the engine's flags already settle the split; None when it is ours to choose.
        running_limit: most requests the engine runs at once; None when nothing limits them.
        live_limit: most trajectories that can hold anything at once; None when only memory limits them.
        per_sequence: most tokens one sequence may hold; None when nothing limits it.
        whole: each sequence is given room for the longest one from the start.
    """

    memory: Bytes
    slot_bytes: Bytes
    token_bytes: Bytes
    token_grain: Tokens
    reserve_bytes: Bytes
    sequence_bytes: Bytes
    running_slots: int
    paused_slots: int
    caching: bool = True
    fixed: tuple[int, Tokens] | None = None
    running_limit: int | None = None
    live_limit: int | None = None
    per_sequence: Tokens | None = None
    whole: bool = False

    @property
    def free(self) -> int:
        """Bytes that slots and tokens share."""
        return self.memory - self.reserve_bytes

    def rounded(self, tokens: float) -> Tokens:
        """Tokens, rounded up to whole blocks."""
        return Tokens(-int(-tokens // self.token_grain) * self.token_grain)

    def bytes_of(self, slots: int, tokens: float, sequences: int = 0) -> int:
        """Bytes that so many slots, tokens and live sequences take, beside the reserve."""
        return slots * self.slot_bytes + self.rounded(tokens) * self.token_bytes + sequences * self.sequence_bytes

    def tokens_beside(self, slots: int, sequences: int = 0) -> Tokens:
        """KV tokens, in whole blocks, that fit beside so many slots and live sequences."""
        left = self.free - slots * self.slot_bytes - sequences * self.sequence_bytes
        if not self.token_bytes:
            return Tokens(0)
        return Tokens(max(0, left) // (self.token_bytes * self.token_grain) * self.token_grain)

    def slots_beside(self, tokens: float, sequences: int = 0) -> int:
        """State slots that fit beside so many tokens and live sequences; 0 for a model without states."""
        left = self.free - self.rounded(tokens) * self.token_bytes - sequences * self.sequence_bytes
        return max(0, left) // self.slot_bytes if self.slot_bytes else 0
