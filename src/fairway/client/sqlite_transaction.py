"""Submitting inside the caller's own transaction, on SQLite.

Nobody can be rung before the caller commits, and nobody is told of it, so the leader finds the job at its
next look, within a second.

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

from fairway.client.channel import Job
from fairway.client.new_jobs import new_jobs, shown
from fairway.client.request import JobRequest
from fairway.errors import Conflict, InvalidRequest
from fairway.keys import by_rows, paths_to_ask, with_keys
from fairway.places import is_postgres, sqlite_file
from fairway.store import NewJob, Submission

#: Which library this process uses on which file.
_libraries: dict[Path, str] = {}


def find_library(connection: Any) -> str | None:
    """Return the SQLite library this connection is of, or None if it is something else."""
    if isinstance(connection, sqlite3.Connection):
        return "sqlite3"
    apsw = sys.modules.get("apsw")  # whoever holds an apsw connection has imported it
    return "apsw" if apsw is not None and isinstance(connection, apsw.Connection) else None


def submit(
    connection: Any, library: str, requests: Sequence[JobRequest[Any]], database: str | None
) -> list[Job]:
    """Insert jobs on *connection*, which the caller commits; *database* is the App's own, if it has one."""
    file = _file_of(connection)
    _check_same(file, database)
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


def _insert(connection: Any, requests: Sequence[JobRequest[Any]], file: Path) -> list[Job]:
    from fairway.stores.sqlite.inserting import find_queues, insert_submission

    now = time.time_ns() // 1000
    jobs: Sequence[NewJob] = new_jobs(requests, now)
    try:
        jobs = with_keys(jobs, by_rows(find_queues(connection.execute, paths_to_ask(jobs))))
        accepted = insert_submission(connection.execute, Submission(jobs), now)
    except Exception as error:
        if "no such table" in str(error):
            raise Conflict(
                f"{file} is not a Fairway database; start `fairway up --database sqlite:///{file}` once",
                code="other_database",
            ) from error
        raise
    return shown(requests, accepted.ids)


def _file_of(connection: Any) -> Path:
    for _, name, file in list(connection.execute("PRAGMA database_list")):
        if name == "main" and file:
            return Path(file).resolve()
    raise InvalidRequest("connection= must be on a file, not in memory", field="connection")


def _check_same(file: Path, database: str | None) -> None:
    if database is None:
        return
    own = "PostgreSQL" if is_postgres(database) else path_of(database)
    if own != file:
        raise Conflict(f"the connection is on {file}, the App on {own}", code="other_database")


def _check_open(connection: Any, library: str) -> None:
    """Refuse a connection on which every statement would commit by itself."""
    if connection.in_transaction:
        return
    opens_by_itself = library == "sqlite3" and connection.isolation_level is not None
    if not opens_by_itself or getattr(connection, "autocommit", None) is True:
        raise Conflict("connection= is not inside a transaction; BEGIN first", code="no_transaction")
