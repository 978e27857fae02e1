"""A peer on PostgreSQL: its program, and the SQL that tells from outside how far it is."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.peers.program import Program, Runs
from bench.peers.server import Database, Server, Unfinished
from bench.peers.side import Submitted

WORKERS = 2


@dataclass(frozen=True)
class Tables:
    """Where a peer keeps its jobs: those that have not ended, and, if it keeps them, those that have."""

    unfinished: str
    finished: str | None = None


@dataclass(frozen=True)
class Peer:
    """One peer, ready to be measured on a server."""

    name: str
    keeps: str
    program: Program
    tables: Tables
    server: Server
    durable: bool = True
    ways: Sequence[int] = (1, 32)

    @contextlib.contextmanager
    def fresh(self) -> Iterator[PeerQueue]:
        with (
            tempfile.TemporaryDirectory(prefix="fairway-bench-") as directory,
            self.server.database() as database,
        ):
            runs = Runs(self.program, database.dsn, Path(directory))
            runs.call("prepare")
            yield PeerQueue(runs, database, self.tables)


class PeerQueue:
    """A peer's queue in a fresh database."""

    def __init__(self, runs: Runs, database: Database, tables: Tables) -> None:
        self._runs, self._database, self._tables = runs, database, tables
        self._unfinished = Unfinished(database, tables.unfinished)

    def call(self, *words: object) -> Any:
        """Let its program do one verb."""
        return self._runs.call(*words)

    def fill(self, jobs: int) -> Submitted:
        return Submitted(jobs, *self._runs.call("fill", jobs))

    def fill_resting(self, jobs: int, millis: int) -> Submitted:
        return Submitted(jobs, *self._runs.call("flood", jobs, millis))

    def single(self, jobs: int, callers: int) -> Submitted:
        return Submitted(jobs, *self._runs.call("single", jobs, callers))

    def working(self) -> contextlib.AbstractContextManager[None]:
        return self._runs.working(WORKERS)

    def left(self) -> int:
        return self._unfinished.count()

    def is_empty(self) -> bool:
        return self._unfinished.is_empty()

    def check(self, jobs: int) -> str:
        """Compare the workers' own counters, and the table of ended jobs if there is one."""
        if self._runs.executed < jobs:
            raise RuntimeError(f"{jobs} jobs left the queue, but only {self._runs.executed} were executed")
        if self._tables.finished is None:
            return "seen in the workers' counters"
        ended = int(self._database.ask(f"SELECT count(*) FROM {self._tables.finished}"))
        if ended < jobs:
            raise RuntimeError(f"{jobs} jobs left the queue, but {ended} are kept as ended")
        return "seen in the workers' counters and its table"

    def latency(self, samples: int) -> Sequence[float]:
        found: list[float] = self._runs.call("latency", samples)
        return found

    def stamps(self) -> Path:
        return self._runs.witness

    def settle(self) -> None:
        self._unfinished.settle()

    def cpu_seconds(self) -> tuple[float, float]:
        return self._runs.cpu_seconds(), self._database.server.cpu_seconds()

    def log_statements(self) -> None:
        self._database.log_statements()

    def watch_idle(self, seconds: float) -> float | None:
        return watch_idle(self._database.server, seconds)


def watch_idle(server: Server, seconds: float) -> float:
    """Count the statements a second that reach the database while nothing happens.

    From the log: the server's own statistics come up to ten seconds late from idle connections.
    """
    place, started = server.log_size(), time.perf_counter()
    time.sleep(seconds)
    return server.statements_logged(place) / (time.perf_counter() - started)
