"""The examples of the documentation run."""

import re
from pathlib import Path

import pytest

from headway.workloads import read_settings

PAGE = (Path(__file__).parents[3] / "docs" / "simulator.md").read_text()


def block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None
    return found.group(1)


def test_the_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(block("python"), "docs/simulator.md", "exec"), {})
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["fifo", "default"]
    assert all("shorter than coupled-fifo" in line for line in lines)


def test_the_settings_can_be_read(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(block("toml"))
    setting = read_settings(file)["mine"]
    assert (setting.samples, setting.workload.alpha, setting.engine.kv_tokens) == (64, 1.8, 350_000)
