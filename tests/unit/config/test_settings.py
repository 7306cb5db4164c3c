"""Settings that work, and one clear line for each that does not."""

from pathlib import Path

import msgspec
import pytest

from headway.config import EngineSettings, EnvironmentSettings, Settings, load
from headway.errors import ConfigError

WHOLE = """
policy = "caas"
concurrency = 64
seed = 7
error_budget = "5%"
journal = "run.headway"
overtakes = 100

[[engines]]
url = "http://127.0.0.1:8001/"
kind = "vllm"
model = "tiny"
api_key_env = "ENGINE_KEY"

[[engines]]
url = "https://gpu.example:8443/base"
ca_file = "ca.pem"
insecure = true

[environments]
web = 4

[environments.bash]
slots = 8
instances = 32
create_rate = 2.5
kind = "process"

[timeouts]
turn = "90s"
action = "1m30s"
sample = 3600

[retry]
attempts = { lost = 3, timeout = 1 }
first = "250ms"
longest = "1m"

[residency]
headroom = 0.1
bypass = 8
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "headway.toml"


def test_a_whole_file(file: Path) -> None:
    file.write_text(WHOLE)
    settings = load(file, known=["caas"])
    one, two = settings.engines
    assert one == EngineSettings(url="http://127.0.0.1:8001", kind="vllm", model="tiny", api_key_env="ENGINE_KEY")
    assert (two.url, two.kind, two.ca_file, two.insecure) == ("https://gpu.example:8443/base", None, "ca.pem", True)
    assert settings.environments == {
        "web": EnvironmentSettings(slots=4),
        "bash": EnvironmentSettings(slots=8, instances=32, create_rate=2.5, kind="process"),
    }
    assert (settings.policy, settings.concurrency, settings.seed, settings.error_budget) == ("caas", 64, 7, 0.05)
    assert (settings.timeouts.turn, settings.timeouts.action, settings.timeouts.sample) == (90, 90, 3600)
    assert settings.retry.attempts == {"lost": 3, "timeout": 1}
    assert (settings.retry.first, settings.retry.longest) == (0.25, 60)
    assert (settings.residency.headroom, settings.residency.bypass, settings.overtakes) == (0.1, 8, 100)
    assert msgspec.json.decode(msgspec.json.encode(settings.plain()), type=Settings) == settings


def test_without_anything_the_defaults_work() -> None:
    assert load() == Settings()
    assert load(flags={"policy": None, "seed": None}) == Settings()


def test_flags_lie_over_the_file(file: Path) -> None:
    file.write_text(WHOLE)
    flags = {
        "engines": ["http://other:1"],
        "environments.bash": 2,
        "environments.web.instances": 6,
        "environments.sql": 1,
        "timeouts.turn": "5m",
        "retry.attempts.lost": 9,
        "concurrency": "unlimited",
        "policy": "static-12",
        "error_budget": 3,
    }
    settings = load(file, flags, known=["fifo", "static-N"])
    assert [engine.url for engine in settings.engines] == ["http://other:1"]
    assert settings.environments["bash"] == EnvironmentSettings(slots=2, instances=32, create_rate=2.5, kind="process")
    assert settings.environments["web"] == EnvironmentSettings(slots=4, instances=6)
    assert settings.environments["sql"] == EnvironmentSettings(slots=1)
    assert (settings.timeouts.turn, settings.timeouts.action) == (300, 90)
    assert settings.retry.attempts == {"lost": 9, "timeout": 1}
    assert (settings.concurrency, settings.policy, settings.error_budget) == (None, "static-12", 3)


def test_flags_leave_what_they_were_given_alone(file: Path) -> None:
    flags = {"environments.bash.slots": 2, "environments.bash.instances": 3}
    assert load(None, flags).environments["bash"].instances == 3
    assert flags == {"environments.bash.slots": 2, "environments.bash.instances": 3}


def test_one_engine_may_stand_alone(file: Path) -> None:
    file.write_text('engines = "http://localhost:8000"\nconcurrency = "auto"\nerror_budget = 0.5')
    settings = load(file)
    assert [engine.url for engine in settings.engines] == ["http://localhost:8000"]
    assert (settings.concurrency, settings.error_budget) == ("auto", 0.5)


BAD = [
    ("polcy = 1", "polcy: unknown setting (did you mean policy?)"),
    (
        "xyzzy = 1",
        "xyzzy: unknown setting (one of: engines, environments, policy, concurrency, seed, retry, timeouts, ",
    ),
    ("[timeouts]\ntrun = 1", "timeouts.trun: unknown setting (did you mean turn?)"),
    ("[timeouts]\nturn = '5 parsecs'", "timeouts.turn: must be a duration like 90s, 5m or 1h30m, is '5 parsecs'"),
    ("[timeouts]\nturn = '0s'", "timeouts.turn: must be more than 0 s"),
    ("[timeouts]\nturn = 0", "timeouts.turn: must be more than 0, is 0"),
    ("[timeouts]\nturn = inf", "timeouts.turn: must be a number, is inf"),
    ("[timeouts]\nturn = true", "timeouts.turn: must be a number, is True"),
    ("timeouts = 5", "timeouts: must be a table, is 5"),
    ("environments.bash = 0", "environments.bash.slots: must be at least 1, is 0"),
    ("environments.bash = 2.5", "environments.bash.slots: must be a whole number, is 2.5"),
    ("environments.bash = true", "environments.bash.slots: must be a whole number, is True"),
    ("[environments.bash]", "environments.bash.slots: is missing (a whole number, at least 1)"),
    ("environments.bash = {slots = 1, slot = 1}", "environments.bash.slot: unknown setting (did you mean slots?)"),
    ("environments.bash = {slots = 1, create_rate = 0}", "environments.bash.create_rate: must be more than 0, is 0"),
    ("engines = ['']", "engines[0].url: must be a string, is ''"),
    ("engines = [{kind = 'vllm'}]", "engines[0].url: is missing (http://HOST:PORT)"),
    ("engines = ['localhost:8000']", "engines[0].url: must look like http://HOST:PORT, is 'localhost:8000'"),
    ("engines = ['http://h:99999']", "engines[0].url: must look like http://HOST:PORT, is 'http://h:99999'"),
    ("engines = ['http://h:1', 'http://h:1/']", "engines[1].url: is that of engines[0] too (name each engine once)"),
    ("engines = [{url='http://h', kind='vlm'}]", "engines[0].kind: unknown kind 'vlm' (did you mean vllm?)"),
    ("engines = [{url='http://h', knd='vllm'}]", "engines[0].knd: unknown setting (did you mean kind?)"),
    ("engines = [{url='http://h', insecure='yes'}]", "engines[0].insecure: must be true or false, is 'yes'"),
    ("policy = 'dflt'", "policy: unknown policy 'dflt' (did you mean default?)"),
    ("policy = 'static-0'", "policy: unknown policy 'static-0' (did you mean static-N?)"),
    ("concurrency = 0", "concurrency: must be at least 1, is 0"),
    ("concurrency = 'many'", "concurrency: must be a number, auto or unlimited, is 'many'"),
    ("seed = -1", "seed: must be at least 0, is -1"),
    ("error_budget = 1.5", "error_budget: must be a whole number of samples, or a share of them below 1 ("),
    (
        "error_budget = '100%'",
        "error_budget: must be a whole number of samples, or a share of them below 1 (",
    ),
    ("error_budget = 'x%'", "error_budget: must be a percentage above 0, is 'x%'"),
    ("error_budget = -1", "error_budget: must be at least 0, is -1"),
    ("retry.attempts.lots = 3", "retry.attempts.lots: unknown setting (did you mean lost?)"),
    ("retry.attempts.lost = 0", "retry.attempts.lost: must be at least 1, is 0"),
    ("retry = {first = '2s', longest = '1s'}", "retry.longest: must be at least first (2 s), is 1 s"),
    ("residency.headroom = 1.0", "residency.headroom: must be below 1, is 1"),
    ("residency.headroom = -0.5", "residency.headroom: must be at least 0, is -0.5"),
    ("journal = 3", "journal: must be a string, is 3"),
    ("policy = ", "is not valid TOML: Invalid value (at end of document)"),
    ("a = 1\na = 2\n", "is not valid TOML: Cannot overwrite a value (at line 2, column 6)"),
]


@pytest.mark.parametrize(("text", "line"), BAD, ids=[text.replace("\n", " ") for text, _ in BAD])
def test_a_setting_that_cannot_be_used(file: Path, text: str, line: str) -> None:
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load(file, known=["default", "caas", "static-N"])
    assert str(caught.value).startswith(f"{file}: {line}")
    assert "\n" not in str(caught.value)


def test_a_flag_is_named_without_the_file(file: Path) -> None:
    file.write_text("[environments.bash]\nslots = 3")
    for flags, line in (
        ({"environments.bash": 0}, "environments.bash.slots: must be at least 1, is 0"),
        ({"environments.bash.slot": 1}, "environments.bash.slot: unknown setting (did you mean slots?)"),
        ({"polisy": "x"}, "polisy: unknown setting (did you mean policy?)"),
        ({"engines": ["ftp://h"]}, "engines[0].url: must look like http://HOST:PORT, is 'ftp://h'"),
    ):
        with pytest.raises(ConfigError) as caught:
            load(file, flags)
        assert str(caught.value) == line


def test_a_file_that_cannot_be_read(file: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="can't be read: No such file"):
        load(file)
    with pytest.raises(ConfigError, match="can't be read: Is a directory"):
        load(tmp_path)
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="is not a text file in UTF-8"):
        load(file)


def test_secrets_stay_out_of_settings() -> None:
    for url in ("http://me:secret@host", "http://host/?key=secret", "http://host/#secret"):
        with pytest.raises(ConfigError, match="must hold no password") as caught:
            load(flags={"engines": [url]})
        assert "secret" not in str(caught.value)
    engine = EngineSettings(url="http://host", api_key_env="KEY")
    assert engine.api_key({"KEY": "secret"}) == "secret"
    assert EngineSettings(url="http://host").api_key({}) is None
    with pytest.raises(ConfigError, match="http://host: the environment variable KEY is not set"):
        engine.api_key({})
    assert "secret" not in repr(engine)
