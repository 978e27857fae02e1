"""The raw limit: how fast SQLite itself begins and finishes jobs by id, in batches, each batch durable.

No scheduler can be faster than this on the same disk, so every drain is read against it. Two layouts are
measured, because the choice between them is ADR 0003: *in place* (begin updates the hot row, finish moves
it to the ended table) and *live table* (begin inserts into a small table of live attempts, finish deletes
there and moves the row).

    python -m bench.raw_sqlite [--jobs 100000] [--batches 1000,2000]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import apsw

from bench.machine import work_directory
from bench.rows import Row

SCHEMA = """
CREATE TABLE job (
  id INTEGER PRIMARY KEY, queue TEXT, flow TEXT, priority INTEGER, adapter TEXT, task TEXT,
  run_at INTEGER, place INTEGER, created_at INTEGER, payload BLOB,
  attempt INTEGER NOT NULL DEFAULT 0, incarnation TEXT, worker TEXT, started_at INTEGER,
  state INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE live (
  id INTEGER PRIMARY KEY, attempt INTEGER, incarnation TEXT, worker TEXT, started_at INTEGER
);
CREATE TABLE ended (
  id INTEGER PRIMARY KEY, queue TEXT, flow TEXT, priority INTEGER, adapter TEXT, task TEXT,
  run_at INTEGER, place INTEGER, created_at INTEGER, payload BLOB,
  attempt INTEGER, incarnation TEXT, worker TEXT, started_at INTEGER,
  state INTEGER, outcome BLOB, ended_at INTEGER
);
"""
INDEX = "CREATE INDEX live_job ON job (id) WHERE state = 1"
FILL = (
    "INSERT INTO job VALUES (?, 'acme/emails', NULL, 0, 'python', 'send', 1, 1, 1, ?, 0, NULL, NULL, NULL, 0)"
)
PAYLOAD = b'{"args":[],"kwargs":{}}'

BEGIN_IN_PLACE = """
UPDATE job SET state = 1, attempt = attempt + 1, incarnation = ?, worker = ?, started_at = ?
 WHERE id = ? AND state = 0
 RETURNING attempt, payload
"""
MOVE_IN_PLACE = """
INSERT INTO ended
SELECT id, queue, flow, priority, adapter, task, run_at, place, created_at, payload,
       attempt, incarnation, worker, started_at, 2, ?, ?
  FROM job
 WHERE id = ? AND attempt = ? AND incarnation = ?
"""
BEGIN_LIVE = """
INSERT INTO live SELECT id, attempt + 1, ?, ?, ? FROM job WHERE id = ?
"""
READ_LIVE = "SELECT payload FROM job WHERE id = ?"
MOVE_LIVE_JOINED = """
INSERT INTO ended
SELECT job.id, queue, flow, priority, adapter, task, run_at, place, created_at, payload,
       live.attempt, live.incarnation, live.worker, live.started_at, 2, ?, ?
  FROM live JOIN job USING (id)
 WHERE live.id = ? AND live.attempt = ? AND live.incarnation = ?
"""
TAKE_LIVE = """
DELETE FROM live WHERE id = ? AND attempt = ? AND incarnation = ?
RETURNING attempt, incarnation, worker, started_at
"""
MOVE_LIVE = """
INSERT INTO ended
SELECT id, queue, flow, priority, adapter, task, run_at, place, created_at, payload,
       ?, ?, ?, ?, 2, ?, ?
  FROM job WHERE id = ?
"""

Step = Callable[[apsw.Connection, range], None]


@dataclass(frozen=True, slots=True)
class Layout:
    """One way to keep live attempts: its two steps, each one transaction per batch."""

    name: str
    begin: Step
    finish: Step
    schema: str = ""


def begin_in_place(connection: apsw.Connection, ids: range) -> None:
    rows = connection.executemany(BEGIN_IN_PLACE, (("i1", "w1", 1, job) for job in ids))
    assert sum(1 for _ in rows) == len(ids)


def finish_in_place(connection: apsw.Connection, ids: range) -> None:
    connection.executemany(MOVE_IN_PLACE, ((b"null", 2, job, 1, "i1") for job in ids))
    connection.executemany("DELETE FROM job WHERE id = ?", ((job,) for job in ids))


def begin_live(connection: apsw.Connection, ids: range) -> None:
    connection.executemany(BEGIN_LIVE, (("i1", "w1", 1, job) for job in ids))
    rows = connection.executemany(READ_LIVE, ((job,) for job in ids))
    assert sum(1 for _ in rows) == len(ids)


def finish_live(connection: apsw.Connection, ids: range) -> None:
    taken = list(connection.executemany(TAKE_LIVE, ((job, 1, "i1") for job in ids)))
    rows = ((*live, b"null", 2, job) for live, job in zip(taken, ids, strict=True))
    connection.executemany(MOVE_LIVE, rows)
    connection.executemany("DELETE FROM job WHERE id = ?", ((job,) for job in ids))


def finish_live_joined(connection: apsw.Connection, ids: range) -> None:
    connection.executemany(MOVE_LIVE_JOINED, ((b"null", 2, job, 1, "i1") for job in ids))
    connection.executemany("DELETE FROM live WHERE id = ?", ((job,) for job in ids))
    connection.executemany("DELETE FROM job WHERE id = ?", ((job,) for job in ids))


LAYOUTS = (
    Layout("in place", begin_in_place, finish_in_place),
    # What the store does: the index lets a new leader find the live attempts without reading the backlog.
    Layout("in place, indexed", begin_in_place, finish_in_place, INDEX),
    Layout("live table", begin_live, finish_live),
    # The same layout with the obvious statement, a join: kept because it misled us once (ADR 0003).
    Layout("live table, joined", begin_live, finish_live_joined),
)


def measure(jobs: int, batch_sizes: tuple[int, ...], directory: Path) -> Iterator[Row]:
    """Yield one row per layout and batch size, and one for a single commit."""
    for layout in LAYOUTS:
        for size in batch_sizes:
            yield measure_layout(layout, jobs, size, directory / f"raw-{LAYOUTS.index(layout)}-{size}.db")
    yield measure_single_commit(directory / "raw-single.db")


def measure_layout(layout: Layout, jobs: int, size: int, path: Path) -> Row:
    """Carry *jobs* through begin and finish, alternating as a leader does."""
    connection = open_database(path)
    connection.execute(layout.schema)
    fill(connection, jobs)
    started, cpu_started = time.perf_counter(), time.process_time()
    for first in range(1, jobs + 1, size):
        ids = range(first, min(first + size, jobs + 1))
        for step in (layout.begin, layout.finish):
            with connection:
                step(connection, ids)
    seconds, cpu = time.perf_counter() - started, time.process_time() - cpu_started
    ended = connection.execute("SELECT count(*) FROM ended").get
    connection.close()
    if ended != jobs:
        raise RuntimeError(f"{jobs} jobs went in, {ended} ended")
    return Row(
        measure=f"raw begin + finish, {layout.name}, batches of {size:,}",
        side="sqlite",
        value=jobs / seconds,
        unit="jobs/s",
        note=f"{cpu / jobs * 1e6:.1f} µs CPU a job",
    )


def measure_single_commit(path: Path, count: int = 300) -> Row:
    """One insert, one commit: what an answer to a lone submit must wait for."""
    connection = open_database(path)
    started = time.perf_counter()
    for job in range(1, count + 1):
        with connection:
            connection.execute(FILL, (job, PAYLOAD))
    seconds = time.perf_counter() - started
    connection.close()
    return Row("raw single commit", "sqlite", seconds / count * 1000, "ms", lower_is_better=True)


def open_database(path: Path) -> apsw.Connection:
    """Open with the settings a durable store must have."""
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA cache_size = -65536")
    connection.execute(SCHEMA)
    return connection


def fill(connection: apsw.Connection, jobs: int) -> None:
    with connection:
        connection.executemany(FILL, ((job, PAYLOAD) for job in range(1, jobs + 1)))
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="The raw limit of SQLite on this disk.")
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--batches", default="1000,2000")
    arguments = parser.parse_args()
    sizes = tuple(int(size) for size in arguments.batches.split(","))
    with work_directory() as directory:
        for row in measure(arguments.jobs, sizes, directory):
            print(row.line(), flush=True)


if __name__ == "__main__":
    main()
