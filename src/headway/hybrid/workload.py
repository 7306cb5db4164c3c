"""What a batch of trajectories asks of an engine: turns, prompts, growth, outputs and action times, with spreads.

Made from recorded turns, or from a few numbers by hand. Times are in seconds, lengths in tokens.
"""

import bisect
import itertools
import math
from collections.abc import Iterable, Sequence

import msgspec

from headway.core.units import Nanos, Tokens, TrajectoryId, seconds
from headway.errors import ConfigError

_NONE = Tokens(0)


class Spread(msgspec.Struct, frozen=True):
    """A distribution in five numbers. By hand, ``p95`` and ``most`` are what a normal one would have."""

    mean: float
    sd: float = 0.0
    p50: float = 0.0
    p95: float = 0.0
    most: float = 0.0

    @staticmethod
    def of(values: Sequence[float], weights: Sequence[float] | None = None) -> "Spread":
        """The spread of a sample, each value counting by its weight. Empty: all zero."""
        if not values:
            return Spread(0.0)
        shares = [1.0] * len(values) if weights is None or not sum(weights) else weights
        total = sum(shares)
        mean = sum(v * w for v, w in zip(values, shares, strict=True)) / total
        variance = sum(w * (v - mean) ** 2 for v, w in zip(values, shares, strict=True)) / total
        ordered = sorted(zip(values, shares, strict=True))
        return Spread(mean, math.sqrt(variance), _quantile(ordered, 0.5), _quantile(ordered, 0.95), ordered[-1][0])

    @staticmethod
    def guess(mean: float, sd: float = 0.0) -> "Spread":
        """A spread from a mean and a standard deviation."""
        tail = mean + 1.645 * sd
        return Spread(mean, sd, mean, tail, max(tail, mean + 3 * sd))


def _quantile(ordered: Sequence[tuple[float, float]], share: float) -> float:
    """The least value that at least ``share`` of the weight does not exceed."""
    reached = list(itertools.accumulate(weight for _, weight in ordered))
    goal = share * reached[-1] * (1 - 1e-12)
    return ordered[bisect.bisect_left(reached, goal)][0]


class TurnRecord(msgspec.Struct, frozen=True):
    """One recorded turn and the action after it. ``action`` None: none followed. ``service``: the turn's own time."""

    trajectory: TrajectoryId
    turn: int
    prompt_tokens: Tokens
    output_tokens: Tokens
    action: Nanos | None = None
    service: Nanos | None = None


class Workload(msgspec.Struct, frozen=True):
    """A profile of trajectories.

    ``growth``: new prompt tokens per turn after the first. ``context``: tokens held at a random moment of a
    trajectory's life, the turn's own output included. ``longest``: tokens a trajectory holds in the end.
    ``action``: seconds between two turns, predicted slot wait included. ``shrunk``: turns whose prompt was
    shorter than what came before, so that nothing of it could be reused. ``shared_prefix``: tokens that all
    first prompts have in common, 0 when there are none or it is not known.
    """

    source: str
    trajectories: int
    turns: Spread
    first_prompt: Spread
    growth: Spread
    output: Spread
    action: Spread
    context: Spread
    longest: Spread
    shrunk: int = 0
    shared_prefix: Tokens = Tokens(0)

    @property
    def new_tokens(self) -> float:
        """Prompt tokens per turn that no turn before it had, first prompts included."""
        turns = self.turns.mean
        return (self.first_prompt.mean + max(0.0, turns - 1) * self.growth.mean) / turns

    @property
    def later_turns(self) -> float:
        """The share of turns that are not a trajectory's first."""
        return max(0.0, self.turns.mean - 1) / self.turns.mean


