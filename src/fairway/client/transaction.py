"""Submitting inside the caller's own transaction, on SQLite: the job exists if the caller commits.

Nobody can be rung before that commit, and nobody is told of it, so the leader finds the job at its next
look, within a second. No idempotency key is needed: the transaction itself is done once or not at all.

One law of the outside world: two SQLite libraries on one file in one process break each other's POSIX
locks, as closing any file descriptor drops all locks of the process. Python's `sqlite3` and Fairway's own
`apsw` are two. So the first that touches a file in a process keeps it, and the other is refused.
"""

from __future__ import annotations

import sqlite3
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from fairway.client.channel import Job, first_state
from fairway.client.request import JobRequest
from fairway.errors import Conflict, InvalidRequest
from fairway.ids import IdMaker, show
from fairway.places import sqlite_file
from fairway.spec import new_job, read_spec
from fairway.store import NewJob, Submission

#: Which library this process uses on which file.
_libraries: dict[Path, str] = {}


def submit_inside(connection: Any, requests: Sequence[JobRequest[Any]], database: str | None) -> list[Job]:
    """Insert jobs on *connection*, which the caller commits; *database* is the App's own, if it has one."""
    library = _library_of(connection)
    file = _file_of(connection)
    if database is not None and path_of(database) != file:
        raise Conflict(f"the connection is on {file}, the App on {path_of(database)}", code="other_database")
    claim(file, library)
    _check_open(connection, library)
    return _insert(connection, requests, file)


def claim(file: Path, library: str) -> None:
    """Note that this process uses *library* on *file*; raises Conflict if it used another one."""
    first = _libraries.setdefault(file, library)
    if first != library:
        raise Conflict(
            f"this process has opened {file} with {first}; {library} beside it would break its locks."
            " Give connection= an apsw connection, or read and wait over HTTP with App(url=...)",
            code="mixed_libraries",
        )


def path_of(database: str) -> Path:
    """Return the file of a database address, as the one path it has."""
    return sqlite_file(database).expanduser().resolve()


def new_jobs(requests: Sequence[JobRequest[Any]], now: int) -> list[NewJob]:
    """Return the rows to insert for these requests, checked as a node would check them."""
    ids = IdMaker().take(len(requests), now // 1000)
    return [_new_job(request, number, now) for request, number in zip(requests, ids, strict=True)]


def shown(requests: Sequence[JobRequest[Any]], ids: Sequence[int]) -> list[Job]:
    """Return what is known of jobs that were just accepted."""
    return [
        {"id": show(number), "state": first_state(request), "task": request.task.name}
        for request, number in zip(requests, ids, strict=True)
    ]


def _insert(connection: Any, requests: Sequence[JobRequest[Any]], file: Path) -> list[Job]:
    from fairway.stores.sqlite.submitting import insert_submission

    now = time.time_ns() // 1000
    jobs = new_jobs(requests, now)
    try:
        accepted = insert_submission(connection.execute, Submission(jobs), now)
    except Exception as error:
        if "no such table" in str(error):
            raise Conflict(
                f"{file} is not a Fairway database; start `fairway up --database sqlite:///{file}` once",
                code="other_database",
            ) from error
        raise
    return shown(requests, accepted.ids)


def _new_job(request: JobRequest[Any], number: int, now: int) -> NewJob:
    spec = read_spec(msgspec.json.decode(msgspec.json.encode(request.body())))
    return new_job(spec, number, now)


def _library_of(connection: Any) -> str:
    if isinstance(connection, sqlite3.Connection):
        return "sqlite3"
    apsw = sys.modules.get("apsw")  # whoever holds an apsw connection has imported it
    if apsw is not None and isinstance(connection, apsw.Connection):
        return "apsw"
    kind = type(connection)
    raise InvalidRequest(
        f"connection= takes a sqlite3 or apsw connection, not a {kind.__module__}.{kind.__qualname__}",
        field="connection",
    )


def _file_of(connection: Any) -> Path:
    for _, name, file in list(connection.execute("PRAGMA database_list")):
        if name == "main" and file:
            return Path(file).resolve()
    raise InvalidRequest("connection= must be on a file, not in memory", field="connection")


def _check_open(connection: Any, library: str) -> None:
    """Refuse a connection on which every statement would commit by itself."""
    if connection.in_transaction:
        return
    opens_by_itself = library == "sqlite3" and connection.isolation_level is not None
    if not opens_by_itself or getattr(connection, "autocommit", None) is True:
        raise Conflict("connection= is not inside a transaction; BEGIN first", code="no_transaction")
