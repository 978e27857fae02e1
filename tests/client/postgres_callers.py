"""Programs with a PostgreSQL connection of their own, one for each library, all used in the same way.

`transaction()` begins a transaction, or inside one a savepoint, in the library's own manner. Django refuses
to work inside an event loop, so tests are plain functions, and libraries that are awaited run on a loop of
theirs.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import asyncpg
import django
import django.conf
import psycopg
import sqlalchemy
import sqlalchemy.ext.asyncio
import sqlalchemy.orm
from django import db

import fairway

django.conf.settings.configure(DATABASES={})
django.setup()

NO_POOL = {"poolclass": sqlalchemy.NullPool}


class Caller(ABC):
    """A program that blocks. *autocommit*: what its connection writes is there at once."""

    connection: Any

    def __init__(self, dsn: str, autocommit: bool = False) -> None:
        self.dsn, self.autocommit = dsn, autocommit
        self.open()

    @abstractmethod
    def open(self) -> None:
        """Make the connection."""

    def close(self) -> None:
        self.connection.close()

    @abstractmethod
    def transaction(self) -> AbstractContextManager[Any]:
        """Begin a transaction, or inside one a savepoint."""

    def execute(self, sql: str) -> None:
        self.connection.execute(sql)

    def submit(self, task: Any, *args: Any) -> fairway.Handle[Any]:
        handle: fairway.Handle[Any] = task.submit(*args, connection=self.connection)
        return handle

    def submit_the_wrong_way(self, task: Any, *args: Any) -> None:
        asyncio.run(task.asubmit(*args, connection=self.connection))


class Awaiting(Caller):
    """A program on an event loop."""

    def __init__(self, dsn: str, autocommit: bool = False) -> None:
        self.runner = asyncio.Runner()
        super().__init__(dsn, autocommit)

    def open(self) -> None:
        self.connection = self.runner.run(self.opened())

    @abstractmethod
    async def opened(self) -> Any:
        """Return a connection that was made on the loop."""

    def close(self) -> None:
        self.runner.run(self.connection.close())
        self.runner.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        entered = self.begun()
        self.runner.run(entered.__aenter__())
        try:
            yield
        except BaseException as error:
            self.runner.run(entered.__aexit__(type(error), error, error.__traceback__))
            raise
        self.runner.run(entered.__aexit__(None, None, None))

    def begun(self) -> Any:
        return self.connection.transaction()

    def execute(self, sql: str) -> None:
        self.runner.run(self.connection.execute(sql))

    def submit(self, task: Any, *args: Any) -> fairway.Handle[Any]:
        handle: fairway.Handle[Any] = self.runner.run(task.asubmit(*args, connection=self.connection))
        return handle

    def submit_the_wrong_way(self, task: Any, *args: Any) -> None:
        task.submit(*args, connection=self.connection)


class Asyncpg(Awaiting):
    async def opened(self) -> Any:
        return await asyncpg.connect(self.dsn)


class AsyncpgPool(Awaiting):
    async def opened(self) -> Any:
        self.pool = await asyncpg.create_pool(self.dsn, min_size=1, max_size=1)
        return await self.pool.acquire()

    def close(self) -> None:
        self.runner.run(self.pool.release(self.connection))
        self.runner.run(self.pool.close())
        self.runner.close()


class Psycopg(Caller):
    def open(self) -> None:
        # The caller's own kinds of row and cursor must not matter.
        self.connection = psycopg.connect(
            self.dsn,
            autocommit=self.autocommit,
            row_factory=psycopg.rows.dict_row,
            cursor_factory=psycopg.ClientCursor,
        )

    def transaction(self) -> AbstractContextManager[Any]:
        return self.connection.transaction()  # type: ignore[no-any-return]


class AsyncPsycopg(Awaiting):
    async def opened(self) -> Any:
        return await psycopg.AsyncConnection.connect(self.dsn, autocommit=self.autocommit)


class Alchemy(Caller):
    def open(self) -> None:
        self.connection = self.engine().connect()

    def engine(self) -> Any:
        options: dict[str, Any] = {"isolation_level": "AUTOCOMMIT"} if self.autocommit else {}
        url = self.dsn.replace("postgresql:", "postgresql+psycopg:")
        return sqlalchemy.create_engine(url, **NO_POOL, **options)

    def transaction(self) -> AbstractContextManager[Any]:
        connection = self.connection
        return connection.begin_nested() if connection.in_transaction() else connection.begin()  # type: ignore[no-any-return]

    def execute(self, sql: str) -> None:
        self.connection.execute(sqlalchemy.text(sql))


class AlchemySession(Alchemy):
    def open(self) -> None:
        self.connection = sqlalchemy.orm.Session(self.engine())


class AlchemyScoped(Alchemy):
    def open(self) -> None:
        self.connection = sqlalchemy.orm.scoped_session(sqlalchemy.orm.sessionmaker(self.engine()))

    def transaction(self) -> AbstractContextManager[Any]:
        session = self.connection()
        return session.begin_nested() if session.in_transaction() else session.begin()  # type: ignore[no-any-return]


class AsyncAlchemy(Awaiting):
    driver = "asyncpg"

    async def opened(self) -> Any:
        return await self.engine().connect()

    def engine(self) -> Any:
        options: dict[str, Any] = {"isolation_level": "AUTOCOMMIT"} if self.autocommit else {}
        url = self.dsn.replace("postgresql:", f"postgresql+{self.driver}:")
        return sqlalchemy.ext.asyncio.create_async_engine(url, **NO_POOL, **options)

    def begun(self) -> Any:
        connection = self.connection
        return connection.begin_nested() if connection.in_transaction() else connection.begin()

    def execute(self, sql: str) -> None:
        self.runner.run(self.connection.execute(sqlalchemy.text(sql)))


class AsyncAlchemyPsycopg(AsyncAlchemy):
    driver = "psycopg"


class AsyncAlchemySession(AsyncAlchemy):
    async def opened(self) -> Any:
        return sqlalchemy.ext.asyncio.AsyncSession(self.engine())


class AsyncAlchemyScoped(AsyncAlchemy):
    async def opened(self) -> Any:
        sessions = sqlalchemy.ext.asyncio.async_sessionmaker(self.engine())
        return sqlalchemy.ext.asyncio.async_scoped_session(sessions, scopefunc=lambda: "one")

    def begun(self) -> Any:
        session = self.connection()
        return session.begin_nested() if session.in_transaction() else session.begin()


class Django(Caller):
    def open(self) -> None:
        parts = psycopg.conninfo.conninfo_to_dict(self.dsn)
        names = {"NAME": "dbname", "USER": "user", "HOST": "host", "PORT": "port"}
        database = {"ENGINE": "django.db.backends.postgresql"} | {a: parts[b] for a, b in names.items()}
        db.connections.settings = db.connections.configure_settings({"default": database})
        self.connection = db.connection

    def close(self) -> None:
        self.connection.close()
        del db.connections["default"]

    def transaction(self) -> AbstractContextManager[Any]:
        return db.transaction.atomic()  # type: ignore[no-any-return]

    def execute(self, sql: str) -> None:
        with self.connection.cursor() as cursor:
            cursor.execute(sql)


CALLERS: dict[str, Callable[..., Caller]] = {
    "asyncpg": Asyncpg,
    "asyncpg-pool": AsyncpgPool,
    "psycopg": Psycopg,
    "psycopg-async": AsyncPsycopg,
    "sqlalchemy": Alchemy,
    "sqlalchemy-session": AlchemySession,
    "sqlalchemy-scoped": AlchemyScoped,
    "sqlalchemy-async": AsyncAlchemy,
    "sqlalchemy-async-psycopg": AsyncAlchemyPsycopg,
    "sqlalchemy-async-session": AsyncAlchemySession,
    "sqlalchemy-async-scoped": AsyncAlchemyScoped,
    "django": Django,
}
