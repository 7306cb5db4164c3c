"""The journal: one SQLite file that remembers every fact, the commands it caused, and every result.

One coordinator writes (held by a lock file beside it), any number of readers look on. A thread of its own commits what
was recorded in groups, so recording never waits for the disk; only :meth:`FileJournal.durable` does. Whatever is on
disk is a prefix of what was recorded, after ``kill -9`` too. What the facts *mean* is none of its business.
"""

from headway.journal.format import FORMAT, SUFFIX, Header
from headway.journal.ownership import owner
from headway.journal.reader import Recording, Row, read, results
from headway.journal.writer import FileJournal, open_new, open_resume

__all__ = [
    "FORMAT",
    "SUFFIX",
    "FileJournal",
    "Header",
    "Recording",
    "Row",
    "open_new",
    "open_resume",
    "owner",
    "read",
    "results",
]
