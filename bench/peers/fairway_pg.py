"""Fairway on PostgreSQL: one node with a worker of two slots, submitted to in three ways.

`fairway` is the Python client over HTTP, to be compared with the peers' own clients. `fairway-direct` is the
same client on the database itself, whose jobs the leader takes in when its doorbell rings. `fairway-bare` is
HTTP without a client library: prepared requests, so that what is measured is the node.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.fairway_side import lean_client, sample
from bench.machine import ROOT
from bench.node import QUEUE, STAMPS, Node, node_on
from bench.peers.peer import watch_idle
from bench.peers.program import CALL_SECONDS, PROGRAMS
from bench.peers.server import Database, Server, Unfinished
from bench.peers.side import Side, Submitted


@dataclass(frozen=True)
class Fairway:
    """Fairway, by one way of submitting."""

    name: str
    kind: type[FairwayQueue]
    server: Server
    keeps: str = "keeps every job with its outcome"
    durable: bool = True
    ways: Sequence[int] = (1, 32)

    @contextlib.contextmanager
    def fresh(self) -> Iterator[FairwayQueue]:
        with (
            tempfile.TemporaryDirectory(prefix="fairway-bench-") as home,
            self.server.database() as database,
            contextlib.ExitStack() as stack,
        ):
            yield self.kind(database, Path(home), stack)


def fairway_sides(server: Server) -> list[Side]:
    return [
        Fairway("fairway", FairwayQueue, server),
        Fairway("fairway-direct", DirectQueue, server),
        Fairway("fairway-bare", BareQueue, server),
    ]


class FairwayQueue:
    """A node on a fresh database, started when it is first needed; its queue is paused while it is filled."""

    def __init__(self, database: Database, home: Path, stack: contextlib.ExitStack) -> None:
        self.database, self._home, self._stack = database, home, stack
        self._unfinished = Unfinished(database, "fairway.job")
        self._started: Node | None = None

    @property
    def node(self) -> Node:
        if self._started is None:
            self._started = self._stack.enter_context(node_on(self.database.dsn, self._home))
        return self._started

    def place(self) -> dict[str, str]:
        """Say where the Python client submits to."""
        return {"FAIRWAY_URL": self.node.url}

    def fill(self, jobs: int) -> Submitted:
        self.node.pause(True)
        return Submitted(jobs, *self._client("fill", jobs))

    def fill_resting(self, jobs: int, millis: int) -> Submitted:
        self.node.pause(True)
        return Submitted(jobs, *self._client("flood", jobs, millis))

    def single(self, jobs: int, callers: int) -> Submitted:
        self.node.pause(True)
        return Submitted(jobs, *self._client("single", jobs, callers))

    @contextlib.contextmanager
    def working(self) -> Iterator[None]:
        self.node.pause(False)
        yield

    def left(self) -> int:
        return self._unfinished.count()

    def is_empty(self) -> bool:
        return self._unfinished.is_empty()

    def check(self, jobs: int) -> str:
        ended = int(self.database.ask("SELECT count(*) FROM fairway.ended WHERE state = 2"))
        if ended < jobs:
            raise RuntimeError(f"{jobs} jobs left the queue, but {ended} are kept as succeeded")
        return "seen in its table"

    def latency(self, samples: int) -> Sequence[float]:
        found: list[float] = self._client("latency", samples)
        return found

    def stamps(self) -> Path:
        return self._home / STAMPS

    def settle(self) -> None:
        self._unfinished.settle()

    def cpu_seconds(self) -> tuple[float, float]:
        return self.node.cost().cpu_seconds, self.database.server.cpu_seconds()

    def log_statements(self) -> None:
        self.database.log_statements()

    def watch_idle(self, seconds: float) -> float | None:
        return watch_idle(self.database.server, seconds)

    def _client(self, *words: object) -> Any:
        """Let the Python client do one verb, in a process of its own."""
        settings = {
            **self.place(),
            "BENCH_ADDRESS": "",
            "BENCH_WITNESS": os.devnull,
            "PYTHONPATH": f"{PROGRAMS}{os.pathsep}{ROOT}",
        }
        unset = ("FAIRWAY_URL", "FAIRWAY_DATABASE")
        environment = {name: value for name, value in os.environ.items() if name not in unset}
        answer = subprocess.run(
            [sys.executable, str(PROGRAMS / "fairway_program.py"), *map(str, words)],
            env={**environment, **settings},
            cwd=ROOT,
            capture_output=True,
            timeout=CALL_SECONDS,
        )
        if answer.returncode:
            raise RuntimeError(f"Fairway's client failed:\n{answer.stderr.decode(errors='replace')[-3000:]}")
        return json.loads(answer.stdout.splitlines()[-1])


class DirectQueue(FairwayQueue):
    """Submitted to on the database itself."""

    def place(self) -> dict[str, str]:
        return {"FAIRWAY_DATABASE": self.database.dsn}


class BareQueue(FairwayQueue):
    """Submitted to over HTTP with prepared requests."""

    def fill(self, jobs: int) -> Submitted:
        self.node.pause(True)
        started, cpu = time.perf_counter(), time.process_time()
        self.node.submit("nothing", jobs)
        return Submitted(jobs, time.perf_counter() - started, time.process_time() - cpu)

    def single(self, jobs: int, callers: int) -> Submitted:
        self.node.pause(True)
        result = lean_client(self.node, jobs, callers)
        if result["statuses"] != {"201": jobs}:
            raise RuntimeError(f"expected {jobs} times 201, got {result['statuses']}")
        return Submitted(jobs, result["seconds"], result["cpu_seconds"])

    def latency(self, samples: int) -> Sequence[float]:
        def begin() -> int:
            job = self.node.call("POST", "/v1/jobs", {"task": "stamp", "queue": QUEUE})
            ended = self.node.call("GET", f"/v1/jobs/{job['id']}?wait=10s")
            return int(ended["outcome"]["value"])

        return sample(begin, samples)
