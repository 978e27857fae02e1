"""Every store runs the same suite. To add one: a name here, and how to open it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from fairway.store import Store
from fairway.stores.memory import MemoryStore
from fairway.stores.postgres import PostgresStore
from fairway.stores.sqlite import SqliteStore
from tests.conformance.stage import Stage
from tests.postgres import shared_server

STORES = ("memory", "sqlite", "postgres")


async def make_store(kind: str, folder: Path) -> Store:
    """Make a store that keeps what it keeps in *folder*, or in a database of its own."""
    if kind == "postgres":
        return PostgresStore(await shared_server().make_database())
    return MemoryStore() if kind == "memory" else SqliteStore(folder / "fairway.db")


@pytest.fixture(params=STORES)
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    opened = await make_store(request.param, tmp_path)
    await opened.open()
    yield opened
    await opened.close()
    if isinstance(opened, PostgresStore):
        await shared_server().drop_database(opened.dsn)


@pytest.fixture
async def stage(store: Store) -> Stage:
    return await Stage(store).lead()
