"""Connections to PostgreSQL: opened with patience, used inside transactions, given up when they are doubtful.

What must not wait behind a search (the leader's commits and its beat) has connections of its own. On a direct
connection the timeouts are set once and a single statement needs no transaction around it. Behind PgBouncer a
session belongs to nobody: there every call is a transaction, and brings its settings with its BEGIN.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

import asyncpg

from fairway.errors import FairwayError, StoreUnavailable, StoreUnusable, Unsure
from fairway.stores.postgres.mistakes import explain, place_of
from fairway.stores.postgres.pool import Pool

NAME = "fairway"
OLDEST_SERVER = 15
CONNECT_SECONDS = 5.0
STATEMENT_SECONDS = 10.0
#: A leader that freezes inside a transaction must not hold the leader row: a successor waits for it.
IDLE_SECONDS = 2.0
LOCK_SECONDS = 2.0
TIMEOUTS = {
    "statement_timeout": STATEMENT_SECONDS,
    "lock_timeout": LOCK_SECONDS,
    "idle_in_transaction_session_timeout": IDLE_SECONDS,
}
#: Our statements find rows by their keys. A plan that was made, and kept, while a table was small must not
#: read it from end to end, or hash it, when there are millions in it: only a search may (`reading`).
BY_KEY = ("enable_seqscan", "enable_hashjoin", "enable_mergejoin")
#: So there is one plan for each. Left to itself the server makes a new one for every array it is given, which
#: takes longer than to begin a job.
PLANS = "plan_cache_mode"
#: Before version 18 a plan that cannot but read a table from end to end, be it of one row, is said to cost 10
#: billion by `BY_KEY`. A server with LLVM then compiles the statement, anew at each call: 100 ms for 1.
COMPILES = "jit"
#: What our statements are written for, whatever was set for the role: each sees what was committed before it,
#: and a backslash in a text is a backslash.
LEVEL = "read committed"
PLAIN_TEXT = "standard_conforming_strings"

T = TypeVar("T")
Connection = Any  # asyncpg's
#: Classes of errors after which a connection is gone, and what it was doing with it.
LOST = ("08", "57", "58")
#: What asyncpg and the network raise when something is wrong outside.
TROUBLE = (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)


class Attentive(asyncpg.Connection):  # type: ignore[misc]
    """A connection that remembers what it was warned of."""

    __slots__ = ("warnings",)


class Connections:
    """A bounded number of connections, opened when they are needed."""

    def __init__(
        self,
        dsn: str,
        most: int,
        *,
        direct: bool,
        name: str = NAME,
        greet: Callable[[Connection], Awaitable[None]] | None = None,
        spare: Connections | None = None,
    ) -> None:
        self._dsn, self._most, self._direct = dsn, most, direct
        self._name = name  # as the server shows it
        self._greet = greet  # each new one, before it is used
        self._spare = spare  # gives one up for us if the server has none left
        self._pool: Pool | None = None

    async def close(self) -> None:
        """Close them all, waiting for those in use for a moment only."""
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.close(1.0)

    def cut(self) -> None:
        """End them all at once."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.cut()

    async def forget(self) -> None:
        """Let every connection be opened anew: the server we knew may not be the primary any more."""
        if self._pool is not None:
            self._pool.expire()

    # A job that waits for nothing else waits for this code, which is cold by then. Without the layers of
    # context managers that larger transactions have, a direct submit began its job in a tenth less time.
    async def run(self, sql: str, *values: Any) -> list[Any]:
        """Run one statement by itself: one that reads, or that may be run twice without harm."""
        pool = self._open()
        for again in (True, False):  # a connection may have died in the pool
            connection = await self._take(pool)
            try:
                return await self._fetch(connection, sql, values)
            except BaseException as error:
                ours = await self._after(error, connection)
                if again and isinstance(ours, StoreUnavailable) and _is_dead(connection):
                    continue
                if ours is error:
                    raise
                raise ours from error
            finally:
                pool.release(connection)
        raise StoreUnavailable("unreachable")

    async def run_once(self, sql: str, *values: Any) -> list[Any]:
        """Run one statement that writes; raises Unsure if nobody knows whether it did."""
        if self._direct:
            pool = self._open()
            connection = await self._take(pool)
            try:
                rows: list[Any] = await self._keep(connection, connection.fetch, sql, *values)
            finally:
                pool.release(connection)
            return rows
        async with self._acquire(_begin("BEGIN")) as (connection, _):
            rows = await self._keep(connection, connection.fetch, sql, *values)
            await self._commit(connection, "COMMIT")
            return rows

    async def _fetch(self, connection: Connection, sql: str, values: Sequence[Any]) -> list[Any]:
        if self._direct:
            rows: list[Any] = await connection.fetch(sql, *values)
            return rows
        await connection.execute(_begin("BEGIN"))
        rows = await connection.fetch(sql, *values)
        await connection.execute("COMMIT")
        return rows

    @asynccontextmanager
    async def reading(self, seconds: float = STATEMENT_SECONDS) -> AsyncIterator[Connection]:
        """Give a connection inside a transaction that is only read in."""
        freely = "".join(f"SET LOCAL {name} = on;" for name in BY_KEY) + f"SET LOCAL {PLANS} = auto;"
        begin = _begin("BEGIN READ ONLY", statement_timeout=seconds) + freely
        async with self._acquire(begin) as (connection, _), self._errors(connection):
            yield connection
            await connection.execute("COMMIT")

    @asynccontextmanager
    async def writing(
        self, fence: str = "", *, lock_seconds: float = LOCK_SECONDS, last_words: Sequence[str] = ()
    ) -> AsyncIterator[Connection]:
        """Give a connection inside a transaction, and commit it; *last_words* are sent with the COMMIT.

        *fence* is a query without parameters, sent with the BEGIN; None is given if it finds no row. Raises
        StoreUnavailable if surely nothing was written, Unsure if nobody knows.
        """
        async with self._acquire(self._begin(lock_seconds) + fence) as (connection, status):
            async with self._errors(connection):
                if fence and status != "SELECT 1":
                    await connection.execute("ROLLBACK")
                    yield None
                    return
                yield connection
            await self._commit(connection, ";".join([*last_words, "COMMIT"]))

    def _begin(self, lock_seconds: float) -> str:
        if self._direct and lock_seconds == LOCK_SECONDS:
            return "BEGIN;"
        return _begin("BEGIN", lock_timeout=lock_seconds)

    async def _commit(self, connection: Connection, words: str) -> None:
        """Say the last words and commit."""
        status = await self._keep(connection, connection.execute, words)
        if status != "COMMIT":
            raise StoreUnavailable(f"the database answered {status!r} to a COMMIT: nothing was written")

    async def _keep(self, connection: Connection, say: Callable[..., Awaitable[T]], *words: Any) -> T:
        """Say what is kept from then on; an answer that does not come, or with a warning, is no answer."""
        connection.warnings.clear()
        try:
            answer = await say(*words)
        except asyncpg.PostgresError as error:
            if error.sqlstate and error.sqlstate[:2] not in LOST:  # the server said no: it has rolled back
                await self._roll_back(connection)
                raise explain(error) from error
            _cut(connection)
            raise Unsure(f"nobody knows whether the last write was kept: {explain(error)}") from error
        except TROUBLE as error:
            _cut(connection)
            raise Unsure(f"nobody knows whether the last write was kept: {explain(error)}") from error
        except BaseException:
            _cut(connection)
            raise
        if connection.warnings:
            warning = connection.warnings[0]
            raise Unsure(f"the database kept the last write, but perhaps not on its standby: {warning}")
        return answer

    @asynccontextmanager
    async def _acquire(self, words: str = "") -> AsyncIterator[tuple[Connection, str]]:
        """Give a connection on which *words* were said, and the answer to the last of them.

        A connection may have died while it lay in the pool. Nothing is written before these words, so
        they are said once more on another.
        """
        pool = self._open()
        for again in (True, False):
            connection = await self._take(pool)
            try:
                async with self._errors(connection):
                    status = await connection.execute(words) if words else ""
            except FairwayError as error:
                dead = _is_dead(connection)
                pool.release(connection)
                if again and dead and isinstance(error, StoreUnavailable):
                    continue
                raise
            break
        try:
            yield connection, status
        finally:
            pool.release(connection)

    async def _take(self, pool: Pool) -> Connection:
        try:
            return await pool.acquire(CONNECT_SECONDS + 1)
        except TROUBLE as error:
            raise explain(error, self._dsn) from error

    @asynccontextmanager
    async def _errors(self, connection: Connection) -> AsyncIterator[None]:
        """Turn what goes wrong into our own errors, and roll back."""
        try:
            yield
        except BaseException as error:
            ours = await self._after(error, connection)
            if ours is error:
                raise
            raise ours from error

    async def _after(self, error: BaseException, connection: Connection) -> BaseException:
        """Roll back, and return what went wrong as an error of ours."""
        if isinstance(error, TROUBLE):
            if isinstance(error, asyncpg.ReadOnlySQLTransactionError):
                await self.forget()
            await self._roll_back(connection)
            return explain(error)
        if isinstance(error, FairwayError):
            await self._roll_back(connection)
        else:
            _cut(connection)  # cancelled in the middle: the server rolls back when the connection ends
        return error

    async def _roll_back(self, connection: Connection) -> None:
        try:
            async with asyncio.timeout(2.0):
                await connection.execute("ROLLBACK")
        except TROUBLE:
            _cut(connection)

    def _open(self) -> Pool:
        if self._pool is None:
            beg = None if self._spare is None else self._spare.give_one_up
            self._pool = Pool(self._connect, self._most, beg)
        return self._pool

    def give_one_up(self) -> bool:
        """Close one connection for others; say whether there was one to spare."""
        return self._pool is not None and self._pool.give_one_up()

    @property
    def is_alone(self) -> bool:
        """Whether one connection must do, for the server had no second one."""
        return self._pool is not None and self._pool.is_alone

    async def _connect(self) -> Connection:
        options = _options(self._direct, self._name)
        connection = await asyncpg.connect(self._dsn, connection_class=Attentive, **options)
        connection.warnings = []
        connection.add_log_listener(_heed)
        if self._greet is not None:
            try:
                await self._greet(connection)
            except BaseException:
                _cut(connection)
                raise
        return connection


