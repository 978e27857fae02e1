"""The one PostgreSQL of a run: durable, the same for every side, a fresh database for each measurement."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import asyncpg
from tests.postgres import DURABLE, StockPostgres, TempPostgres

from bench.machine import cost_of, filesystem_of

#: The wheel's 18, tuned for the machine; or that of the system's packages with its defaults, which compiles.
SERVERS = ("wheel", "debian")
IN_MEMORY = ("tmpfs", "ramfs")
LOG_FILES = 128  # of 16 MB: the least that is kept, see min_wal_size


class Server:
    """A running server, and one connection of our own to look at it from outside."""

    def __init__(self, postgres: TempPostgres) -> None:
        self._postgres = postgres
        self._loop = asyncio.Runner()
        self._own = self._connect(postgres.dsn)

    @contextlib.contextmanager
    def database(self) -> Iterator[Database]:
        """Lend an empty database; what the last one left unwritten is written first."""
        name = f"bench_{uuid4().hex[:12]}"
        self._ask("CHECKPOINT")
        self._ask(f"CREATE DATABASE {name}")
        dsn = self._postgres.dsn_of(name)
        database = Database(self, dsn, self._connect(dsn))
        try:
            yield database
        finally:
            database.close()
            self._ask(f"DROP DATABASE {name} WITH (FORCE)")

    def version(self) -> str:
        return str(self._ask("SHOW server_version"))

    def settings(self) -> dict[str, str]:
        """Return the settings a reader of the numbers must know."""
        names = (
            "fsync",
            "synchronous_commit",
            "full_page_writes",
            "shared_buffers",
            "max_wal_size",
            "min_wal_size",
            "jit",
        )
        return {name: str(self._ask(f"SHOW {name}")) for name in names}

    def make_log_files(self) -> None:
        """Make the files of the write-ahead log that a server has made after its first hours.

        It uses them again and again. A new one has to be filled with zeros first, which a long run would pay
        for and a short one not.
        """
        for _ in range(LOG_FILES):
            self._ask("SELECT pg_logical_emit_message(false, 'fairway-bench', 'x')")
            self._ask("SELECT pg_switch_wal()")
        self._ask("CHECKPOINT")

    def cpu_seconds(self) -> float:
        """Return what the server and its backends that still run have used."""
        process = self._postgres.process
        return cost_of(process.pid).cpu_seconds if process is not None else 0.0

    def log_size(self) -> int:
        return (self._postgres.folder / "log").stat().st_size

    def statements_logged(self, since: int) -> int:
        """Count the statements in the log from a place on; only a database under watch logs them."""
        with (self._postgres.folder / "log").open("rb") as log:
            log.seek(since)
            return sum(b"LOG:  statement: " in line or b"LOG:  execute " in line for line in log)

    def close(self) -> None:
        self._loop.run(self._own.close(timeout=10))
        self._loop.close()

    def _connect(self, dsn: str) -> Any:
        return self._loop.run(asyncpg.connect(dsn, timeout=10, server_settings=LEAN))

    def _ask(self, sql: str, *values: Any, connection: Any = None) -> Any:
        return self._loop.run((connection or self._own).fetchval(sql, *values, timeout=120))


# We only look: no parallel workers of ours while somebody is measured.
LEAN = {"max_parallel_workers_per_gather": "0"}


class Database:
    """One fresh database and our connection to it."""

    def __init__(self, server: Server, dsn: str, connection: Any) -> None:
        self.server, self.dsn, self._connection = server, dsn, connection
        self.name = dsn.rsplit("/", 1)[1]

    def ask(self, sql: str, *values: Any) -> Any:
        """Return the one value a query gives."""
        return self.server._ask(sql, *values, connection=self._connection)

    def settle(self) -> None:
        """Do what autovacuum would have done by the time a real backlog of this size is there."""
        self.ask("VACUUM ANALYZE")
        self.ask("CHECKPOINT")

    def log_statements(self) -> None:
        """Log every statement of connections made from now on."""
        self.ask(f"ALTER DATABASE {self.name} SET log_statement = 'all'")

    def close(self) -> None:
        self.server._loop.run(self._connection.close(timeout=10))


class Unfinished:
    """The rows of jobs that have not ended, looked at without being in the way.

    Behind a drain lie dead rows until a vacuum comes, and the question whether any row is left reads past all
    of them: the longer the backlog, the more. So the row that came last is looked for first, by its key.
    """

    def __init__(self, database: Database, rows: str) -> None:
        self._database, self._rows = database, rows
        self._last: Any = None

    def settle(self) -> None:
        """Settle the database, and remember the row that came last."""
        self._database.settle()
        self._last = self._database.ask(f"SELECT id FROM {self._rows} ORDER BY ctid DESC LIMIT 1")

    def count(self) -> int:
        return int(self._database.ask(f"SELECT count(*) FROM {self._rows}"))

    def is_empty(self) -> bool:
        return not (self._last is not None and self._has_last()) and not self._has_any()

    def _has_last(self) -> bool:
        both = "AND" if " WHERE " in self._rows else "WHERE"
        return bool(
            self._database.ask(f"SELECT EXISTS (SELECT 1 FROM {self._rows} {both} id = $1)", self._last)
        )

    def _has_any(self) -> bool:
        return bool(self._database.ask(f"SELECT EXISTS (SELECT 1 FROM {self._rows})"))


@contextlib.contextmanager
def running_server(kind: str = SERVERS[0]) -> Iterator[Server]:
    """Start the server, lend it, end it."""
    if filesystem_of_temporaries() in IN_MEMORY:
        tempfile.tempdir = "/var/tmp"  # a disk: in memory fsync would be free
    postgres = _server_of(kind)
    try:
        server = Server(postgres.start())
        try:
            server.make_log_files()
            yield server
        finally:
            server.close()
    finally:
        postgres.stop()


def _server_of(kind: str) -> TempPostgres:
    if kind == "debian":
        return StockPostgres(**DURABLE)
    # As its own guide advises for a machine that it has to itself: a long backlog shall fit into memory.
    return TempPostgres(durable=True, shared_buffers="2GB", max_wal_size="8GB", min_wal_size="2GB")


def filesystem_of_temporaries() -> str:
    """Name the file system the server's files stand on."""
    return filesystem_of(Path(tempfile.gettempdir()).resolve())
