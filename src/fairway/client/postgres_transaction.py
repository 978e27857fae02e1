"""Submitting inside the caller's own transaction, on PostgreSQL, through whatever library the caller uses.

The last statement rings for the leader if it sleeps; PostgreSQL delivers that when the caller commits, and
forgets it when the caller rolls back. A submit with a unique key that stands in somebody else's open
transaction waits for that one to end, as long as the caller's own `lock_timeout` allows.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

from fairway.client.channel import Job
from fairway.client.libraries import OwnConnection
from fairway.client.new_jobs import new_jobs, shown
from fairway.client.request import JobRequest
from fairway.errors import Conflict
from fairway.keys import by_rows, paths_to_ask, with_keys
from fairway.places import DEFAULT_SCHEDULER, is_postgres, postgres_address
from fairway.store import NewJob, Submission

#: What PostgreSQL answers where there is no such table, no such schema.
_NOT_PREPARED = ("42P01", "3F000")


async def submit(own: OwnConnection, requests: Sequence[JobRequest[Any]], database: str | None) -> list[Job]:
    """Insert jobs on the caller's connection; *database* is the App's own, if it has one."""
    scheduler = _scheduler_of(database)
    if not await own.in_transaction():
        raise Conflict("connection= is not inside a transaction; BEGIN first", code="no_transaction")
    now = time.time_ns() // 1000
    jobs = new_jobs(requests, now)
    try:
        ids = await _insert(own, scheduler, jobs, now)
    except Exception as error:
        if any(getattr(cause, "sqlstate", None) in _NOT_PREPARED for cause in _causes(error)):
            raise Conflict(
                f"the connection's database has no scheduler {scheduler!r}; run `fairway init` on it",
                code="other_database",
            ) from error
        raise
    return shown(requests, ids)


async def _insert(own: OwnConnection, scheduler: str, jobs: Sequence[NewJob], now: int) -> list[int]:
    from fairway.stores.postgres.inserting import insert_submissions
    from fairway.stores.postgres.sql import queries_of

    sql, paths = queries_of(scheduler), paths_to_ask(jobs)
    rows = await own.fetch(sql["find_queues"], sorted(paths)) if paths else ()
    keyed = with_keys(jobs, by_rows({row[0]: row[1] for row in rows}))
    inserted = await insert_submissions(own, sql, [Submission(keyed)], now)
    return inserted.accepted[0].ids


def _scheduler_of(database: str | None) -> str:
    if database is None:
        return DEFAULT_SCHEDULER
    if not is_postgres(database):
        raise Conflict("the connection is on PostgreSQL, the App on a file", code="other_database")
    return postgres_address(database).scheduler


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Return the error with what it wraps: SQLAlchemy and Django put their own around the driver's."""
    seen: BaseException | None = error
    for _ in range(5):
        if seen is None:
            return
        yield seen
        seen = getattr(seen, "orig", None) or seen.__cause__
