"""A database of the first version gets all that came since, and keeps what it holds."""

from __future__ import annotations

import sqlite3

import asyncpg
import pytest

from fairway.core.lifecycle import State
from fairway.errors import WorldError
from fairway.store import ScheduleChange, ScheduleRow, Store
from fairway.stores.postgres import PostgresStore
from fairway.stores.sqlite import SqliteStore
from fairway.stores.sqlite.sql import MIGRATIONS
from tests.conformance.stage import NOW, Stage, an_end, new_job

COLUMNS = (
    "id, state, queue, flow, priority, adapter, task, tags, once, run_at, place, created_at, attempt, tries,"
    " crashes, losses, generation, incarnation, worker, started_at, rules, unique_key, outcome, payload"
)
UNDO = """
ALTER TABLE fairway.beat DROP COLUMN channel;
DROP TABLE fairway.culprit;
DROP TABLE fairway.note;
DROP TABLE fairway.cause;
ALTER TABLE fairway.ended DROP COLUMN cause;
DROP TABLE fairway.delivery;
DROP TABLE fairway.schedule;
DROP TABLE fairway.queue_change;
ALTER TABLE fairway.job DROP COLUMN extras;
ALTER TABLE fairway.ended DROP COLUMN extras;
ALTER TABLE fairway.claim DROP COLUMN until;
ALTER TABLE fairway.claim DROP COLUMN over;
UPDATE fairway.meta SET value = '1' WHERE key = 'version';
"""


# A store in memory ends with its process: there is none of an earlier version.
@pytest.mark.parametrize("store", ["sqlite", "postgres"], indirect=True)
async def test_waiting_running_and_ended_jobs_come_along(stage: Stage) -> None:
    store = stage.store
    await stage.submit(new_job(7), new_job(8), new_job(9))
    await stage.begin(8, 9)
    await stage.end(9)
    await store.close()
    await go_back(store)
    await store.open()
    assert await stage.states(7, 8, 9) == [State.QUEUED, State.RUNNING, State.SUCCEEDED]
    assert await stage.waiting() == [7]
    [live] = await store.live_attempts()
    assert (live.arrival.job, live.begun.attempt, live.incarnation, live.worker) == (8, 1, "w1-a", "w1")
    await stage.commit(ends=[an_end(8)])
    assert await stage.begin(7)
    assert await stage.states(7, 8, 9) == [State.RUNNING, State.SUCCEEDED, State.SUCCEEDED]
    row = ScheduleRow("night", 1, b"{}", b"{}", NOW, NOW)
    assert await store.write_schedule(stage.term, "leader", ScheduleChange("night", 0, row), NOW) == []


@pytest.mark.parametrize("store", ["postgres"], indirect=True)
async def test_an_upgrade_that_somebody_is_in_the_way_of_says_so_and_changes_nothing(stage: Stage) -> None:
    """Whoever submits inside a transaction of its own holds what it read, the beat, until that is over."""
    store = stage.store
    assert isinstance(store, PostgresStore)
    await stage.submit(new_job(7))
    await store.close()
    await go_back(store)
    user = await asyncpg.connect(store.dsn, timeout=10)
    try:
        async with user.transaction():
            await user.execute("SELECT * FROM fairway.beat")
            with pytest.raises(WorldError, match="lock"):
                await store.open()
    finally:
        await user.close()
    await store.close()
    await store.open()
    assert await stage.waiting() == [7]


async def go_back(store: Store) -> None:
    """Make a database of version 1 of one that is closed."""
    if isinstance(store, SqliteStore):
        with sqlite3.connect(store.path) as file:
            _go_back_in_file(file)
        file.close()
    else:
        assert isinstance(store, PostgresStore)
        user = await asyncpg.connect(store.dsn)
        await user.execute(UNDO)
        await user.close()


def _go_back_in_file(file: sqlite3.Connection) -> None:
    rows = {
        "job": (f"{COLUMNS}, cancelling", file.execute(f"SELECT {COLUMNS}, cancelling FROM hot").fetchall()),
        "ended": (f"{COLUMNS}, ended_at", file.execute(f"SELECT {COLUMNS}, ended_at FROM ended").fetchall()),
    }
    for kind, name in file.execute("SELECT type, name FROM sqlite_schema WHERE sql IS NOT NULL").fetchall():
        if kind in ("table", "view") and not name.startswith("sqlite_") and name not in ("meta", "leader"):
            file.execute(f"DROP {kind} {name}")
    old = MIGRATIONS[0][1].replace("CREATE TABLE ", "CREATE TABLE IF NOT EXISTS ")
    file.executescript(old + "; UPDATE meta SET value = 1 WHERE key = 'version';")
    for table, (columns, values) in rows.items():
        marks = ", ".join("?" for _ in columns.split(","))
        file.executemany(f"INSERT INTO {table} ({columns}) VALUES ({marks})", values)
