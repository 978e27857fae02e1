"""Runs the steps of a submission on a SQLite connection: the store's own, or a user's."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import msgspec

from fairway.store import Accepted, Submission
from fairway.stores.rows import Row, job_row
from fairway.stores.sqlite.sql import SQL
from fairway.stores.steps import Ask, Insert, Step
from fairway.stores.submitting import Inserted, inserting

Execute = Callable[[str, Row], Iterable[Any]]
ExecuteMany = Callable[[str, Sequence[Row]], Any]


def insert_submission(execute: Execute, submission: Submission, now: int) -> Accepted:
    """Insert one submission and its arrivals; the caller commits.

    *execute* is the `execute` of an apsw or sqlite3 connection that is inside a transaction.
    """
    return insert_submissions(execute, _one_by_one(execute), [submission], now).accepted[0]


def find_queues(execute: Execute, paths: Collection[str]) -> dict[str, bytes]:
    """Return the settings of those of the queues that have a row, by a user's own connection."""
    found = execute(SQL["find_queues"], (msgspec.json.encode(sorted(paths)).decode(),)) if paths else ()
    return dict(found)


def insert_submissions(
    execute: Execute,
    execute_many: ExecuteMany,
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
            step = steps.send(_run(execute, execute_many, step))
    except StopIteration as end:
        inserted: Inserted = end.value
        return inserted


def _run(execute: Execute, execute_many: ExecuteMany, step: Step) -> list[Any]:
    if isinstance(step, Ask):
        return list(execute(SQL[step.name], tuple(_as_value(value) for value in step.values)))
    if isinstance(step, Insert):
        execute_many(SQL["insert_job"], [job_row(job) for job in step.jobs])
        if step.arriving:
            execute_many(SQL["insert_arrival"], [(job.id, job.concurrency) for job in step.jobs])
        return []
    if step.returns:
        return [row for values in step.rows for row in list(execute(SQL[step.name], values))]
    execute_many(SQL[step.name], step.rows)
    return []


def _as_value(value: Any) -> Any:
    return msgspec.json.encode(value).decode() if isinstance(value, list) else value


def _one_by_one(execute: Execute) -> ExecuteMany:
    def run(sql: str, rows: Sequence[Row]) -> None:
        for row in rows:
            list(execute(sql, row))

    return run
