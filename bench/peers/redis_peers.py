"""Celery and Dramatiq on Redis: what one gives up durability for.

Redis runs as it comes: in memory, a snapshot now and then, so a crash loses what was accepted. They are
measured for scale, never as the best peer. Without a redis-server, and no way to install one, they are left
out with a line.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.machine import cost_of, stop
from bench.node import free_port
from bench.peers.program import Program, Runs
from bench.peers.side import Side, Submitted
from bench.wait import until


@dataclass(frozen=True)
class Redis:
    """A running Redis, asked over its inline protocol."""

    port: int
    pid: int

    def ask(self, words: str) -> int:
        """Send one command that answers with a number, or with OK."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=10) as connection:
            connection.sendall(f"{words}\r\n".encode())
            answer = connection.makefile("rb").readline().decode().strip()
        if answer.startswith("-"):
            raise RuntimeError(f"Redis refused {words}: {answer}")
        return int(answer[1:]) if answer.startswith(":") else 0

    def answers(self) -> bool:
        try:
            return self.ask("PING") == 0
        except OSError:
            return False


@dataclass(frozen=True)
class RedisPeer:
    """One peer on Redis; its one program runs two worker processes."""

    name: str
    keeps: str
    program: Program
    counts: Sequence[str]  # commands whose numbers add up to the jobs that have not ended
    redis: Redis
    durable: bool = False
    ways: Sequence[int] = (1,)

    @contextlib.contextmanager
    def fresh(self) -> Iterator[RedisQueue]:
        self.redis.ask("FLUSHALL")
        with tempfile.TemporaryDirectory(prefix="fairway-bench-") as directory:
            address = f"redis://127.0.0.1:{self.redis.port}/0"
            yield RedisQueue(Runs(self.program, address, Path(directory)), self.redis, self.counts)


class RedisQueue:
    """A peer's queue in an emptied Redis."""

    def __init__(self, runs: Runs, redis: Redis, counts: Sequence[str]) -> None:
        self._runs, self._redis, self._counts = runs, redis, counts

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
        return self._runs.working(1)

    def left(self) -> int:
        return sum(self._redis.ask(count) for count in self._counts)

    def is_empty(self) -> bool:
        return self.left() == 0

    def check(self, jobs: int) -> str:
        if self._runs.executed < jobs:
            raise RuntimeError(f"{jobs} jobs left the queue, but only {self._runs.executed} were executed")
        return "seen in the workers' counters"

    def latency(self, samples: int) -> Sequence[float]:
        found: list[float] = self._runs.call("latency", samples)
        return found

    def stamps(self) -> Path:
        return self._runs.witness

    def settle(self) -> None:
        """Nothing to do: Redis keeps no plans."""

    def cpu_seconds(self) -> tuple[float, float]:
        return self._runs.cpu_seconds(), cost_of(self._redis.pid).cpu_seconds

    def log_statements(self) -> None:
        """Nothing to do: only PostgreSQL's statements are counted."""

    def watch_idle(self, seconds: float) -> float | None:
        time.sleep(seconds)
        return None


@contextlib.contextmanager
def redis_peers() -> Iterator[list[Side]]:
    """Start Redis and lend its peers; none when there is no Redis."""
    command = find_redis()
    if command is None:
        print(
            "Celery and Dramatiq are left out: no redis-server here, and it could not be installed.",
            flush=True,
        )
        yield []
        return
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="fairway-bench-redis-") as directory:
        process = subprocess.Popen(
            [command, "--port", str(port), "--bind", "127.0.0.1", "--dir", directory],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        redis = Redis(port, process.pid)
        try:
            until(redis.answers, "Redis", timeout=10)
            yield peers_on(redis)
        finally:
            stop(process)


def peers_on(redis: Redis) -> list[Side]:
    keeps = "keeps nothing of a job; NOT DURABLE"
    return [
        RedisPeer("celery", keeps, Program("celery_program.py"), ("LLEN celery", "HLEN unacked"), redis),
        RedisPeer("dramatiq", keeps, Program("dramatiq_program.py"), ("HLEN dramatiq:default.msgs",), redis),
    ]


def find_redis() -> str | None:
    """Return redis-server, installed from the system's packages if we may."""
    found = shutil.which("redis-server")
    if found is None and os.geteuid() == 0 and shutil.which("apt-get"):
        print("installing redis-server ...", flush=True)
        # In runlevel 1 Debian's packages start no service.
        quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
        command = ["apt-get", "install", "-y", "--no-install-recommends", "redis-server"]
        subprocess.run(command, env=quiet, capture_output=True, timeout=300, check=False)
        found = shutil.which("redis-server")
    return found
