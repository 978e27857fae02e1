"""The libraries whose PostgreSQL connections a caller may hand over, each behind the same two questions.

None of them is imported here: whoever holds a connection of a library has imported it. Statements come in
PostgreSQL's own form (`$1`); what a library wants instead is made of that. Everything is awaitable; on a
connection that blocks nothing ever waits, so `transaction.py` can run that without an event loop.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Protocol

from fairway.errors import InvalidRequest

Row = Sequence[Any]

_ALCHEMY_DRIVERS = ("psycopg", "psycopg_async", "asyncpg")
_placeholder = re.compile(r"\$(\d+)")


class OwnConnection(Protocol):
    """A caller's own connection. `awaits` says whether it belongs to an event loop."""

    awaits: bool
    given: Any

    async def in_transaction(self) -> bool:
        """Say whether what is written now waits for the caller's commit."""

    async def fetch(self, text: str, *values: Any) -> Sequence[Row]:
        """Run one statement; return its rows, if it has any."""


def recognise(connection: Any) -> OwnConnection:
    """Return the caller's connection as we speak to it; raises InvalidRequest for what is none."""
    for module, name, made in _KINDS:
        kind = getattr(sys.modules.get(module), name, None)
        if kind is not None and isinstance(connection, kind):
            return made(connection)
    kind = type(connection)
    raise InvalidRequest(
        "connection= takes a sqlite3 or apsw connection, or one to PostgreSQL of asyncpg, psycopg,"
        f" SQLAlchemy or Django, not a {kind.__module__}.{kind.__qualname__}",
        field="connection",
    )


class Asyncpg:
    """An asyncpg connection, or a pool's proxy of one."""

    awaits = True

    def __init__(self, given: Any) -> None:
        self.given = given

    async def in_transaction(self) -> bool:
        return bool(self.given.is_in_transaction())

    async def fetch(self, text: str, *values: Any) -> Sequence[Row]:
        rows: Sequence[Row] = await self.given.fetch(text, *values)
        return rows


class Psycopg:
    """A psycopg 3 connection. It opens a transaction by itself, unless it is told to commit by itself."""

    awaits = False

    def __init__(self, given: Any) -> None:
        self.given = given

    async def in_transaction(self) -> bool:
        psycopg = sys.modules["psycopg"]
        idle = self.given.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
        return not (idle and self.given.autocommit)

    async def fetch(self, text: str, *values: Any) -> Sequence[Row]:
        with self._cursor() as cursor:
            cursor.execute(*_named(text, values))
            return cursor.fetchall() if cursor.description else []

    def _cursor(self) -> Any:
        # The connection's own kinds of cursor and row are the caller's choice; ours are the plain ones.
        psycopg = sys.modules["psycopg"]
        kind = psycopg.AsyncCursor if self.awaits else psycopg.Cursor
        return kind(self.given, row_factory=psycopg.rows.tuple_row)


class AsyncPsycopg(Psycopg):
    """A psycopg 3 connection that is awaited."""

    awaits = True

    async def fetch(self, text: str, *values: Any) -> Sequence[Row]:
        async with self._cursor() as cursor:
            await cursor.execute(*_named(text, values))
            return await cursor.fetchall() if cursor.description else []


class Alchemy:
    """A SQLAlchemy Connection or Session. It opens a transaction by itself, unless told to AUTOCOMMIT."""

    awaits = False

    def __init__(self, given: Any) -> None:
        self.given = given

    async def in_transaction(self) -> bool:
        return _alchemy_is_open(self.given)

    async def fetch(self, text: str, *values: Any) -> Sequence[Row]:
        return _alchemy_fetch(self.given, text, values)


class AsyncAlchemy:
    """A SQLAlchemy AsyncConnection or AsyncSession."""

    awaits = True

    def __init__(self, given: Any) -> None:
        self.given = given

    async def in_transaction(self) -> bool:
        return bool(await self.given.run_sync(_alchemy_is_open))

    async def fetch(self, text: str, *values: Any) -> Sequence[Row]:
        rows: Sequence[Row] = await self.given.run_sync(_alchemy_fetch, text, values)
        return rows


class Django:
    """A connection of Django's, inside `transaction.atomic()` or with autocommit off."""

    awaits = False

    def __init__(self, given: Any) -> None:
        self.given = given
        vendor = getattr(given, "vendor", "something else")  # its caches hide behind the same proxy
        if vendor != "postgresql":
            raise InvalidRequest(f"Django's connection is on {vendor}, not on PostgreSQL", field="connection")

    async def in_transaction(self) -> bool:
        return bool(self.given.in_atomic_block or not self.given.get_autocommit())

    async def fetch(self, text: str, *values: Any) -> Sequence[Row]:
        with self.given.cursor() as cursor:
            cursor.execute(*_named(text, values))
            return cursor.fetchall() if cursor.description else []


_KINDS: tuple[tuple[str, str, Callable[[Any], OwnConnection]], ...] = (
    ("asyncpg", "Connection", Asyncpg),
    ("psycopg", "Connection", Psycopg),
    ("psycopg", "AsyncConnection", AsyncPsycopg),
    ("sqlalchemy", "Connection", Alchemy),
    ("sqlalchemy.orm", "Session", Alchemy),
    ("sqlalchemy.orm", "scoped_session", lambda registry: Alchemy(registry())),
    ("sqlalchemy.ext.asyncio", "AsyncConnection", AsyncAlchemy),
    ("sqlalchemy.ext.asyncio", "AsyncSession", AsyncAlchemy),
    ("sqlalchemy.ext.asyncio", "async_scoped_session", lambda registry: AsyncAlchemy(registry())),
    ("django.db.backends.base.base", "BaseDatabaseWrapper", Django),
    ("django.utils.connection", "ConnectionProxy", Django),
)


def _named(text: str, values: Sequence[Any]) -> tuple[str, dict[str, Any]]:
    """Return the statement and its values as psycopg takes them: by name, so that one may stand twice."""
    return _with_names(text), {f"p{number}": value for number, value in enumerate(values, 1)}


@lru_cache(256)
def _with_names(text: str) -> str:
    return _placeholder.sub(r"%(p\1)s", text.replace("%", "%%"))


def _alchemy_is_open(given: Any) -> bool:
    connection = _alchemy_connection(given)
    # What SQLAlchemy calls a transaction is none of PostgreSQL's where the driver commits by itself.
    return not connection.connection.dbapi_connection.autocommit


def _alchemy_fetch(given: Any, text: str, values: Sequence[Any]) -> Sequence[Row]:
    connection = _alchemy_connection(given)
    if connection.dialect.driver == "asyncpg":
        result = connection.exec_driver_sql(text, tuple(values))
    else:
        result = connection.exec_driver_sql(*_named(text, values))
    rows: Sequence[Row] = result.all() if result.returns_rows else []
    return rows


def _alchemy_connection(given: Any) -> Any:
    orm = sys.modules.get("sqlalchemy.orm")
    connection = given.connection() if orm is not None and isinstance(given, orm.Session) else given
    dialect = connection.dialect
    if dialect.name != "postgresql" or dialect.driver not in _ALCHEMY_DRIVERS:
        raise InvalidRequest(
            f"SQLAlchemy's connection is {dialect.name}+{dialect.driver}; it must be postgresql+psycopg or"
            " postgresql+asyncpg",
            field="connection",
        )
    return connection
