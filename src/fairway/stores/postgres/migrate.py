"""Prepares a schema and brings it up to date, forward only.

The version stands in the schema. A schema with tables but without our mark belongs to something else, one
with a higher version to a newer Fairway: both are left untouched. Nodes that start together take turns.
"""

from __future__ import annotations

import secrets

from fairway.errors import StoreUnusable
from fairway.stores.postgres.connection import Connection
from fairway.stores.postgres.sql import in_schema, migrations_of


async def migrate(connection: Connection, schema: str) -> bool:
    """Apply the migrations that are missing, inside the caller's transaction; say whether there were any."""
    migrations = migrations_of(schema)
    newest = migrations[-1][0]
    if await find_version(connection, schema, newest) == newest:
        return False
    await connection.execute("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", f"fairway {schema}")
    version = await find_version(connection, schema, newest)  # once more: somebody may have been faster
    if version == newest:
        return False
    await connection.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
    for number, script in migrations:
        if number > version:
            await connection.execute(script)
    mark = [("product", "fairway"), ("database", secrets.token_hex(8)), ("version", str(newest))]
    upsert = "INSERT INTO fairway.meta VALUES ($1, $2) ON CONFLICT (key) DO UPDATE SET value = excluded.value"
    for key, value in mark if version == 0 else mark[2:]:
        await connection.execute(in_schema(upsert, schema), key, value)
    return True


async def find_version(connection: Connection, schema: str, newest: int) -> int:
    """Return the version of the schema, 0 for none or an empty one; raise if we must not touch it."""
    tables = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = $1", schema)
    if not tables:
        return 0
    meta: dict[str, str] = {}
    if any(row[0] == "meta" for row in tables):
        meta = dict(await connection.fetch(in_schema("SELECT key, value FROM fairway.meta", schema)))
    if meta.get("product") != "fairway":
        raise StoreUnusable(f"schema {schema} has tables that are not Fairway's; name another --scheduler")
    version = int(meta["version"])
    if version > newest:
        raise StoreUnusable(
            f"schema {schema} is of version {version}, this Fairway knows {newest}; use the newer Fairway"
        )
    return version
