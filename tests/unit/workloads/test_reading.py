"""Settings from TOML: everything that can be said, and one clear line for what can't."""

from pathlib import Path

import pytest

from headway.core.units import EnvironmentId
from headway.errors import ConfigError
from headway.workloads import ACCEPTANCE, find_setting, read_settings
from headway.workloads.setting import ACTING


def write(folder: Path, text: str) -> Path:
    file = folder / "settings.toml"
    file.write_text(text)
    return file


def test_a_table_says_what_differs_from_the_defaults(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        """
        [defaults]
        samples = 64
        slots = 24
        engine = { a = 0.02, prefill = 8000, kv_tokens = 100_000 }
        workload = { mean = 20, out = 100 }
        [one]
        [two]
        group = 4
        resume_seconds = 3
        engine = { kv_tokens = 5000, state_slots = 0, keeps_decode = false, forgets = true, block_tokens = 16 }
        workload = { length = "pareto", alpha = 2.5 }
        """,
    )
    settings = read_settings(file)
    one, two = settings["one"], settings["two"]
    assert (one.samples, one.group, one.engines, one.environments[ACTING].slots) == (64, 8, 4, 24)
    assert one.engine.cost.base == 0.02
    assert one.engine.cost.prefill == 1 / 8000
    assert (one.engine.kv_tokens, one.engine.state_slots, one.engine.keeps_decode) == (100_000, 256, True)
    assert (one.workload.mean, one.workload.out) == (20, 100)
    assert (two.group, two.engine.kv_tokens, two.engine.state_slots) == (4, 5000, None)
    assert (two.engine.keeps_decode, two.engine.forgets, two.engine.block_tokens) == (False, True, 16)
    assert (two.workload.length, two.workload.alpha, two.workload.mean) == ("pareto", 2.5, 20)
    assert two.environments[ACTING].resume_seconds == 3
    assert two.source == f"synthetic: {file}"


def test_nothing_said_is_the_first_setting_of_the_comparison(tmp_path: Path) -> None:
    (setting,) = read_settings(write(tmp_path, "[E1]\nsource = 'mine'")).values()
    first = ACCEPTANCE["E1"]
    assert (setting.workload, setting.engine, setting.environments) == (
        first.workload,
        first.engine,
        first.environments,
    )
    assert setting.source == "mine"


def test_several_environments(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        """
        [web]
        [web.environments.search]
        slots = 4
        share = 3
        [web.environments.browser]
        slots = 2
        instances = 6
        create_seconds = 20
        create_interval = 0.5
        seconds = 2.5
        """,
    )
    places = read_settings(file)["web"].environments
    assert list(places) == ["search", "browser"]
    browser = places[EnvironmentId("browser")]
    assert (browser.instances, browser.create_seconds, browser.create_interval, browser.seconds) == (6, 20, 0.5, 2.5)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("x = [", "is not TOML"),
        ("[defaults]", "holds no setting"),
        ("[a]\nsamples = 0", "a.samples: must be at least 1"),
        ("[a]\nsample = 9", r"a.sample: unknown setting \(did you mean samples"),
        ("a = 3", "a: must be a table"),
        ("[a.workload]\nlength = 'lognorm'", "a.workload.length: unknown distribution 'lognorm'"),
        ("[a.workload]\nmean = 1", "the mean length must be above 1"),
        ("[a.workload]\nmeen = 3", "a.workload.meen: unknown setting"),
        ("[a.workload]\ncap = 0", "a.workload.cap"),
        ("[a.engine]\nprefill = 0", "a.engine.prefill: must be more than 0"),
        ("[a.engine]\nb = -1", "a.engine.b: must be at least 0"),
        ("[a.environments.web]\nslots = 0", "a.environments.web.slots"),
        ("[a.environments.web]", "a.environments.web.slots: is missing"),
        ("[a.environments.web]\nslots = 1\nslot = 1", "a.environments.web.slot: unknown"),
    ],
)
def test_what_can_not_be_used_is_one_line(tmp_path: Path, text: str, what: str) -> None:
    file = write(tmp_path, text)
    with pytest.raises(ConfigError, match=what) as caught:
        read_settings(file)
    assert str(file) in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="can't be read"):
        read_settings(tmp_path / "none.toml")


def test_a_setting_that_is_not_there() -> None:
    assert find_setting("E1", ACCEPTANCE) is ACCEPTANCE["E1"]
    with pytest.raises(ConfigError, match="there is no setting 'E11'"):
        find_setting("E11", ACCEPTANCE)
