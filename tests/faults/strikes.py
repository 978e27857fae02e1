"""The faults: each strikes a running cluster once, heals what it must, and says what it did and when."""

from __future__ import annotations

import asyncio
import random
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass

import asyncpg

from tests.faults.cluster import Cluster
from tests.faults.judging import Outage
from tests.postgres import TempPostgres

_pick = random.Random(7)


@dataclass(frozen=True, slots=True)
class Fault:
    """What was done to whom, when; and which worker it put out of work, if any."""

    what: str
    at: int
    outage: Outage | None = None


Strike = Callable[[Cluster], Fault]


def kill_leader(cluster: Cluster) -> Fault:
    """kill -9 of the leader; it comes back as a standby once another leads."""
    leader = cluster.until_led()
    leader.kill()
    at = time.monotonic_ns()
    cluster.until_led()
    leader.start()
    leader.until_ready(leading=False)
    return Fault(f"kill -9 of leader {leader.folder.name}", at)


def kill_worker(cluster: Cluster) -> Fault:
    """kill -9 of a worker; another one joins, which knows nothing of the first."""
    worker = _pick.choice(cluster.workers)
    at = time.monotonic_ns()
    cluster.lose_worker(worker)
    return Fault(f"kill -9 of worker {worker.name}", at, Outage(worker.name, at))


def freeze_leader(cluster: Cluster) -> Fault:
    """SIGSTOP of the leader until another leads, then SIGCONT: it must find out that its term is over."""
    leader = cluster.until_led()
    assert leader.process is not None
    leader.process.send_signal(signal.SIGSTOP)
    at = time.monotonic_ns()
    try:
        time.sleep(cluster.ttl)
        successor = cluster.until_led()
        cluster.until_work_starts()
    finally:
        leader.process.send_signal(signal.SIGCONT)
    leader.until_ready(leading=False)
    assert successor is not leader
    return Fault(f"SIGSTOP of leader {leader.folder.name}", at)


def freeze_worker(cluster: Cluster) -> Fault:
    """SIGSTOP of a whole worker for longer than its lease, then SIGCONT: what it says then is too late."""
    worker = _pick.choice(cluster.workers)
    family = worker.family()
    at = time.monotonic_ns()
    for process in family:
        process.suspend()
    try:
        time.sleep(cluster.lease * 1.3 + 1)
    finally:
        for process in reversed(family):
            process.resume()
    return Fault(f"SIGSTOP of worker {worker.name}", at, Outage(worker.name, at, time.monotonic_ns()))


def kill_database(server: TempPostgres, seconds: float = 1.0) -> Strike:
    """kill -9 of PostgreSQL, all of it; it is started again after *seconds*."""

    def strike(cluster: Cluster) -> Fault:
        at = time.monotonic_ns()
        server.kill()
        time.sleep(seconds)
        server.start()
        return Fault("kill -9 of PostgreSQL", at)

    return strike


def end_backends(dsn: str, which: str = "true") -> Strike:
    """End the database's sessions, or those for which a condition on pg_stat_activity holds."""

    def strike(cluster: Cluster) -> Fault:
        at = time.monotonic_ns()
        ended = asyncio.run(_end_backends(dsn, which))
        return Fault(f"{ended} sessions of PostgreSQL ended", at)

    return strike


async def _end_backends(dsn: str, which: str) -> int:
    connection = await asyncpg.connect(dsn, timeout=10)
    try:
        found = await connection.fetch(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            f" WHERE pid <> pg_backend_pid() AND datname = current_database() AND ({which})"
        )
        return len(found)
    finally:
        await connection.close(timeout=5)
