"""The names, and what stands behind them."""

import pytest

from headway.errors import ConfigError
from headway.policies.presets import NAMES, preset, with_seed
from headway.policies.priority import Random
from headway.policies.residency import Uncontrolled


@pytest.mark.parametrize("name", [name for name in NAMES if name != "static-N"])
def test_every_name_is_a_policy_of_that_name(name):
    policies, limit = preset(name)
    assert policies.name == name
    assert limit is None
    assert policies.coupled is (name == "coupled-fifo")


def test_static_brings_its_limit_and_controls_nothing_else():
    policies, limit = preset("static-48")
    assert limit == 48
    assert isinstance(policies.residency, Uncontrolled)


@pytest.mark.parametrize("name", ["static-0", "static--1", "static-many", "nonsense", ""])
def test_an_unknown_name_is_refused_with_the_known_ones(name):
    with pytest.raises(ConfigError, match=r"unknown policy .*one of: .*coupled-fifo.*static-N"):
        preset(name)


def test_a_seed_reaches_the_lottery_and_changes_nothing_else():
    assert with_seed(preset("random")[0], 7).priority == Random(7)
    fifo = preset("fifo")[0]
    assert with_seed(fifo, 7) is fifo
