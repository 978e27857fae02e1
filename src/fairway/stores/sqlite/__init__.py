"""The store in one file of one machine, on SQLite in WAL mode."""

from __future__ import annotations

from fairway.stores.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
