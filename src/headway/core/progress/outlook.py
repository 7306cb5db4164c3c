"""How long a batch will still take, from the chains that it has seen."""

from headway.core.progress.lives import Lives
from headway.core.progress.records import Phase, State
from headway.core.units import Nanos

FEWEST = 3
"""Chains that must be finished before anything is said."""


def residuals(progress: Lives) -> list[float]:
    """Turns that a chain still takes on average which is live after n turns, for n from 0 to the longest seen.

    Kaplan and Meier's estimate of survival, so that chains still under way count for what they are: at least that
    long. Beyond the longest seen, chains are taken to end at the rate at which they ended so far.
    """
    finished, live = progress.lengths, +progress.live_lengths
    longest = max([*finished, *live], default=0)
    at_risk = 0
    hazards = [0.0] * (longest + 1)
    for turns in range(longest, 0, -1):
        at_risk += finished[turns] + live[turns]
        hazards[turns] = finished[turns] / at_risk if at_risk else 0.0
    tail = _turns(progress) / max(1, finished.total())
    expected = [0.0] * longest + [max(1.0, tail)]
    for turns in range(longest - 1, -1, -1):
        expected[turns] = 1 + (1 - hazards[turns + 1]) * expected[turns + 1]
    return expected


def eta(progress: Lives, now: int) -> Nanos | None:
    """Time until the last sample is done, or None while there is too little to say.

    The larger of two: all turns that are left at the pace so far, and the longest that one live chain should take.
    """
    done = _turns(progress)
    first = progress.first_admission
    if first is None or progress.lengths.total() < FEWEST or now <= first or not done:
        return None
    expected = residuals(progress)
    live = +progress.live_lengths
    left = sum(count * expected[turns] for turns, count in live.items())
    left += progress.counts[State.PENDING] * expected[0]
    alone = max((expected[turns] for turns in live), default=0.0)
    per_turn = sum(progress.spent(phase, now) for phase in Phase) / done
    return Nanos(round(max(left * (now - first) / done, alone * per_turn)))


def _turns(progress: Lives) -> int:
    return sum(turns * count for part in (progress.lengths, progress.live_lengths) for turns, count in part.items())
