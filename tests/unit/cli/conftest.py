import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from fake_engine import engine_process

from headway.cli.main import _outcome


@pytest.fixture(scope="session")
def engine() -> Iterator[str]:
    """An engine that plays vLLM; serves the model ``tiny`` with a context of 8,192 tokens."""
    with engine_process() as (url, _):
        yield url


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory: empty but for ``tasks.jsonl`` with four tasks."""
    monkeypatch.chdir(tmp_path)
    lines = [json.dumps({"id": f"t{n}", "prompt": f"task {n}"}) for n in range(4)]
    (tmp_path / "tasks.jsonl").write_text("\n".join(lines))
    return tmp_path


@dataclass
class Said:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def headway(here: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Said]:
    """Run a command in this process."""

    def run(*arguments: str) -> Said:
        capsys.readouterr()
        code = _outcome(list(arguments))
        said = capsys.readouterr()
        return Said(code, said.out, said.err)

    return run
