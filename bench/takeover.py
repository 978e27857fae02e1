"""How soon a node begins to work that takes over a long backlog: `make bench-takeover`, five million jobs.

Two nodes on one durable PostgreSQL. One leads, and the jobs are put into the table behind its back: it never
saw them, so all there is to know the other has to find by itself. Then the leader is killed with -9.
"""

from __future__ import annotations

import argparse
import contextlib
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from bench.machine import stop
from bench.node import QUEUE, Node, free_port, is_ready, start
from bench.peers.server import Database, running_server
from bench.wait import until
from fairway.ids import IdMaker

CHUNK = 500_000
QUEUES = 100
LOG = "node.log"
LOADED_SECONDS = 600


def main() -> None:
    """Fill, kill, and say how long it took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=5_000_000)
    asked = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="fairway-bench-") as folder,
        running_server() as server,
        server.database() as database,
        node(database, Path(folder) / "first", "--no-worker") as first,
    ):
        until(lambda: leader_of(first) is not None, "the first leader", timeout=60)
        fill(database, asked.jobs)
        work = ("--slots", "2", "--app", "bench.tasks:app")
        with node(database, Path(folder) / "second", *work) as second:
            until(
                lambda: is_ready(second, Path(folder) / "second" / LOG),
                "the second node's worker",
                timeout=60,
            )
            take_over(database, first, second, asked.jobs)


def take_over(database: Database, first: Node, second: Node, jobs: int) -> None:
    """Kill the leader; tell when the other begins a job, and what it needs until it knows them all."""
    process = psutil.Process(second.process.pid)
    before = process.memory_info().rss
    first.process.kill()
    killed_at = time.perf_counter()
    until(
        lambda: bool(
            database.ask(
                "SELECT EXISTS (SELECT 1 FROM fairway.begun) OR EXISTS (SELECT 1 FROM fairway.ended)"
            )
        ),
        "the first begin",
        timeout=120,
        every=0.005,
    )
    print(f"the leader was killed; the next one began a job after {time.perf_counter() - killed_at:.2f} s")
    most = 0
    deadline = time.perf_counter() + LOADED_SECONDS
    while second.unfinished() + int(database.ask("SELECT count(*) FROM fairway.ended")) < jobs:
        most = max(most, process.memory_info().rss)
        if time.perf_counter() > deadline:
            raise TimeoutError(f"the backlog was not known after {LOADED_SECONDS} s")
        time.sleep(0.2)
    most = max(most, process.memory_info().rss)
    print(
        f"it knew all {jobs:,} jobs after {time.perf_counter() - killed_at:.0f} s, working meanwhile;"
        f" memory {before / 1e6:.0f} MB before, at most {most / 1e6:.0f} MB"
    )


def fill(database: Database, jobs: int) -> None:
    """Put waiting no-ops into the table, as many in each of a hundred queues."""
    now = time.time_ns() // 1000
    ids = IdMaker().take(jobs)
    for start_at in range(0, jobs, CHUNK):
        end = min(start_at + CHUNK, jobs)
        database.ask(
            "INSERT INTO fairway.job"
            " (id, queue, priority, adapter, task, once, run_at, place, created_at, payload)"
            f" SELECT $1::bigint + n, '{QUEUE}/q' || n % {QUEUES}, 0, 'python', 'nothing', false, $2, $2, $2,"
            """ '{"args":[],"kwargs":{}}' FROM generate_series($3::bigint, $4::bigint) AS n""",
            ids[0],
            now,
            start_at,
            end - 1,
        )
        print(f"  {end:>12,} jobs", flush=True)
    database.settle()


@contextlib.contextmanager
def node(database: Database, home: Path, *words: str) -> Iterator[Node]:
    """Start a node, lend it, end it if it still runs."""
    home.mkdir()
    port, log = free_port(), home / LOG
    with log.open("wb") as output:
        process = start(
            ["up", "--database", database.dsn, "--listen", f"127.0.0.1:{port}", *words], home, output
        )
    lent = Node(port, process, log)
    try:
        yield lent
    finally:
        lent.http.close()
        if process.poll() is None:
            stop(process)


def leader_of(lent: Node) -> str | None:
    """Return who leads, as far as the node answers."""
    with contextlib.suppress(Exception):
        found: str | None = lent.call("GET", "/v1/cluster")["leader"]
        return found
    return None


if __name__ == "__main__":
    main()
