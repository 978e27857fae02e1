"""The raw limit: how fast this PostgreSQL itself begins and finishes jobs by id, in durable batches.

One asyncpg connection begins a batch (update, payload returned), another finishes it (delete from the hot
table, insert into the table of ended jobs); the next batch is begun while the last is finished. A plain
layout with the indexes a history needs: what a scheduler adds to this is its own cost.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence

import asyncpg
import uvloop

from bench.peers.server import Server
from bench.rows import Row, median

SIDE = "raw asyncpg"
BATCHES = (1000, 2000)
TABLES = """
CREATE TABLE job (
  id bigint PRIMARY KEY, queue text NOT NULL, flow text, priority smallint NOT NULL DEFAULT 0,
  state smallint NOT NULL DEFAULT 0, attempt smallint NOT NULL DEFAULT 0, worker int, payload bytea NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(), run_at timestamptz NOT NULL DEFAULT now(),
  started_at timestamptz
) WITH (fillfactor = 70);
CREATE INDEX ON job (queue, priority, id);
CREATE TABLE ended (
  id bigint NOT NULL, queue text, flow text, priority smallint, state smallint, attempt smallint, worker int,
  payload bytea, created_at timestamptz, started_at timestamptz, ended_at timestamptz, result bytea
);
CREATE INDEX ON ended (id);
CREATE INDEX ON ended (queue, ended_at);
"""
BEGIN = """
UPDATE job SET state = 1, attempt = attempt + 1, worker = 1, started_at = now()
 WHERE id = ANY($1) AND state = 0
RETURNING id, attempt, payload
"""
FINISH = """
WITH verdict AS (
  SELECT * FROM unnest($1::bigint[], $2::smallint[], $3::bytea[]) AS verdict (id, attempt, result)
), done AS (
  DELETE FROM job USING verdict
   WHERE job.id = verdict.id AND job.attempt = verdict.attempt
  RETURNING job.*, verdict.result
)
INSERT INTO ended
SELECT id, queue, flow, priority, 2, attempt, worker, payload, created_at, started_at, now(), result FROM done
"""
PAYLOAD = b"x" * 90


class Raw:
    """The limit, measured once a round, among the sides."""

    name = "raw"

    def __init__(self, server: Server) -> None:
        self._server = server
        self._copied: list[float] = []
        self._carried: dict[int, list[float]] = {size: [] for size in BATCHES}

    def measure(self, jobs: int) -> str:
        """Measure each batch size once; return the rates in words."""
        for size, rates in self._carried.items():
            with self._server.database() as database:
                self._copied.append(uvloop.run(fill(database.dsn, jobs)))
                database.settle()
                rates.append(uvloop.run(carry(database.dsn, jobs, size)))
                ended = database.ask("SELECT count(*) FROM ended")
            if ended != jobs:
                raise RuntimeError(f"{jobs} jobs went in, {ended} ended")
        return ", ".join(f"{rates[-1]:,.0f} in batches of {size:,}" for size, rates in self._carried.items())

    def rows(self) -> Iterator[Row]:
        """Yield one row per batch size, and the bulk insert."""
        for size, rates in self._carried.items():
            note = "begin + finish, no scheduler"
            yield median("drain of no-op jobs", f"{SIDE} {size}", rates, "jobs/s", note)
        yield median("bulk submit, 5,000 a call", f"{SIDE} COPY", self._copied, "jobs/s")


async def fill(dsn: str, jobs: int) -> float:
    """Copy the backlog in, 5,000 rows a transaction; return the rate."""
    connection = await asyncpg.connect(dsn, timeout=10)
    await connection.execute(TABLES)
    started = time.perf_counter()
    for first in range(0, jobs, 5000):
        rows = [
            (job, f"q{job % 50}", f"u{job % 200}", PAYLOAD) for job in range(first, min(first + 5000, jobs))
        ]
        await connection.copy_records_to_table(
            "job", records=rows, columns=["id", "queue", "flow", "payload"], timeout=60
        )
    rate = jobs / (time.perf_counter() - started)
    await connection.close(timeout=10)
    return rate


async def carry(dsn: str, jobs: int, size: int) -> float:
    """Carry all jobs through begin and finish; return the rate."""
    beginning, finishing = [await asyncpg.connect(dsn, timeout=10) for _ in range(2)]
    started = time.perf_counter()
    finish: asyncio.Future[None] | None = None
    for first in range(0, jobs, size):
        begun = await beginning.fetch(BEGIN, range(first, min(first + size, jobs)), timeout=60)
        if finish is not None:
            await finish
        finish = asyncio.ensure_future(end(finishing, begun))
    if finish is not None:
        await finish
    rate = jobs / (time.perf_counter() - started)
    for connection in (beginning, finishing):
        await connection.close(timeout=10)
    return rate


async def end(connection: asyncpg.Connection, begun: Sequence[asyncpg.Record]) -> None:
    """Finish one batch."""
    await connection.execute(
        FINISH, [row[0] for row in begun], [row[1] for row in begun], [b"\xc0"] * len(begun), timeout=60
    )
