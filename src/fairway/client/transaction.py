"""Submitting inside the caller's own transaction: the job exists if, and only if, the caller commits.

No idempotency key is needed: the transaction itself is done once or not at all. The connection says where
the jobs go: `sqlite_transaction.py` for a scheduler's file, `postgres_transaction.py` for its database. One
that blocks goes with `submit`, one that belongs to an event loop with `asubmit`.
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from fairway.client import postgres_transaction, sqlite_transaction
from fairway.client.channel import Job
from fairway.client.libraries import OwnConnection, recognise
from fairway.client.request import JobRequest
from fairway.errors import InvalidRequest

T = TypeVar("T")


def submit_inside(connection: Any, requests: Sequence[JobRequest[Any]], database: str | None) -> list[Job]:
    """Insert jobs on *connection*, which the caller commits; *database* is the App's own, if it has one."""
    _check_replaces_nothing(requests)
    library = sqlite_transaction.find_library(connection)
    if library is not None:
        return sqlite_transaction.submit(connection, library, requests, database)
    own = recognise(connection)
    if own.awaits:
        raise _misfit(own, "belongs to an event loop: use `await task.asubmit(..., connection=...)`")
    return _finish(postgres_transaction.submit(own, requests, database))


async def asubmit_inside(
    connection: Any, requests: Sequence[JobRequest[Any]], database: str | None
) -> list[Job]:
    """Do the same on a connection that is awaited."""
    _check_replaces_nothing(requests)
    if sqlite_transaction.find_library(connection) is not None:
        raise _misfit(connection, "blocks the event loop: use `task.submit(..., connection=...)`")
    own = recognise(connection)
    if not own.awaits:
        raise _misfit(own, "blocks the event loop: use `task.submit(..., connection=...)`")
    return await postgres_transaction.submit(own, requests, database)


def _check_replaces_nothing(requests: Sequence[JobRequest[Any]]) -> None:
    """The claim of a job that lives is locked for as long as the transaction is open: the leader needs it."""
    if any(request.options.get("replace") for request in requests):
        raise InvalidRequest(
            "a job cannot replace another inside your own transaction: the scheduler would wait for you;"
            " submit it without connection=",
            field="replace",
        )


def _finish(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never waits: a connection that blocks does its waiting inside each call."""
    try:
        work.send(None)
    except StopIteration as end:
        value: T = end.value
        return value
    work.close()
    raise RuntimeError("a connection that blocks was awaited")


def _misfit(own: OwnConnection | Any, text: str) -> InvalidRequest:
    kind = type(getattr(own, "given", own))
    return InvalidRequest(f"this {kind.__module__}.{kind.__qualname__} {text}", field="connection")
