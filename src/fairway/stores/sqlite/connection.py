"""How a connection is opened, and what SQLite's errors mean to Fairway.

A transaction here is always BEGIN IMMEDIATE: it waits for the write lock at its start, at most
`BUSY_SECONDS`, and not in the middle where it would have to be thrown away.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import apsw

from fairway.errors import StoreUnavailable, StoreUnusable

BUSY_SECONDS = 5.0

_passing = (
    apsw.BusyError, apsw.LockedError, apsw.FullError, apsw.IOError, apsw.CantOpenError, apsw.ReadOnlyError,
    apsw.NoMemError, apsw.ProtocolError,
)  # fmt: skip
_lasting = (apsw.CorruptError, apsw.NotADBError)


def open_writer(path: Path) -> apsw.Connection:
    """Open the one connection of this process that writes."""
    with plain_errors(path):
        connection = apsw.Connection(str(path))
        connection.set_busy_timeout(int(BUSY_SECONDS * 1000))
        # Of a new file: four times as many neighbours are written at once.
        connection.execute("PRAGMA page_size = 16384").fetchall()
        _log_ahead(connection)
        for pragma in (
            "synchronous = FULL",
            "cache_size = -16384",
            "wal_autocheckpoint = 4000",
            "journal_size_limit = 67108864",
            "temp_store = MEMORY",
        ):
            connection.execute(f"PRAGMA {pragma}").fetchall()
        return connection


def _log_ahead(connection: apsw.Connection) -> None:
    """Switch a new file to WAL; if others are at it SQLite may give up at once, whatever its timeout is."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL").fetchall()
        except apsw.BusyError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return


def open_reader(path: Path) -> apsw.Connection:
    """Open a connection that only reads. Not read-only to the system: WAL's index must be writable."""
    with plain_errors(path):
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
        connection.set_busy_timeout(int(BUSY_SECONDS * 1000))
        connection.execute("PRAGMA query_only = 1; PRAGMA cache_size = -4096; PRAGMA temp_store = MEMORY")
        return connection


def fetch(connection: apsw.Connection, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """Run a statement to its end and return its rows: an open cursor would hold on to old pages."""
    return connection.execute(sql, values).fetchall()


@contextmanager
def transaction(connection: apsw.Connection) -> Iterator[None]:
    """Hold the write lock, and keep everything or nothing."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # After some errors SQLite has rolled back by itself already.
        with suppress(apsw.Error):
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        raise


@contextmanager
def plain_errors(path: Path) -> Iterator[None]:
    """Turn SQLite's errors into ours: passing ones are worth another try, lasting ones need a person."""
    try:
        yield
    except _lasting as error:
        raise StoreUnusable(f"{path} is damaged or no SQLite database: {error}") from error
    except (apsw.BusyError, apsw.LockedError) as error:
        raise StoreUnavailable(
            f"{path}: another process held the write lock for over {BUSY_SECONDS:g} s"
        ) from error
    except _passing as error:
        raise StoreUnavailable(f"{path}: {type(error).__name__}: {error}") from error
