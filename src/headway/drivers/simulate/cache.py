"""The memory of one modelled engine: contexts that lie idle, in the order in which they were last used.

Nobody pins an idle context: whatever is used least recently goes when a running turn wants room, whoever it belongs to
and whatever the coordinator believes. A context counts in full even where it shares its first prompt with others.
"""

from collections import Counter, OrderedDict
from dataclasses import dataclass
from typing import NamedTuple

from headway.core.units import StreamId, TrajectoryId


class Key(NamedTuple):
    """Whose context it is."""

    trajectory: TrajectoryId
    stream: StreamId


@dataclass(slots=True, eq=False)
class Context:
    """What a turn left behind: ``tokens`` in memory, of which the next turn can use ``usable``.

    ``family``: those that share its first prompt; it is itself a source of that prompt.
    """

    family: str
    turn: int
    tokens: int
    usable: int


class Cache:
    """Idle contexts, least recently used first, and how many contexts of a family are in memory, running or idle."""

    def __init__(self) -> None:
        self.tokens = 0
        self.evictions = 0
        self._idle: OrderedDict[Key, Context] = OrderedDict()
        self._families: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._idle)

    def has(self, family: str) -> bool:
        """Is the first prompt of a family somewhere in memory?"""
        return family in self._families

    def computed(self, family: str) -> None:
        """A running turn now has its whole prompt in memory."""
        self._families[family] += 1

    def lost(self, family: str) -> None:
        """A context that counted for its family is gone."""
        self._families[family] -= 1
        if not self._families[family]:
            del self._families[family]

    def take(self, key: Key) -> Context | None:
        """Hand an idle context to its stream's next turn, if it is still there. It keeps counting for its family."""
        context = self._idle.pop(key, None)
        if context is not None:
            self.tokens -= context.tokens
        return context

    def peek(self, key: Key) -> Context | None:
        """Look at an idle context."""
        return self._idle.get(key)

    def keep(self, key: Key, context: Context) -> None:
        """A turn is over and leaves its context behind, as the most recent one."""
        self._idle[key] = context
        self.tokens += context.tokens

    def evict(self) -> bool:
        """Give up the least recently used idle context; False where there is none."""
        if not self._idle:
            return False
        _, context = self._idle.popitem(last=False)
        self._gone(context)
        self.evictions += 1
        return True

    def free(self, key: Key) -> None:
        """Give up one idle context because its trajectory is over."""
        context = self._idle.pop(key, None)
        if context is not None:
            self._gone(context)

    def clear(self) -> None:
        """Everything is gone."""
        self._idle.clear()
        self._families.clear()
        self.tokens = 0

    def _gone(self, context: Context) -> None:
        self.tokens -= context.tokens
        self.lost(context.family)
