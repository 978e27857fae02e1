"""Measures Huey on SQLite: drain, enqueue, latency, each in a fresh file with a fresh consumer.

The backlog is put there in one transaction (not measured), the consumer is Huey's own command with two
worker processes and its default polling. The drain counts from the first job that leaves the queue, so
that the consumer's start is not held against it.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.machine import ROOT, stop
from bench.rows import Row, efficiency, median, percentiles
from bench.wait import until

WORKERS = 2


def side_name(fsync: str) -> str:
    return {"on": "huey fsync", "off": "huey no fsync"}[fsync]


def default_is_durable(directory: Path) -> bool:
    """Say whether Huey's own default commits with fsync on this Python's SQLite."""
    code = (
        "from bench.huey_tasks import huey; print(huey.storage.sql('pragma synchronous', results=True)[0][0])"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code],
        env=environment(directory / "huey-default.db", "default"),
        cwd=ROOT,
        capture_output=True,
        check=True,
        timeout=30,
    )
    return int(answer.stdout) >= 2


def drain(directory: Path, fsync: str, jobs: int, number: int) -> float:
    """Time a backlog of no-ops; return jobs per second."""
    path = directory / f"huey-drain-{fsync}-{number}.db"
    fill(path, fsync, "nothing", [()] * jobs)
    return jobs / drain_seconds(path, fsync, jobs)


def drain_row(rates: Sequence[float], fsync: str, jobs: int) -> Row:
    """Return the median."""
    return median("drain of no-op jobs", side_name(fsync), rates, "jobs/s", f"backlog {jobs:,}")


def rest(directory: Path, fsync: str, seconds: float, jobs: int) -> Row:
    """Time jobs that take a while; return the part of the workers' time that they ran."""
    path = directory / f"huey-rest-{fsync}-{seconds}.db"
    fill(path, fsync, "rest", [(seconds,)] * jobs)
    # The queue is empty when the last ones begin, not when they end.
    taken = drain_seconds(path, fsync, jobs) + seconds
    return efficiency(side_name(fsync), seconds, jobs, taken)


def drain_seconds(path: Path, fsync: str, jobs: int) -> float:
    """Start a consumer and time from the first job that leaves to the last."""
    with consumer(path, fsync), contextlib.closing(sqlite3.connect(path)) as reader:
        until(lambda: left(reader) < jobs, "Huey's first job", timeout=30, every=0.001)
        started = time.perf_counter()
        until(lambda: left(reader) == 0, "Huey's drain", timeout=600, every=0.005)
        return time.perf_counter() - started


def left(reader: sqlite3.Connection) -> int:
    """Count what waits by its ends: jobs leave in the order of their ids, and counting rows is slow."""
    first, last = reader.execute("SELECT min(id), max(id) FROM task").fetchone()
    return 0 if first is None else last - first + 1


def enqueue(directory: Path, fsync: str, jobs: int) -> Row:
    """Time single submits from one process, with nothing executing."""
    code = (
        "import json, time\n"
        "from bench.huey_tasks import nothing\n"
        "started, cpu = time.perf_counter(), time.process_time()\n"
        f"for _ in range({jobs}): nothing()\n"
        "print(json.dumps([time.perf_counter() - started, time.process_time() - cpu]))\n"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code],
        env=environment(directory / f"huey-enqueue-{fsync}.db", fsync),
        cwd=ROOT,
        capture_output=True,
        check=True,
        timeout=300,
    )
    seconds, cpu = json.loads(answer.stdout)
    return Row(
        "single submit, one caller",
        side_name(fsync),
        jobs / seconds,
        "jobs/s",
        f"in process, no server; {cpu / jobs * 1e6:.0f} µs CPU a job",
    )


def latency(directory: Path, fsync: str, samples: int) -> list[Row]:
    """Time from the submit call to the first line of the task, on an idle consumer."""
    path, witness = directory / f"huey-latency-{fsync}.db", directory / f"huey-latency-{fsync}.stamps"
    witness.touch()
    # One caller in a process of its own; it waits for the witness file, never for Huey's result store.
    code = (
        "import json, sys\n"
        "from bench.huey_side import sample_latency\n"
        f"json.dump(sample_latency({str(witness)!r}, {samples}), sys.stdout)\n"
    )
    fill(path, fsync, "nothing", [])
    with consumer(path, fsync):
        answer = subprocess.run(
            [sys.executable, "-c", code],
            env=environment(path, fsync),
            cwd=ROOT,
            capture_output=True,
            check=True,
            timeout=300,
        )
    return percentiles("idle latency, submit to first line", side_name(fsync), json.loads(answer.stdout))


def sample_latency(witness: str, samples: int) -> list[float]:
    """Send one stamp after the other; return the milliseconds each took to begin."""
    from bench.huey_tasks import stamp

    path, spacing, taken = Path(witness), random.Random(7), []
    for number in range(samples + 5):
        sent = time.monotonic_ns()
        stamp(witness)
        size = 8 * (number + 1)
        until(lambda size=size: path.stat().st_size >= size, "a stamp", timeout=30, every=0.001)  # type: ignore[misc]
        taken.append((int.from_bytes(path.read_bytes()[-8:], "big") - sent) / 1e6)
        time.sleep(spacing.uniform(0.010, 0.020))
    return taken[5:]  # the first ones warm the workers up


def fill(path: Path, fsync: str, task: str, calls: list[tuple[object, ...]]) -> None:
    """Put a backlog into the file in one transaction."""
    code = (
        "import json, sys\n"
        "from bench import huey_tasks\n"
        f"task = huey_tasks.{task}\n"
        "blobs = [huey_tasks.huey.serialize_task(task.s(*call)) for call in json.load(sys.stdin)]\n"
        "with huey_tasks.huey.storage.db(commit=True) as cursor:\n"
        "    cursor.executemany(\"insert into task (queue, data, priority) values ('huey', ?, 0)\",\n"
        "                       [(blob,) for blob in blobs])\n"
    )
    subprocess.run(
        [sys.executable, "-c", code],
        input=json.dumps(calls).encode(),
        env=environment(path, fsync),
        cwd=ROOT,
        check=True,
        timeout=300,
    )


@contextlib.contextmanager
def consumer(path: Path, fsync: str) -> Iterator[None]:
    """Run Huey's own consumer on a file."""
    command = [sys.executable, "-m", "huey.bin.huey_consumer", "bench.huey_tasks.huey"]
    process = subprocess.Popen(
        [*command, "-w", str(WORKERS), "-k", "process", "-q"],
        env=environment(path, fsync),
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        stop(process)


def environment(path: Path, fsync: str) -> dict[str, str]:
    return {**os.environ, "BENCH_HUEY_FILE": str(path), "BENCH_HUEY_FSYNC": fsync, "PYTHONPATH": str(ROOT)}