def _is_dead(connection: Connection) -> bool:
    return bool(connection.is_closed())


def _cut(connection: Connection) -> None:
    """End a connection of which nobody knows in what state it is."""
    with suppress(asyncpg.InterfaceError):
        connection.terminate()


async def connect(dsn: str) -> Connection:
    """Open one connection of unknown kind, or say what is wrong in one line.

    Whoever uses a database begins here, so a server that does not know our statements is refused here.
    """
    try:
        connection = await asyncpg.connect(dsn, **_options(direct=False))
    except (ValueError, OverflowError, *TROUBLE) as error:
        raise explain(error, dsn) from error
    version = connection.get_server_version().major
    if version < OLDEST_SERVER:
        _cut(connection)
        raise StoreUnusable(
            f"PostgreSQL at {place_of(dsn)} is of version {version}; use {OLDEST_SERVER} or newer"
        )
    return connection


def _options(direct: bool, name: str = NAME) -> dict[str, Any]:
    settings = {key: str(int(value * 1000)) for key, value in TIMEOUTS.items()}
    settings |= dict.fromkeys(BY_KEY, "off") | {PLANS: "force_generic_plan", COMPILES: "off"}
    settings |= {"default_transaction_isolation": LEVEL, PLAIN_TEXT: "on"}
    keepalives = {"tcp_keepalives_idle": "5", "tcp_keepalives_interval": "2", "tcp_keepalives_count": "3"}
    return {
        "server_settings": {"application_name": name, **settings, **keepalives} if direct else None,
        "timeout": CONNECT_SECONDS,
        "command_timeout": STATEMENT_SECONDS + 2,
        "statement_cache_size": 200 if direct else 0,
        "target_session_attrs": "read-write",
    }


def _begin(begin: str, **changes: float) -> str:
    timeouts = TIMEOUTS | changes
    words = [f"SET LOCAL {key} = {int(value * 1000)}" for key, value in timeouts.items()]
    fixed = [f"SET LOCAL {COMPILES} = off", f"SET LOCAL {PLAIN_TEXT} = on"]
    return ";".join([f"{begin} ISOLATION LEVEL {LEVEL}", *words, *fixed, ""])


def _heed(connection: Any, message: Any) -> None:
    if getattr(message, "severity_en", "") == "WARNING":
        connection.warnings[:] = [str(message)]
