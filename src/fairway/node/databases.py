"""Which database a node works on: chosen by its address, with what only some of them have.

A file belongs to one machine, so OS locks beside it tell at once who of that machine is dead. A database for
many machines has none: there the beat and the leases decide.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, Protocol

from fairway.core.model import Timers
from fairway.node.options import NodeOptions
from fairway.places import is_postgres, postgres_address, postgres_missing, without_password
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
    kill_leases: int = 1  # so many leases last those of attempts whose code is ended with them

    def adapt(self, timers: Timers) -> Timers:
        """Return the timers as this database needs them."""
        return replace(timers, kill_lease=max(timers.kill_lease, timers.lease * self.kill_leases))


def choose_database(options: NodeOptions) -> Database:
    """Return the database that the options name, not opened yet."""
    address = options.database_address()
    if is_postgres(address):
        return _postgres(address, options.scheduler)
    path = options.database_path()
    return Database(SqliteStore(path), path, leader_lock(path), WorkerLocks(path))


def _postgres(address: str, scheduler: str | None) -> Database:
    try:
        from fairway.stores.postgres import PostgresStore
    except ImportError as error:
        raise postgres_missing(error) from None
    dsn, named = postgres_address(address)
    store = PostgresStore(dsn, scheduler or named)
    # A fail-over of the database may last 25 s, and must not kill what runs: 30 s instead of 10.
    return Database(store, without_password(address), kill_leases=3)
