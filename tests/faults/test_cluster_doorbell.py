"""Notifications are only a doorbell: with all of them dropped, what was submitted directly begins anyway."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import asyncpg
import pytest

import fairway
from tests.faults.cluster import Cluster
from tests.faults.strikes import end_backends
from tests.pgbouncer import PgBouncer
from tests.postgres import TempPostgres

SUBMITS = 5
PATIENCE_SECONDS = 10.0
LISTENERS = "application_name = 'fairway doorbell'"


def submit_and_wait(dsn: str) -> None:
    """Submit to the database itself, and wait for each job to succeed."""
    app = fairway.App(database=dsn)

    @app.task(name="tests.faults.tasks.work")
    def work(seconds: float) -> float:
        raise AssertionError("it runs in the worker")

    try:
        for _ in range(SUBMITS):
            assert work.submit(0.0).result(timeout=PATIENCE_SECONDS) == 0.0
    finally:
        app.close()


@pytest.mark.timeout(120)
def test_a_listener_that_hears_nothing(tmp_path: Path, server: TempPostgres) -> None:
    dsn = server.new_database()
    with Cluster(tmp_path, dsn, nodes=1, workers=1) as cluster:
        cluster.until_led()
        submit_and_wait(dsn)
        with frozen_listener(dsn):
            submit_and_wait(dsn)
        end_backends(dsn, LISTENERS)(cluster)
        submit_and_wait(dsn)


@pytest.mark.long
@pytest.mark.timeout(120)
def test_behind_pgbouncer_nobody_hears(tmp_path: Path, server: TempPostgres) -> None:
    with PgBouncer(server.new_database()) as pooler, Cluster(tmp_path, pooler.dsn, nodes=1) as cluster:
        cluster.until_led()
        submit_and_wait(pooler.dsn)


@contextmanager
def frozen_listener(dsn: str) -> Iterator[None]:
    """Stop the session that listens: its connection stays open, and says nothing."""
    listeners = asyncio.run(_find_listeners(dsn))
    assert listeners, "nobody listens"
    for pid in listeners:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in listeners:
            os.kill(pid, signal.SIGCONT)


async def _find_listeners(dsn: str) -> list[int]:
    connection = await asyncpg.connect(dsn, timeout=10)
    try:
        found = await connection.fetch(
            f"SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = current_database()"
            f" AND {LISTENERS}"
        )
        return [int(row["pid"]) for row in found]
    finally:
        await connection.close(timeout=5)
