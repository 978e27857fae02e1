"""Reads what `fairway doctor` judges of a PostgreSQL, as the role that the nodes use sees it.

Settings are read on a plain connection, so they are what one gets that sets nothing itself: the server's, the
database's, the role's. What the role may not see is None, and no error.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from fairway.places import postgres_address

SETTINGS = (
    "autovacuum", "autovacuum_naptime", "fsync", "full_page_writes", "idle_in_transaction_session_timeout",
    "idle_session_timeout", "jit_above_cost", "lock_timeout", "max_connections", "max_wal_size",
    "reserved_connections", "statement_timeout", "superuser_reserved_connections", "synchronous_commit",
    "synchronous_standby_names", "track_counts", "transaction_timeout", "wal_level",
)  # fmt: skip


class Setting(NamedTuple):
    """A setting in its own unit, and who has set it, as pg_settings says both."""

    value: str
    source: str = "default"


class Taken(NamedTuple):
    """Connections that are open, those of Fairway among them, and the limits of our role and database."""

    all: int
    fairway: int
    by_role: int = 0
    role_limit: int = -1
    in_database: int = 0
    database_limit: int = -1


class OpenTransaction(NamedTuple):
    """A transaction of our database that is open for long; *pid* is None if it is a prepared one."""

    pid: int | None
    seconds: float
    role: str
    name: str
    state: str


class Standby(NamedTuple):
    """A server that follows; what of it we may not see is None."""

    name: str
    sync_state: str | None
    lag_seconds: float | None
    lag_bytes: int | None


class Slot(NamedTuple):
    """A replication slot that nobody uses, and the bytes of WAL that are kept for it."""

    name: str
    kept_bytes: int


class Server(NamedTuple):
    """What was read of a server."""

    version: int = 18
    role: str = "fairway"  # quoted as SQL wants it, as the database is
    database: str = "jobs"
    schema: str = "fairway"
    tables: int = 0  # their version, 0 for none
    settings: Mapping[str, Setting] = {}
    compiles: bool = False
    sees_others: bool = True
    taken: Taken | None = None
    not_vacuumed: tuple[str, ...] = ()
    transactions: tuple[OpenTransaction, ...] | None = ()
    standbys: tuple[Standby, ...] | None = ()
    slots: tuple[Slot, ...] | None = ()

    def get(self, name: str, default: str = "0") -> str:
        """Return the value of a setting; older servers do not have all of them."""
        return self.settings[name].value if name in self.settings else default


async def read_server(address: str, old_seconds: float) -> Server:
    """Read all of it; transactions are listed from an age of *old_seconds* on."""
    from fairway.stores.postgres.connection import TROUBLE, connect
    from fairway.stores.postgres.mistakes import explain

    dsn, schema = postgres_address(address)
    connection = await connect(dsn)
    try:
        async with connection.transaction(readonly=True):
            return await _read(connection, schema, old_seconds)
    except TROUBLE as error:
        raise explain(error, dsn) from error
    finally:
        await connection.close(timeout=5)


async def _read(connection: Any, schema: str, old_seconds: float) -> Server:
    """Read all of it inside a transaction: what we look for must not end our own looking."""
    from fairway.stores.postgres.migrate import find_version
    from fairway.stores.postgres.sql import migrations_of

    [(role, database, compiles, sees_others)] = await connection.fetch(WHO)
    rows = await connection.fetch(READ_SETTINGS, SETTINGS)
    await connection.execute("SET LOCAL statement_timeout = '10s'")
    taken = await _may_see(connection, READ_TAKEN)
    sessions = await _may_see(connection, READ_TRANSACTIONS, old_seconds)
    standbys = await _may_see(connection, READ_STANDBYS)
    slots = await _may_see(connection, READ_SLOTS)
    return Server(
        version=connection.get_server_version().major,
        role=role,
        database=database,
        schema=schema,
        tables=await find_version(connection, schema, migrations_of(schema)[-1][0]),
        settings={name: Setting(value, source) for name, value, source in rows},
        compiles=compiles,
        sees_others=sees_others,
        taken=None if taken is None else Taken(*taken[0]),
        not_vacuumed=tuple(row[0] for row in await connection.fetch(READ_NOT_VACUUMED, schema)),
        transactions=None if sessions is None else tuple(OpenTransaction(*row) for row in sessions),
        standbys=None if standbys is None else tuple(Standby(*row) for row in standbys),
        slots=None if slots is None else tuple(Slot(*row) for row in slots),
    )


async def _may_see(connection: Any, sql: str, *values: Any) -> list[Any] | None:
    """Run a query; None if the role may not."""
    import asyncpg

    try:
        async with connection.transaction():  # so that a refusal does not end the outer one
            rows: list[Any] = await connection.fetch(sql, *values)
    except asyncpg.InsufficientPrivilegeError:
        return None
    return rows


WHO = """
SELECT quote_ident(current_user),
       quote_ident(current_database()),
       pg_jit_available(),
       pg_has_role(current_user, 'pg_read_all_stats', 'USAGE')
"""

READ_SETTINGS = """
SELECT name, setting, source
  FROM pg_settings
 WHERE name = ANY($1::text[])
"""

# Of others' sessions a role without more rights sees neither the kind nor the state, but that they are there.
READ_TAKEN = """
SELECT count(*),
       count(*) FILTER (WHERE application_name LIKE 'fairway%'),
       count(*) FILTER (WHERE usename = current_user),
       (SELECT rolconnlimit FROM pg_roles WHERE rolname = current_user),
       count(*) FILTER (WHERE datname = current_database()),
       (SELECT datconnlimit FROM pg_database WHERE datname = current_database())
  FROM pg_stat_activity
 WHERE datid IS NOT NULL
   AND coalesce(backend_type, 'client backend') = 'client backend'
   AND pid <> pg_backend_pid()
"""

READ_TRANSACTIONS = """
WITH open AS (
  SELECT pid, extract(epoch FROM clock_timestamp() - xact_start)::float8 AS seconds, usename::text AS role,
         application_name AS name, coalesce(state, '') AS state
    FROM pg_stat_activity
   WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()
  UNION ALL
  SELECT NULL, extract(epoch FROM clock_timestamp() - prepared)::float8, owner::text, gid, 'prepared'
    FROM pg_prepared_xacts
   WHERE database = current_database()
)
SELECT *
  FROM open
 WHERE seconds >= $1::float8
 ORDER BY seconds DESC
"""

READ_STANDBYS = """
SELECT application_name,
       sync_state,
       extract(epoch FROM replay_lag)::float8,
       pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn)::bigint
  FROM pg_stat_replication
 ORDER BY application_name
"""

READ_SLOTS = """
SELECT slot_name::text, coalesce(pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn), 0)::bigint
  FROM pg_replication_slots
 WHERE NOT active AND restart_lsn IS NOT NULL
 ORDER BY slot_name
"""

READ_NOT_VACUUMED = """
SELECT relname::text
  FROM pg_class
 CROSS JOIN LATERAL pg_options_to_table(reloptions) AS option
 WHERE relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = $1)
   AND option_name = 'autovacuum_enabled' AND NOT option_value::boolean
 ORDER BY relname
"""
