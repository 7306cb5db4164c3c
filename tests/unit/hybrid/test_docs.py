"""The page in docs/ must say what the code says."""

import contextlib
import io
import re
import shlex
from pathlib import Path

import pytest

from headway.cli.main import _outcome
from headway.core.units import Bytes
from headway.hybrid.architecture import from_json, named
from headway.hybrid.geometry import Dtypes
from headway.hybrid.plan import plan
from headway.hybrid.sglang import Sglang
from headway.hybrid.timing import assumed
from headway.hybrid.workload import Workload

PAGE = (Path(__file__).parents[3] / "docs" / "resource-model.md").read_text()


def block(kind: str) -> str:
    found = re.search(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None
    return found[1]


def test_the_example_prints_the_page_that_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    program, *arguments = shlex.split(block("sh").replace("\\\n", ""))
    assert program == "headway"
    assert _outcome(arguments) == 0
    assert capsys.readouterr().out.rstrip() == block("text").rstrip()


def test_the_override_file_is_one() -> None:
    assert from_json(block("json")).state_bytes_per_sequence(4, Dtypes()) == 18_995_200


def test_the_figure_shows_the_plans_numbers() -> None:
    space: dict[str, Workload] = {}
    with contextlib.redirect_stdout(io.StringIO()):
        exec(block("python"), space)
    figure = block("mermaid")
    ratios, bars = (re.search(rf"{name}.*\[(.*)\]", figure) for name in ("x-axis", "bar"))
    assert ratios is not None
    assert bars is not None
    model = named("Ling-3.0-flash")
    timing = assumed("H200", model, 4, Sglang().dtypes(model))
    for ratio, bar in list(zip(ratios[1].split(","), bars[1].split(","), strict=True))[::3]:
        found = plan(model, Sglang(ratio=float(ratio)), Bytes(80 << 30), 4, space["workload"], timing)
        assert found.reference_concurrency == int(bar)
