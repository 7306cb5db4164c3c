"""What goes into a batch, and what comes out."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

import msgspec

from headway.errors import ConfigError


class Sample(msgspec.Struct, frozen=True):
    """One task.

    Args:
        id: unique within the batch; a resumed batch knows it by this.
        data: whatever the agent needs; Headway doesn't look at it.
        group: samples with the same group share a prompt (repeats for pass@k, rollouts of one prompt).
        hint: your guess at the number of actions, for the policy ``longest-first``.
        prompt_tokens: your guess at the first prompt's length; 0 when unknown.
        environments: the environments it may act in; empty: all of them.
    """

    id: str
    data: Any = None
    group: str | None = None
    hint: float | None = None
    prompt_tokens: int = 0
    environments: tuple[str, ...] = ()


class Result(msgspec.Struct, frozen=True):
    """How one sample ended: with a ``value``, or with a ``failure`` that says why it has none.

    ``recalled``: it was finished by an earlier run of this journal, and not run again.
    """

    id: str
    value: Any = None
    failure: str | None = None
    group: str | None = None
    attempt: int = 1
    recalled: bool = False

    @property
    def ok(self) -> bool:
        """True unless it failed."""
        return self.failure is None


def checked(samples: Iterable[Sample]) -> list[Sample]:
    """The samples as a list. Raises: ``ConfigError`` if an id is empty or comes twice."""
    listed = list(samples)
    counts = Counter(sample.id for sample in listed)
    twice = [name for name, times in counts.items() if times > 1]
    if twice:
        more = f" and {len(twice) - 1} more" if len(twice) > 1 else ""
        raise ConfigError(f"the sample id {twice[0]!r}{more} comes twice", hint="every sample needs an id of its own")
    if "" in counts:
        raise ConfigError("a sample has an empty id", hint="every sample needs an id of its own")
    return listed
