"""Brings a file up to date, forward only.

The version stands in the file. A file with tables but without our mark belongs to something else, one
with a higher version to a newer Fairway: both are left untouched.
"""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any

import apsw

from fairway.errors import StoreUnusable
from fairway.stores.sqlite.connection import fetch, transaction
from fairway.stores.sqlite.sql import MIGRATIONS

NEWEST = MIGRATIONS[-1][0]


def migrate(connection: apsw.Connection, path: Path) -> None:
    """Apply the migrations that are missing; several processes may try at once."""
    if check_version(connection, path) == NEWEST:
        return
    with transaction(connection):
        version = check_version(connection, path)  # once more: somebody may have been faster
        for number, script in MIGRATIONS:
            if number > version:
                connection.execute(script)
        if version == 0:
            mark = [("product", "fairway"), ("database", secrets.token_hex(8)), ("version", NEWEST)]
            connection.executemany("INSERT INTO meta (key, value) VALUES (?, ?)", mark)
        connection.execute("UPDATE meta SET value = ? WHERE key = 'version'", (NEWEST,))


def check_version(connection: apsw.Connection, path: Path) -> int:
    """Return the version of the file, 0 for an empty one; raise if we must not touch it."""
    if not fetch(connection, "SELECT 1 FROM sqlite_schema LIMIT 1"):
        return 0
    meta = {row[0]: row[1] for row in _meta(connection)}
    if meta.get("product") != "fairway":
        raise StoreUnusable(f"{path} is not a Fairway database; name a new file, or remove this one")
    version = int(str(meta["version"]))
    if version > NEWEST:
        raise StoreUnusable(
            f"{path} has schema version {version}, this Fairway knows {NEWEST}; use the newer Fairway"
        )
    return version


def _meta(connection: apsw.Connection) -> list[tuple[Any, ...]]:
    columns = [row[1] for row in fetch(connection, "PRAGMA table_info(meta)")]
    return fetch(connection, "SELECT key, value FROM meta") if columns == ["key", "value"] else []
