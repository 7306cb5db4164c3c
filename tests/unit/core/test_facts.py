"""The canonical order of simultaneous facts, and units."""

import random

from headway.core.facts import (
    ActionFinished,
    ActionRequested,
    CoordinatorStarted,
    EngineJoined,
    LimitChanged,
    SampleSubmitted,
    SlotsChanged,
    TrajectoryFinished,
    TurnFinished,
    TurnRequested,
    Woke,
    canonical,
)
from headway.core.units import SECOND, nanos, seconds

IN_ORDER = [
    Woke(0),
    CoordinatorStarted(1, 0, "test"),
    SlotsChanged(1, "bash", 1),
    EngineJoined(1, "e"),
    EngineJoined(1, "f"),
    LimitChanged(1, 4),
    TurnFinished(1, "b", "main", 0, 1, 5, 5, 5),
    TurnFinished(1, "a", "main", 1, 1, 5, 5, 5),
    ActionFinished(1, "a", "main", 0, 1, 5),
    TrajectoryFinished(1, "c"),
    TurnRequested(1, "a", "main", 0, 5),
    TurnRequested(1, "a", "other", 0, 5),
    ActionRequested(1, "a", "main", 0, "bash"),
    SampleSubmitted(1, "z", 0),
    SampleSubmitted(1, "a", 1),
    Woke(1),
]


def test_what_frees_something_comes_before_what_asks_for_something():
    facts = IN_ORDER[:]
    random.Random(3).shuffle(facts)
    assert sorted(facts, key=canonical) == IN_ORDER


def test_seconds_and_back():
    assert seconds(SECOND) == 1.0
    assert nanos(0.25) == SECOND // 4
