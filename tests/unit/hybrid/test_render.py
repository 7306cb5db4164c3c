"""The page, and the budget that precedes it."""

import msgspec
import pytest

from headway.core.units import Bytes
from headway.errors import ConfigError
from headway.hybrid.architecture import named
from headway.hybrid.budget import Budget, parse_bytes, show_bytes
from headway.hybrid.geometry import Architecture, Layers, Recurrent
from headway.hybrid.plan import plan
from headway.hybrid.render import render, render_workload
from headway.hybrid.sglang import Sglang
from headway.hybrid.timing import assumed
from headway.hybrid.vllm import Vllm
from headway.hybrid.workload import ByHand, by_hand

GIB = 1 << 30
LING = named("Ling-3.0-flash")
WORK = by_hand(ByHand(turns=30, first_prompt=6000, growth=900, output=250, action=12))


def test_the_page_says_everything_the_plan_knows() -> None:
    engine = Sglang()
    found = plan(LING, engine, Bytes(40 * GIB), 4, WORK, assumed("H100", LING, 4, engine.dtypes(LING)))
    page = render(found)
    assert "state per sequence          18.12 MiB in float32, as much as 2,356 tokens of KV" in page
    assert f"live trajectories           {found.reference_concurrency} (at most" in page
    assert "bound by                    memory: state and KV run out together" in page
    assert "time model                  assumed from the data sheet of H100" in page
    assert "Had you kept the default" in page
    assert "one more replica (of both)" in page
    assert "[sglang#25993]" in page
    assert page.rstrip().endswith(found.command)
    assert max(len(line) for line in page.splitlines() if "launch_server" not in line) < 200


def test_the_page_without_a_workload_says_why() -> None:
    page = render(plan(LING, Vllm(), Bytes(40 * GIB), 4))
    assert "not known: no workload" in page
    assert "blocks of 512 tokens" in page
    assert "Had you kept" not in page


def test_a_model_without_states_and_one_with_windows() -> None:
    dense = render(msgspec.structs.replace(plan(named("Qwen3-8B"), Sglang(), Bytes(GIB), 1), source=""))
    assert "none: the model has no recurrent layers" in dense
    assert dense.startswith("Qwen/Qwen3-8B on sglang\n")
    assert "Warnings" not in dense
    assert "windows per sequence        3 MiB" in render(plan(named("gpt-oss-20b"), Vllm(), Bytes(GIB), 1))


def test_a_model_of_states_alone_and_a_plan_without_a_prediction() -> None:
    model = Architecture("m", "gdn", (Layers(4, Recurrent("gdn", 64, 128 * 128, 8192, 3)),))
    assert "as much as" not in render(plan(model, Sglang(), Bytes(GIB), 1))
    engine = Sglang()
    found = plan(LING, engine, Bytes(40 * GIB), 4, WORK, assumed("H100", LING, 4, engine.dtypes(LING)))
    bare = render(msgspec.structs.replace(found, prediction=None, binding="new"))
    assert "bound by                    new" in bare
    assert "(+" not in bare


def test_a_recorded_profile_counts_its_trajectories() -> None:
    assert render_workload(WORK).startswith("Workload: by hand (numbers given)")
    assert "(7 trajectories)" in render_workload(msgspec.structs.replace(WORK, trajectories=7))


@pytest.mark.parametrize(
    ("text", "size"),
    [("80GiB", 80 * GIB), ("80 gb", 80 * 10**9), ("1.5g", 1_500_000_000), ("4096", 4096), ("2 KiB", 2048), ("7B", 7)],
)
def test_sizes_are_read(text: str, size: int) -> None:
    assert parse_bytes(text, where="--memory") == size


@pytest.mark.parametrize("text", ["", "GiB", "80 parsecs", "-1GiB", "3iB"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"--memory: .* is no size"):
        parse_bytes(text, where="--memory")


def test_sizes_are_shown() -> None:
    assert [show_bytes(n) for n in (12, 2048, 3 << 20, 80 * GIB, 1 << 40)] == [
        "12 B",
        "2 KiB",
        "3 MiB",
        "80 GiB",
        "1 TiB",
    ]


def test_the_budget_shows_its_subtraction() -> None:
    budget = Budget(Bytes(80 * GIB), 0.9, Bytes(31 * GIB), Bytes(GIB))
    assert budget.left == 40 * GIB
    assert budget.text(budget.left) == "80 GiB x 0.9 - 31 GiB weights - 1 GiB overhead = 40 GiB"


@pytest.mark.parametrize(
    ("budget", "words"),
    [
        (Budget(Bytes(80 * GIB), 1.5, Bytes(0)), "--utilization: 1.5"),
        (Budget(Bytes(8 * GIB), 0.5, Bytes(16 * GIB)), "--device-memory: nothing is left .*-12 GiB"),
    ],
)
def test_a_budget_that_leaves_nothing_is_refused(budget: Budget, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        _ = budget.left
