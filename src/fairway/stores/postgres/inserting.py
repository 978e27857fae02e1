"""Runs the steps of a submission on PostgreSQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeGuard

from fairway.store import Submission
from fairway.stores.steps import Ask, Put, Step
from fairway.stores.submitting import Inserted, inserting

if TYPE_CHECKING:
    from fairway.stores.postgres.connection import Connection

COPIED = ("insert_job", "insert_arriving")
MANY = 50
COLUMNS = (
    "id", "queue", "flow", "priority", "adapter", "task", "tags", "once", "run_at", "created_at", "place",
    "rules", "unique_key", "payload",
)  # fmt: skip


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
    schema: str | None = None,
) -> Inserted:
    """Insert submissions; with *arrivals* off, only jobs whose id had to be redrawn leave one.

    If the *schema* is named, the connection is asyncpg's and may COPY.
    """
    steps = inserting(submissions, now, arrivals=arrivals)
    try:
        step = next(steps)
        while True:
            if schema is not None and _is_long(step):
                await _copy(connection, sql, schema, step)
                step = steps.send([])
                continue
            text, values = statement_of(step, sql)
            step = steps.send(await connection.fetch(text, *values))
    except StopIteration as end:
        inserted: Inserted = end.value
        return inserted


def _is_long(step: Step) -> TypeGuard[Put]:
    return isinstance(step, Put) and step.name in COPIED and len(step.rows) >= MANY


async def _copy(connection: Connection, sql: Mapping[str, str], schema: str, step: Put) -> None:
    """Insert many jobs by COPY: a third of the cost of an INSERT, on both sides."""
    jobs = [(*row[:10], row[8], *row[10:13]) for row in step.rows]
    await connection.copy_records_to_table("job", schema_name=schema, columns=COLUMNS, records=jobs)
    if step.name == "insert_arriving":
        wanted = [row[13] for row in step.rows]
        limits = wanted if any(limit is not None for limit in wanted) else None
        await connection.fetch(sql["arrive"], [row[0] for row in step.rows], limits)
