"""Runs the steps of a submission on PostgreSQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fairway.store import Submission
from fairway.stores.submitting import Ask, Inserted, Step, inserting

if TYPE_CHECKING:
    from fairway.stores.postgres.connection import Connection


def statement_of(step: Step, sql: Mapping[str, str]) -> tuple[str, Sequence[Any]]:
    """Return a step's statement and its arguments: many rows are one array for each column."""
    if isinstance(step, Ask):
        return sql[step.name], step.values
    return sql[step.name], [list(column) for column in zip(*step.rows, strict=True)]


async def insert_submissions(
    connection: Connection,
    sql: Mapping[str, str],
    submissions: Sequence[Submission],
    now: int,
    *,
    arrivals: bool = True,
) -> Inserted:
    """Insert submissions; with *arrivals* off, only jobs whose id had to be redrawn leave one."""
    steps = inserting(submissions, now, arrivals=arrivals)
    try:
        step = next(steps)
        while True:
            text, values = statement_of(step, sql)
            step = steps.send(await connection.fetch(text, *values))
    except StopIteration as end:
        inserted: Inserted = end.value
        return inserted
