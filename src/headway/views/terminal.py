"""Live progress of a batch: a few lines that redraw themselves on a terminal, plain lines now and then elsewhere.

It is fed the read model and draws at its own pace; it starts no thread, so nothing is drawn behind the batch's back.
It writes to standard error, and leaves standard output to results.
"""

import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from headway.core.progress import EngineSnapshot, EnvironmentSnapshot, Progress, Snapshot, snapshot
from headway.core.units import Nanos
from headway.views.wording import clip, count, duration, percent

_REDRAW = 0.25  # seconds between two drawings on a terminal
_MOST_ROWS = 8  # engines, and environments, that are shown


class LiveView:
    """``with LiveView(...) as view: ... view.update(progress, now)``; the last state stays on the screen.

    Args:
        title: what runs, in a few words.
        console: where to; default: standard error, as wide and colourful as it is (``NO_COLOR`` is heeded).
        every: seconds between two plain lines where there is no terminal.
        clock: seconds that only go forward; decides when to draw.
    """

    def __init__(
        self,
        title: str,
        *,
        console: Console | None = None,
        every: float = 5.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._title = title
        self._console = console or Console(stderr=True, highlight=False)
        self._drawn = self._console.is_terminal and not self._console.is_dumb_terminal
        self._gap = _REDRAW if self._drawn else every
        self._clock = clock
        self._next = float("-inf")
        self._latest: tuple[Progress, Nanos] | None = None
        self._live = Live(console=self._console, auto_refresh=False, redirect_stdout=False, vertical_overflow="crop")

    def __enter__(self) -> Self:
        if self._drawn:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._latest is not None:
            self._draw(*self._latest)
        if self._drawn:
            self._live.stop()

    def update(self, progress: Progress, now: Nanos) -> None:
        """Show the batch as it is at ``now`` (a time of its facts), if it is time to draw again."""
        self._latest = (progress, now)
        moment = self._clock()
        if moment >= self._next:
            self._next = moment + self._gap
            self._draw(progress, now)

    def _draw(self, progress: Progress, now: Nanos) -> None:
        batch = snapshot(progress, now=now, chains=0)
        if self._drawn:
            self._live.update(picture(self._title, batch, self._console.width), refresh=True)
        else:
            self._console.print(line(batch), soft_wrap=True, markup=False, highlight=False)


def line(batch: Snapshot) -> str:
    """One plain line on where the batch stands."""
    samples, now = batch.samples, batch.phases
    parts = [f"{duration(batch.makespan_s)}: {samples.done:,}/{samples.submitted:,} done"]
    if samples.failed:
        parts.append(f"{samples.failed:,} failed")
    parts += [
        f"{samples.live:,} live",
        f"inference {now.inference:,} (+{now.inference_queue:,} waiting)",
        f"actions {now.action:,} (+{now.slot_queue:,} waiting)",
    ]
    if batch.paused:
        parts.append("paused")
    if not batch.complete:
        parts.append(f"ETA {duration(batch.eta_s)}")
    return ", ".join(parts)


def picture(title: str, batch: Snapshot, width: int) -> RenderableType:
    """The lines that redraw themselves, at most ``width`` columns wide."""
    samples = batch.samples
    ending = "done" if batch.complete else "paused" if batch.paused else f"ETA {duration(batch.eta_s)}"
    head = Table.grid(expand=True)
    head.add_column(no_wrap=True, overflow="ellipsis")
    head.add_column(justify="right", no_wrap=True)
    head.add_row(Text(title, style="bold"), Text(f"{duration(batch.makespan_s)}, {ending}"))
    share = Table.grid(padding=(0, 1))
    numbers = Text(f"{samples.done:,}/{samples.submitted:,} done")
    if samples.failed:
        numbers.append(f", {samples.failed:,} failed", style="red")
    if samples.pending:
        numbers.append(f", {samples.pending:,} pending")
    bar = ProgressBar(total=max(1, samples.submitted), completed=samples.done, width=max(10, width - len(numbers) - 2))
    share.add_row(bar, numbers)
    return Group(head, share, Text(_doing(batch), no_wrap=True, overflow="ellipsis"), _resources(batch, width))


def _doing(batch: Snapshot) -> str:
    now = batch.phases
    return (
        f"{batch.samples.live:,} live: inference {now.inference:,} (+{now.inference_queue:,} waiting), "
        f"actions {now.action:,} (+{now.slot_queue:,} waiting), idle {now.idle:,}"
    )


def _resources(batch: Snapshot, width: int) -> RenderableType:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    for _ in range(3):
        grid.add_column(justify="right", no_wrap=True)
    room = max(12, width - 50)
    for rows, more in (
        ([_engine(engine, room) for engine in batch.engines], "engines"),
        ([_environment(place, room) for place in batch.environments], "environments"),
    ):
        for row in rows[:_MOST_ROWS]:
            grid.add_row(*row)
        if len(rows) > _MOST_ROWS:
            grid.add_row(f"and {len(rows) - _MOST_ROWS} {more} more")
    return grid


def _engine(engine: EngineSnapshot, room: int) -> Iterator[RenderableType]:
    yield Text(clip(engine.engine.removeprefix("http://"), room), style="" if engine.alive else "red")
    yield f"{engine.running:,} running" if engine.alive else "gone"
    yield f"{count(engine.turns)} turns"
    yield f"hit rate {percent(engine.hit_rate, 0)}"


def _environment(place: EnvironmentSnapshot, room: int) -> Iterator[RenderableType]:
    yield Text(clip(place.environment, room))
    yield f"{place.busy:,}/{place.slots:,} slots"
    yield f"{count(place.actions)} actions"
    yield f"{place.queued:,} queued"
