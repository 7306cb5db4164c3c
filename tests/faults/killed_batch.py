"""A batch that kills itself right after fact number k is on disk; run once per k, then resumed. Run by test_kill.py.

One process forks twice for every k, so that Python starts once. It prints one JSON line per k.
"""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import anyio

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from fakes import ScriptedEngine

from headway import Batch, Sample, Trajectory
from headway.journal import FileJournal

SAMPLES = [Sample(name) for name in "abc"]


def note(folder: Path, what: str) -> None:
    """A line that is there even if we are killed the next moment."""
    descriptor = os.open(folder / "log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, f"{what}\n".encode())
    os.close(descriptor)


async def run(folder: Path, who: str) -> None:
    async def solve(sample: Sample, trajectory: Trajectory) -> dict[str, str]:
        note(folder, f"{who} solves {sample.id}")
        await trajectory.chat([{"role": "user", "content": sample.id}])
        async with trajectory.action():
            pass
        return {"answer": sample.id}

    batch = Batch([ScriptedEngine()], {"bash": 1}, journal=folder / "run.headway", resume=True, concurrency=2)
    async with batch.stream(solve, SAMPLES) as stream:
        async for result in stream:
            note(folder, f"{who} has {result.id} {result.value['answer']} {'recalled' if result.recalled else 'new'}")


def kill_after(fact: int, *, flushed: bool) -> None:
    """Die when so many facts were recorded; ``flushed``: and are on disk, else whatever is."""
    append, count = FileJournal.append, 0

    def counting(self: FileJournal, recorded: Any, commands: Any) -> None:
        nonlocal count
        append(self, recorded, commands)
        count += 1
        if count == fact:
            if flushed:
                self.flush()
            os.kill(os.getpid(), signal.SIGKILL)

    FileJournal.append = counting  # type: ignore[method-assign]


def forked(folder: Path, who: str, fact: int | None, *, flushed: bool) -> int:
    """Run in a child; returns its wait status."""
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1]
    try:
        if fact is not None:
            kill_after(fact, flushed=flushed)
        anyio.run(run, folder, who)
        os._exit(0)
    except BaseException as error:  # noqa: BLE001 - the child must not go on as its parent
        print(f"{who}: {error!r}", file=sys.stderr, flush=True)
        os._exit(1)


def main(base: Path, mode: str) -> None:
    fact = 0
    while True:
        fact += 1
        folder = base / f"{mode}-{fact}"
        folder.mkdir()
        died = forked(folder, "first", fact, flushed=mode == "flushed")
        over = not os.WIFSIGNALED(died)
        resumed = forked(folder, "second", None, flushed=False)
        lines = (folder / "log").read_text().splitlines()
        print(json.dumps({"fact": fact, "died": died, "resumed": resumed, "log": lines}), flush=True)
        if over:
            return


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
