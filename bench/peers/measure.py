"""Measures one side; every side by the same clock.

A drain begins with the whole backlog there and the workers connected. The clock starts when the first jobs
are done (`WARM_UP` of them, so that every runtime is warm) and stops when the last is, seen from outside in
the database; what was done before the clock started is not counted. A second clock runs from the word go and
counts all of it: by the first one a short drain has the begins of what was under way for nothing.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from bench.peers.side import Queue, Side
from bench.rows import Row, percentiles
from bench.wait import until

WARM_UP = 200
REST_WARM_UP = 60
SLOTS = 2
DRAIN_SECONDS = 60.0  # a slow side need not be watched to its end
SETTLE_IDLE_SECONDS = 3.0


class Drained(NamedTuple):
    """One drain: how fast the backlog went in and out, and the CPU a job took in workers and server."""

    submitted: float
    drained: float
    from_go: float
    worker_micros: float
    server_micros: float
    checked: str
    is_slow: bool = False  # not watched to its end; measured in the first round only


def drain(side: Side, jobs: int, limit_seconds: float = DRAIN_SECONDS) -> Drained:
    """Time a backlog of no-ops and the bulk submit that made it."""
    with side.fresh() as queue:
        submitted = queue.fill(jobs + WARM_UP)
        queue.settle()
        with queue.working():
            go = time.perf_counter()
            first, started, cpu_before = first_done(queue, jobs)
            last = last_done(queue, limit_seconds, every=min(0.05, jobs / 2e6))
            end, cpu = time.perf_counter(), queue.cpu_seconds()
        done = first - last
        checked = queue.check(jobs + WARM_UP - last)
        if last:
            checked = f"of a slow side the first {limit_seconds:g} s of one round, {done:,} jobs; {checked}"
        workers, server = ((cpu[each] - cpu_before[each]) / done * 1e6 for each in (0, 1))
        from_go = (jobs + WARM_UP - last) / (end - go)
        return Drained(
            submitted.rate, done / (end - started), from_go, workers, server, checked, is_slow=bool(last)
        )


def first_done(queue: Queue, jobs: int) -> tuple[int, float, tuple[float, float]]:
    """Wait until the warm-up is done; return what is left then, when that was, and the CPU used till then."""
    deadline = time.monotonic() + 60
    while True:
        looked = time.perf_counter()
        left = queue.left()
        if left <= jobs:
            return left, looked, queue.cpu_seconds()
        if time.monotonic() > deadline:
            raise TimeoutError(f"no job was done in 60 s; {left} are left")
        # A count of a long backlog is work for the server: never more than a third of its time.
        time.sleep(max(0.005, 2 * (time.perf_counter() - looked)))


def last_done(queue: Queue, limit_seconds: float, every: float) -> int:
    """Wait for the end of the backlog, or of patience; return what is left then."""
    try:
        until(queue.is_empty, "the drain", timeout=limit_seconds, every=every)
        return 0
    except TimeoutError:
        return queue.left()


def rest(side: Side, millis: int, jobs: int) -> float:
    """Return the part of two slots' time in which jobs ran that sleep so long, with more waiting.

    By what each job wrote down when it was over: a database may be told much later of many at once.
    """
    count = jobs + REST_WARM_UP
    with side.fresh() as queue:
        queue.fill_resting(count, millis)
        queue.settle()
        with queue.working():
            until(lambda: size_of(queue.stamps()) >= 8 * count, "jobs that sleep", timeout=DRAIN_SECONDS)
        told = queue.stamps().read_bytes()
    over = sorted(int.from_bytes(told[place : place + 8], "big") for place in range(0, len(told), 8))
    if len(over) != count:
        raise RuntimeError(f"{count} jobs were submitted, and {len(over)} said that they were over")
    return jobs * millis / 1000 / SLOTS / ((over[-1] - over[REST_WARM_UP - 1]) / 1e9)


def size_of(file: Path) -> int:
    """Return how long a file is, whether or not it is there yet."""
    return file.stat().st_size if file.exists() else 0


def drain_note(side: Side, runs: list[Drained], jobs: int) -> str:
    """Say what a reader of a drain must know."""
    workers, server = min(run.worker_micros for run in runs), min(run.server_micros for run in runs)
    return (
        f"backlog {jobs:,}; CPU a job: workers {workers:.0f} µs, server {server:.0f} µs; {side.keeps}; "
        f"{runs[-1].checked}"
    )


def single(side: Side, jobs: int) -> Iterator[Row]:
    """Time single submits with nothing executing: one caller, then many."""
    for callers in side.ways:
        with side.fresh() as queue:
            count = jobs if callers == 1 else jobs // callers * callers * 3
            taken = queue.single(count, callers)
            if queue.left() != count:
                raise RuntimeError(f"{count} jobs were submitted, but the database shows {queue.left()}")
        name = "one caller" if callers == 1 else f"{callers} callers"
        note = f"client CPU {taken.cpu_seconds / count * 1e6:.0f} µs a job"
        yield Row(f"single submit, {name}", side.name, taken.rate, "jobs/s", note)


def latency(side: Side, samples: int) -> Sequence[float]:
    """Time from the submit call to the first line of the task, with nothing else to do, in milliseconds."""
    with side.fresh() as queue, queue.working():
        return queue.latency(samples)


def latency_rows(side: Side, rounds: Sequence[Sequence[float]]) -> Iterator[Row]:
    """Return the percentiles of all rounds together; the note says how far they lay apart."""
    middles = ", ".join(f"{statistics.median(one):.2f}" for one in rounds)
    every = [sample for one in rounds for sample in one]
    yield from percentiles("idle latency, submit to first line", side.name, every, f"rounds: {middles}")


def idle(side: Side, seconds: float) -> Iterator[Row]:
    """Count what two idle workers cost: statements that reach the database, and CPU."""
    with side.fresh() as queue:
        queue.log_statements()
        with queue.working():
            time.sleep(SETTLE_IDLE_SECONDS)
            before, started = queue.cpu_seconds(), time.perf_counter()
            seen = queue.watch_idle(seconds)
            taken, after = time.perf_counter() - started, queue.cpu_seconds()
    workers, server = ((after[each] - before[each]) / taken * 1000 for each in (0, 1))
    if seen is not None:
        yield Row("idle: statements", side.name, seen, "1/s", f"over {seconds:g} s", True)
    note = f"workers {workers:.1f}, server {server:.1f}"
    yield Row("idle: CPU", side.name, workers + server, "ms/s", note, True)
