"""Which database a node works on: chosen by its address, with what only some of them have.

A file belongs to one machine, so OS locks beside it tell at once who of that machine is dead. A database for
many machines has none: there the beat and the leases decide.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, Protocol
from urllib.parse import urlsplit, urlunsplit

from fairway.errors import FairwayError
from fairway.node.options import NodeOptions
from fairway.store import Store
from fairway.stores.sqlite import SqliteStore
from fairway.stores.sqlite.locks import FileLock, WorkerLocks, leader_lock


class NodeStore(Store, Protocol):
    """A store with a doorbell that a leader answers."""

    def listen(self) -> bool:
        """Answer the doorbell from now on: for the node that leads."""

    def stop_listening(self) -> None:
        """Leave the doorbell to somebody else."""


class Database(NamedTuple):
    """A store, and the locks of one machine if it has them."""

    store: NodeStore
    shown: Path | str
    lock: FileLock | None = None
    worker_locks: WorkerLocks | None = None


def choose_database(options: NodeOptions) -> Database:
    """Return the database that the options name, not opened yet."""
    address = options.database_address()
    if address.startswith(("postgresql://", "postgres://")):
        return _postgres(address, options.scheduler)
    path = options.database_path()
    return Database(SqliteStore(path), path, leader_lock(path), WorkerLocks(path))


def _postgres(address: str, scheduler: str | None) -> Database:
    try:
        from fairway.stores.postgres import PostgresStore
    except ImportError as error:
        raise FairwayError(f"PostgreSQL needs asyncpg: pip install asyncpg ({error})") from None
    store = PostgresStore(address, scheduler) if scheduler else PostgresStore(address)
    return Database(store, without_password(address))


def without_password(address: str) -> str:
    """Return an address as it may be shown."""
    parts = urlsplit(address)
    user, at, hosts = parts.netloc.rpartition("@")
    return urlunsplit((parts.scheme, user.partition(":")[0] + at + hosts, parts.path, "", ""))
