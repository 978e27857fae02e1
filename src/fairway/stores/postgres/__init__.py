"""PostgreSQL, through asyncpg: many nodes on many machines, one database.

The store is imported when it is asked for: a program that submits through a library of its own needs the
statements, but no asyncpg.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairway.stores.postgres.store import PostgresStore as PostgresStore


def __getattr__(name: str) -> Any:
    if name != "PostgresStore":
        raise AttributeError(name)
    from fairway.stores.postgres.store import PostgresStore

    return PostgresStore
