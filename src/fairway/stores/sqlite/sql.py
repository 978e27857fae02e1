"""The statements of the SQLite store, and its migrations."""

from __future__ import annotations

from fairway.stores.queries import load_migrations, load_queries

SQL = load_queries(__package__)
MIGRATIONS = load_migrations(__package__)
