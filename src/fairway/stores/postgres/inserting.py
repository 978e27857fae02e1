"""Runs the steps of a submission on PostgreSQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fairway.store import Submission
from fairway.stores.postgres.copying import COLUMNS, copied
from fairway.stores.steps import Ask, Insert, Step
from fairway.stores.submitting import Inserted, inserting

if TYPE_CHECKING:
    from fairway.stores.postgres.connection import Connection

MANY = 50


def statement_of(step: Step, sql: Mapping[str, str]) -> tuple[str, Sequence[Any]]:
    """Return a step's statement and its arguments: many rows are one array for each column."""
    if isinstance(step, Ask):
        return sql[step.name], step.values
    put = step.put() if isinstance(step, Insert) else step
    return sql[put.name], [list(column) for column in zip(*put.rows, strict=True)]


async def insert_submissions(
    connection: Connection,
    sql: Mapping[str, str],
    submissions: Sequence[Submission],
    now: int,
    *,
    arrivals: bool = True,
    schema: str | None = None,
) -> Inserted:
    """Insert submissions; with *arrivals* off, only jobs whose id had to be redrawn leave one.

    If the *schema* is named, the connection is asyncpg's and may COPY.
    """
    steps = inserting(submissions, now, arrivals=arrivals)
    try:
        step = next(steps)
        while True:
            if schema is not None and isinstance(step, Insert) and len(step.jobs) >= MANY:
                await _copy(connection, sql, schema, step)
                step = steps.send([])
                continue
            text, values = statement_of(step, sql)
            step = steps.send(await connection.fetch(text, *values))
    except StopIteration as end:
        inserted: Inserted = end.value
        return inserted


async def _copy(connection: Connection, sql: Mapping[str, str], schema: str, step: Insert) -> None:
    """Insert many jobs by COPY: a third of the cost of an INSERT, on both sides."""
    jobs = step.jobs
    await connection.copy_to_table(
        "job", schema_name=schema, columns=COLUMNS, source=copied(jobs), format="binary"
    )
    if step.arriving:
        wanted = [job.concurrency for job in jobs]
        limits = wanted if any(limit is not None for limit in wanted) else None
        await connection.fetch(sql["arrive"], [job.id for job in jobs], limits)
