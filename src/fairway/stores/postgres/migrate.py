"""Prepares a schema and brings it up to date, forward only.

The version stands in the schema. A schema with anything in it but without our mark belongs to something else,
one with a higher version to a newer Fairway: both are left untouched. Nodes that start together take turns.
"""

from __future__ import annotations

import secrets
from typing import Literal

from fairway.errors import StoreUnusable
from fairway.stores.postgres.connection import Connection
from fairway.stores.postgres.sql import in_schema, migrations_of

#: What there is in a schema; types are those of its tables too, and such as belong to none. Its number is
#: read from the table: `to_regnamespace` may not see yet what somebody made while we waited for our turn.
CONTENTS = """
WITH ours AS (SELECT oid FROM pg_namespace WHERE nspname = $1)
SELECT relname, relkind = 'r' FROM pg_class WHERE relnamespace IN (SELECT oid FROM ours)
UNION ALL
SELECT proname, false FROM pg_proc WHERE pronamespace IN (SELECT oid FROM ours)
UNION ALL
SELECT typname, false FROM pg_type WHERE typnamespace IN (SELECT oid FROM ours)
"""

#: Names are quoted as SQL wants them: what comes of them is said to people, to be run.
RIGHTS = """
SELECT quote_ident(current_user) AS role,
       quote_ident(current_database()) AS database,
       has_database_privilege(current_database(), 'CREATE') AS may_make_schemas,
       quote_ident(pg_get_userbyid(n.nspowner)) AS owner,
       has_schema_privilege(n.oid, 'USAGE') AND has_schema_privilege(n.oid, 'CREATE') AS may_make_tables,
       has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(meta.oid, 'SELECT') AS may_read
  FROM (SELECT) AS one
  LEFT JOIN pg_namespace AS n ON n.nspname = $1
  LEFT JOIN pg_class AS meta ON meta.relnamespace = n.oid AND meta.relname = 'meta'
"""

Migrated = Literal["prepared", "updated"]


async def migrate(connection: Connection, schema: str) -> Migrated | None:
    """Apply the migrations that are missing, inside the caller's transaction.

    Return whether that prepared a new schema or updated an older one; None if nothing was missing.
    """
    migrations = migrations_of(schema)
    newest = migrations[-1][0]
    if await find_version(connection, schema, newest) == newest:
        return None
    await connection.execute("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", f"fairway {schema}")
    version = await find_version(connection, schema, newest)  # once more: somebody may have been faster
    if version == newest:
        return None
    await _make_schema(connection, schema)
    for number, script in migrations:
        if number > version:
            await connection.execute(script)
    mark = [("product", "fairway"), ("database", secrets.token_hex(8)), ("version", str(newest))]
    upsert = "INSERT INTO fairway.meta VALUES ($1, $2) ON CONFLICT (key) DO UPDATE SET value = excluded.value"
    for key, value in mark if version == 0 else mark[2:]:
        await connection.execute(in_schema(upsert, schema), key, value)
    return "prepared" if version == 0 else "updated"


async def _make_schema(connection: Connection, schema: str) -> None:
    """Make the schema if it is not there; raise what an admin has to run if we may not.

    An admin may have made it for a role that may make none: even IF NOT EXISTS would be refused then.
    """
    rights = await connection.fetchrow(RIGHTS, schema)
    role, where = rights["role"], f"let an admin of database {rights['database']} run"
    if rights["owner"] is None and not rights["may_make_schemas"]:
        raise StoreUnusable(
            f"there is no schema {schema}, and role {role} may make none; "
            f"{where}: CREATE SCHEMA {schema} AUTHORIZATION {role};"
        )
    if rights["owner"] is None:
        await connection.execute(f"CREATE SCHEMA {schema}")
    elif not rights["may_make_tables"]:
        raise StoreUnusable(
            f"schema {schema} belongs to {rights['owner']}, and role {role} may make no tables in it; "
            f"{where}: ALTER SCHEMA {schema} OWNER TO {role};"
        )


async def find_version(connection: Connection, schema: str, newest: int) -> int:
    """Return the version of the schema, 0 for none or an empty one; raise if we must not touch it."""
    found = {(name, is_table) for name, is_table in await connection.fetch(CONTENTS, schema)}
    if not found:
        return 0
    meta: dict[str, str] = {}
    if ("meta", True) in found:
        await _check_reader(connection, schema)
        meta = dict(await connection.fetch(in_schema("SELECT key, value FROM fairway.meta", schema)))
    if meta.get("product") != "fairway":
        raise StoreUnusable(f"schema {schema} holds what is not Fairway's; name another --scheduler")
    version = int(meta["version"])
    if version > newest:
        raise StoreUnusable(
            f"schema {schema} is of version {version}, this Fairway knows {newest}; use the newer Fairway"
        )
    return version


async def _check_reader(connection: Connection, schema: str) -> None:
    rights = await connection.fetchrow(RIGHTS, schema)
    if not rights["may_read"]:
        role, owner = rights["role"], rights["owner"]
        raise StoreUnusable(
            f"schema {schema} belongs to {owner}, and role {role} may not read it; connect as {owner}, "
            f"or let an admin of database {rights['database']} run: GRANT {owner} TO {role};"
        )
