"""The pages in docs/ say what is: their examples run, their tables name every command and flag."""

import doctest
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

import headway
from headway.cli.compose import NAMES
from headway.cli.main import app
from headway.config import load
from headway.suites import tasks

DOCS = Path(__file__).parents[3] / "docs"
PAGES = sorted(page.name for page in DOCS.rglob("*.md") if ">>> " in page.read_text())


@pytest.mark.parametrize("page", PAGES)
def test_the_examples_of_a_page_run(page: str, engine: str, here: Path) -> None:
    [path] = DOCS.rglob(page)
    text = re.sub(r"^```.*$", "", path.read_text(), flags=re.MULTILINE)
    test = doctest.DocTestParser().get_doctest(text, {"ENGINE": engine}, page, str(path), 0)
    found = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test)
    assert (found.failed, found.attempted > 0) == (0, True)


def test_the_example_of_the_package_runs() -> None:
    found = doctest.testmod(headway)
    assert (found.failed, found.attempted > 0) == (0, True)


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], list[str]]]:
    inner = getattr(command, "commands", None)
    if inner:
        for name, sub in inner.items():
            yield from commands(sub, (*path, name))
    else:
        yield path, [flag for option in command.params for flag in option.opts if flag.startswith("--")]


def test_the_command_line_page_names_every_command_and_flag() -> None:
    page = (DOCS / "command-line.md").read_text()
    for path, flags in commands(typer.main.get_command(app)):
        assert f"`headway {path[0]}" in page, path
        assert path[-1] in page, path
        if path[0] not in {"plan", "simulate", "bakeoff"}:  # their flags stand on pages of their own
            missing = [flag for flag in flags if f"`{flag}" not in page and flag != "--help"]
            assert not missing, path


def test_its_config_file_is_one(here: Path) -> None:
    [text] = re.findall(r"```toml\n(.*?)```", (DOCS / "command-line.md").read_text(), re.DOTALL)
    (here / "headway.toml").write_text(text)
    settings = load(here / "headway.toml", known=NAMES)
    assert [engine.url for engine in settings.engines] == ["http://gpu1:8000", "https://gpu2:8000"]
    assert settings.timeouts.action == 90


def test_its_task_is_one(here: Path) -> None:
    [text] = re.findall(r"```json\n(.*?)```", (DOCS / "command-line.md").read_text(), re.DOTALL)
    (here / "t.jsonl").write_text(text)
    assert [sample.id for sample in tasks.load(here / "t.jsonl")] == ["t1"]
