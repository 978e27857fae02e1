"""One step of a submission, told instead of done: whoever has a connection runs it."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, NamedTuple, TypeVar

from fairway.store import NewJob
from fairway.stores.rows import Row, job_row

T = TypeVar("T")


class Ask(NamedTuple):
    """Run the statement of this name once and send its rows back. A value may be a list of numbers."""

    name: str
    values: Row


class Put(NamedTuple):
    """Run the statement of this name for each of these rows; send back what they return, if they do."""

    name: str
    rows: Sequence[Row]
    returns: bool = False


class Insert(NamedTuple):
    """Insert these jobs; if they are *arriving*, tell the leader of them."""

    jobs: Sequence[NewJob]
    arriving: bool

    def put(self) -> Put:
        """Return the same by rows."""
        if self.arriving:
            return Put("insert_arriving", [(*job_row(job), job.concurrency) for job in self.jobs])
        return Put("insert_job", [job_row(job) for job in self.jobs])


Step = Ask | Put | Insert
Steps = Generator[Step, Sequence[Any], T]
