"""The life of thousands of jobs on PostgreSQL as the system's packages have it: nothing of ours is compiled.

Its planner compiles what it thinks dear, with LLVM, at each call anew. So this does what a benchmark does, by
all the ways to submit, and then asks the server. That what callers run in their own connections stays cheap
in tables of any size is for tests/conformance/test_stock_server.py to say.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import psycopg
import pytest

import fairway
from tests.postgres import StockPostgres, execute, stock_server
from tests.running import RunningNode

TASK = "nothing"
BULK, SINGLE = 20_000, 40
SECONDS = 60.0


@pytest.fixture
def server() -> StockPostgres:
    return stock_server()


@pytest.fixture
def dsn(server: StockPostgres) -> Iterator[str]:
    dsn = server.new_database()
    yield dsn
    asyncio.run(server.drop_database(dsn))


@pytest.fixture
def node(dsn: str, tmp_path: Path) -> Iterator[RunningNode]:
    with RunningNode(tmp_path, "--app", "bench.tasks:app", "--slots", "2", address=dsn) as node:
        yield node


def until_idle(node: RunningNode) -> None:
    deadline = time.monotonic() + SECONDS
    while node.counts("state:waiting", "state:running") != [0, 0]:
        assert time.monotonic() < deadline, node.said()
        time.sleep(0.05)


def compiled_in(server: StockPostgres, dsn: str) -> list[str]:
    return asyncio.run(server.compiled(dsn))


def test_no_statement_of_ours_is_compiled(server: StockPostgres, dsn: str, node: RunningNode) -> None:
    job = {"task": TASK, "queue": "load"}
    node.http.put("/v1/queues/load", json={"paused": True}).raise_for_status()
    for _ in range(BULK // 5000):
        node.http.post("/v1/jobs/bulk", json={"jobs": [job] * 5000}).raise_for_status()
    asyncio.run(execute(dsn, "VACUUM ANALYZE"))

    for app in (fairway.App(node.url), fairway.App(database=dsn)):  # by HTTP, and directly

        @app.task(name=TASK, queue="load")
        def nothing() -> None: ...

        for _ in range(SINGLE):
            nothing.submit()
        app.submit_many(nothing.job() for _ in range(SINGLE))
        handle = nothing.options(queue="other").submit()
        handle.result(timeout=SECONDS)
        with psycopg.connect(dsn) as caller:  # with the server's settings, as a program of its own has them
            for _ in range(SINGLE):
                nothing.submit(connection=caller)
                caller.commit()
        app.close()

    node.http.put("/v1/queues/load", json={"paused": False}).raise_for_status()
    until_idle(node)
    for path in (
        "/v1/jobs?q=state:ended&sort=-created_at&limit=50",
        f"/v1/jobs?q=task:{TASK}+age:<1h",
        "/v1/jobs?q=state:failed",
        "/v1/queues",
        "/v1/queues/load",
        "/v1/failures",
        "/v1/cluster",
    ):
        node.http.get(path).raise_for_status()
    with psycopg.connect(dsn) as caller:
        ended = caller.execute("SELECT count(*) FROM fairway.ended WHERE queue = 'load'").fetchone()
    assert ended == (BULK + 2 * 3 * SINGLE,)
    assert compiled_in(server, dsn) == []


def test_what_is_compiled_is_seen(server: StockPostgres, dsn: str) -> None:
    async def compile_one() -> None:
        connection = await asyncpg.connect(dsn, timeout=10)
        assert await connection.fetchval("SELECT pg_jit_available()")
        await connection.execute("SET jit_above_cost = 0")
        await connection.fetch("SELECT sum(x) FROM generate_series(1, 1000) AS x")
        await connection.close(timeout=10)

    assert compiled_in(server, dsn) == []
    asyncio.run(compile_one())
    [statement] = compiled_in(server, dsn)
    assert "generate_series" in statement
