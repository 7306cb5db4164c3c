"""What a policy leaves open can be set, and nothing else of it changes."""

from dataclasses import replace
from typing import Any

import pytest

from headway.batch import Batch, Tuning
from headway.errors import ConfigError
from headway.policies.presets import preset
from headway.policies.residency import WithinCache


def test_knobs_reach_the_policies() -> None:
    policies, _ = preset("caas")
    tuned = Tuning(headroom=0.25, bypass=3, overtakes=7).applied(policies)
    assert tuned == replace(policies, residency=WithinCache(headroom=0.25), bypass=3, overtakes=7)
    assert Tuning().applied(policies) == policies
    assert Batch(policy="caas", tuning=Tuning(overtakes=7))._policies.overtakes == 7


def test_where_nothing_is_kept_free_headroom_means_nothing() -> None:
    policies, _ = preset("coupled-fifo")
    assert Tuning(headroom=0.25).applied(policies) == policies


@pytest.mark.parametrize(
    ("knobs", "line"),
    [
        ({"headroom": 1.0}, "headroom: must be a share below 1, is 1"),
        ({"bypass": 0}, "bypass: must be at least 1, is 0"),
        ({"overtakes": -1}, "overtakes: must be at least 1, is -1"),
    ],
)
def test_what_makes_no_sense_is_refused(knobs: dict[str, Any], line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Tuning(**knobs)
    assert str(caught.value) == line