def from_turns(records: Iterable[TurnRecord], *, source: str, shared_prefix: Tokens = _NONE) -> Workload:
    """The profile of recorded turns, in any order.

    Raises:
        ConfigError: no turns, or a negative number in one.
    """
    chains: dict[TrajectoryId, list[TurnRecord]] = {}
    for record in records:
        if min(record.prompt_tokens, record.output_tokens, record.action or 0, record.service or 0) < 0:
            raise ConfigError(f"turn {record.turn} of {record.trajectory} has a negative number", where=source)
        chains.setdefault(record.trajectory, []).append(record)
    if not chains:
        raise ConfigError("no turns in it", where=source, hint="give a recording with at least one finished turn")
    ordered = [sorted(chain, key=lambda record: record.turn) for _, chain in sorted(chains.items())]
    turns = [record for chain in ordered for record in chain]
    pairs = [pair for chain in ordered for pair in itertools.pairwise(chain)]
    steps = [after.prompt_tokens - before.prompt_tokens - before.output_tokens for before, after in pairs]
    held = [float(record.prompt_tokens + record.output_tokens) for record in turns]
    times = [seconds(Nanos((record.action or 0) + (record.service or 0))) for record in turns]
    ends = [float(chain[-1].prompt_tokens + chain[-1].output_tokens) for chain in ordered]
    return Workload(
        source=source,
        trajectories=len(ordered),
        turns=Spread.of([float(len(chain)) for chain in ordered]),
        first_prompt=Spread.of([float(chain[0].prompt_tokens) for chain in ordered]),
        growth=Spread.of([float(max(0, step)) for step in steps]),
        output=Spread.of([float(record.output_tokens) for record in turns]),
        action=Spread.of([seconds(record.action) for record in turns if record.action is not None]),
        context=Spread.of(held, times),
        longest=Spread.of(ends),
        shrunk=sum(1 for step in steps if step < 0),
        shared_prefix=shared_prefix,
    )


class ByHand(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The few numbers that a profile by hand takes; ``*_sd`` are standard deviations."""

    turns: float
    first_prompt: float
    growth: float
    output: float
    action: float
    turns_sd: float = 0.0
    first_prompt_sd: float = 0.0
    growth_sd: float = 0.0
    output_sd: float = 0.0
    action_sd: float = 0.0
    shared_prefix: Tokens = Tokens(0)


def by_hand(numbers: ByHand) -> Workload:
    """The profile that a few numbers imply.

    At a random turn, k-1 turns lie behind with mean E[K(K-1)]/2E[K] and second moment
    E[K(K-1)(2K-1)]/6E[K]; K's third moment is taken from a gamma distribution. Contexts follow from
    L = first prompt + (k-1)(growth + output) + output.

    Raises:
        ConfigError: a negative number, or less than one turn.
    """
    for field in numbers.__struct_fields__:
        if getattr(numbers, field) < 0:
            raise ConfigError(f"{field} is negative", where="workload")
    if numbers.turns < 1:
        raise ConfigError("a trajectory has at least one turn", where="workload, turns")
    behind, spread = _turns_behind(numbers.turns, numbers.turns_sd)
    step = numbers.growth + numbers.output
    fixed = numbers.first_prompt + numbers.output
    noise = numbers.first_prompt_sd**2 + numbers.output_sd**2
    per_turn = numbers.growth_sd**2 + numbers.output_sd**2
    context_sd = math.sqrt(noise + behind * per_turn + step**2 * spread)
    last = numbers.turns - 1
    longest_sd = math.sqrt(noise + last * per_turn + (step * numbers.turns_sd) ** 2)
    longest = Spread.guess(fixed + last * step, longest_sd)
    context = Spread.guess(fixed + behind * step, context_sd)
    return Workload(
        source="by hand",
        trajectories=0,
        turns=Spread.guess(numbers.turns, numbers.turns_sd),
        first_prompt=Spread.guess(numbers.first_prompt, numbers.first_prompt_sd),
        growth=Spread.guess(numbers.growth, numbers.growth_sd),
        output=Spread.guess(numbers.output, numbers.output_sd),
        action=Spread.guess(numbers.action, numbers.action_sd),
        context=msgspec.structs.replace(
            context, p95=min(context.p95, longest.p95), most=min(context.most, longest.most)
        ),
        longest=longest,
        shared_prefix=numbers.shared_prefix,
    )


def _turns_behind(mean: float, sd: float) -> tuple[float, float]:
    """Mean and variance of the number of turns that lie behind a random turn."""
    second = mean**2 + sd**2
    third = mean**3 + 3 * mean * sd**2 + 2 * sd**4 / mean
    behind = (second - mean) / (2 * mean)
    square = (2 * third - 3 * second + mean) / (6 * mean)
    return behind, max(0.0, square - behind**2)
