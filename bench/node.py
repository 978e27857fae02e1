"""A Fairway node with a worker of two slots, in one process or each in its own, on a fresh file."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, cast

import apsw
import httpx

from bench.machine import ROOT, Cost, cost_of, stop
from bench.wait import until

QUEUE = "bench"
SLOTS = 2
STAMPS = "stamps"  # where jobs that slept say when they were over


class Node:
    """A running node as a client sees it."""

    def __init__(self, port: int, process: subprocess.Popen[bytes], database: Path) -> None:
        self.port, self.process, self.database = port, process, database
        self.worker = process
        self.url = f"http://127.0.0.1:{port}"
        self.http = httpx.Client(base_url=self.url, timeout=60)

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """Call the API; anything but success is an error of the benchmark."""
        answer = self.http.request(method, path, json=body)
        if answer.status_code >= 400:
            raise RuntimeError(f"{method} {path} answered {answer.status_code}: {answer.text[:500]}")
        return answer.json() if answer.content else None

    def pause(self, paused: bool) -> None:
        self.call("PUT", f"/v1/queues/{QUEUE}", {"paused": paused})

    def submit(self, task: str, count: int, args: list[Any] | None = None, size: int = 5000) -> None:
        """Submit equal jobs by bulk calls."""
        job = {"task": task, "queue": QUEUE, "args": args or []}
        for first in range(0, count, size):
            self.call("POST", "/v1/jobs/bulk", {"jobs": [job] * min(size, count - first)})

    def unfinished(self) -> int:
        """Return how many jobs wait or run in the benchmark's queue."""
        queue = self.call("GET", f"/v1/queues/{QUEUE}")
        return cast(int, queue["waiting"]) + cast(int, queue["running"])

    def wait_until_idle(self, timeout: float = 600) -> None:
        """Wait until the file itself shows no unfinished job: the node's own numbers may run ahead of it."""
        with contextlib.closing(self.reader()) as reader:
            until(
                lambda: not reader.execute("SELECT EXISTS (SELECT 1 FROM job)").get,
                "Fairway's drain",
                timeout=timeout,
                every=0.005,
            )

    def reader(self) -> apsw.Connection:
        """Open the file to look at it from outside; another process may."""
        reader = apsw.Connection(str(self.database), flags=apsw.SQLITE_OPEN_READONLY)
        reader.set_busy_timeout(5000)
        return reader

    def cost(self) -> Cost:
        return cost_of(self.process.pid)


@contextlib.contextmanager
def running_node(
    directory: Path, name: str, warm_up: Callable[[Node], None], apart: bool = False
) -> Iterator[Node]:
    """Start a node on a fresh file, warm it up, lend it, stop it."""
    home = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=directory))
    with node_on(f"sqlite:///{home / 'fairway.db'}", home, apart=apart) as node:
        warm_up(node)
        yield node


@contextlib.contextmanager
def node_on(address: str, home: Path, slots: int = SLOTS, apart: bool = False) -> Iterator[Node]:
    """Start a node on a database, lend it when its worker has joined, stop it.

    The worker is part of the node's process, or *apart* from it.
    """
    port, log = free_port(), home / "node.log"
    up = ["up", "--database", address, "--listen", f"127.0.0.1:{port}"]
    work = ["--slots", str(slots), "--app", "bench.tasks:app"]
    with log.open("wb") as output:
        process = start([*up, *(["--no-worker"] if apart else work)], home, output)
        node = Node(port, process, home / "fairway.db")
        try:
            if apart:
                node.worker = start(["worker", "--join", node.url, *work], home, output)
            until(lambda: is_ready(node, log), "the node to be ready", timeout=30)
            yield node
        finally:
            node.http.close()
            if apart:
                stop(node.worker)
            stop(process)


def start(words: list[str], home: Path, output: IO[bytes]) -> subprocess.Popen[bytes]:
    """Start the program of this checkout."""
    return subprocess.Popen(
        [str(Path(sys.executable).with_name("fairway")), *words],
        cwd=ROOT,
        env={
            **os.environ,
            "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}",
            "FAIRWAY_HOME": str(home),
            "BENCH_WITNESS": str(home / STAMPS),
        },
        stdout=output,
        stderr=subprocess.STDOUT,
    )


def is_ready(node: Node, log: Path) -> bool:
    """Say whether the node leads and its worker has joined with its tasks."""
    if node.process.poll() is not None:
        raise RuntimeError(f"the node ended with {node.process.returncode}:\n{log.read_text()[-3000:]}")
    try:
        workers = node.call("GET", "/v1/workers")
    except (httpx.TransportError, RuntimeError):
        return False
    return any(worker["tasks"] for worker in workers["workers"])


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return cast(int, probe.getsockname()[1])
