"""What a coordinator remembers: a new journal, one that it goes on with, or none."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from headway.batch.unrecorded import Unrecorded
from headway.core.facts import Fact
from headway.core.progress import Progress
from headway.core.restore import restore
from headway.core.world import World
from headway.journal import FileJournal, Header, open_new, open_resume, read
from headway.ports import Journal


@contextmanager
def recorded(path: Path | None, header: Header, progress: Progress, *, resume: bool) -> Iterator[tuple[Journal, World]]:
    """Open the journal and what it says of the world; ``progress`` hears it too. Raises: ``ConfigError``.

    ``path`` None: nothing is remembered. ``resume``: go on with the file if it exists.
    """
    if path is None:
        yield Unrecorded(), World()
    elif not (resume and path.exists()):
        with _shut(open_new(path, header)) as journal:
            yield journal, World()
    else:
        with _shut(open_resume(path)) as journal:
            yield journal, restore(_replayed(path, progress))


def _replayed(path: Path, progress: Progress) -> Iterator[tuple[Fact, Sequence[Any]]]:
    for row in read(path).rows:
        progress.apply(row.fact, row.commands)
        yield row.fact, row.commands


@contextmanager
def _shut(journal: FileJournal) -> Iterator[FileJournal]:
    """Let go of the file, also when the batch never began."""
    try:
        yield journal
    finally:
        journal.shut()
