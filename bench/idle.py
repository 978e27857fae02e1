"""What an idle cluster costs: `make bench-idle`, three nodes and twenty workers on one PostgreSQL.

Each is a process of its own, as on so many machines. Counted are the statements that reach the server, in its
log, and the CPU of nodes and workers.
"""

from __future__ import annotations

import argparse
import contextlib
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.machine import cost_of, stop
from bench.node import Node, start
from bench.peers.peer import watch_idle
from bench.peers.server import running_server
from bench.takeover import LOG, leader_of, node
from bench.wait import until

SETTLE_SECONDS = 15.0


def main() -> None:
    """Start them, wait until all is quiet, and count."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--workers", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=30.0)
    asked = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="fairway-bench-") as folder,
        running_server() as server,
        server.database() as database,
        contextlib.ExitStack() as stack,
    ):
        database.log_statements()
        nodes: list[Node] = []
        for number in range(asked.nodes):
            home = Path(folder) / f"node{number}"
            nodes.append(stack.enter_context(node(database, home, "--no-worker", "--name", f"n{number}")))
            until(lambda: leader_of(nodes[-1]) is not None, "a leader", timeout=60)
        workers = [
            stack.enter_context(worker(Path(folder) / f"w{number}", nodes[number % len(nodes)].url))
            for number in range(asked.workers)
        ]
        until(
            lambda: len(nodes[0].call("GET", "/v1/workers")["workers"]) == asked.workers,
            "the workers",
            timeout=120,
        )
        time.sleep(SETTLE_SECONDS)
        processes = [*(each.process.pid for each in nodes), *workers]
        before = sum(cost_of(pid).cpu_seconds for pid in processes)
        statements = watch_idle(server, asked.seconds)
        used = sum(cost_of(pid).cpu_seconds for pid in processes) - before
    print(
        f"{asked.nodes} nodes and {asked.workers} workers, nothing to do: {statements:.1f} statements/s,"
        f" {used / asked.seconds * 1000:.0f} ms of CPU a second in all of them"
    )


@contextlib.contextmanager
def worker(home: Path, url: str) -> Iterator[int]:
    """Start a worker with two slots, lend its pid, end it."""
    home.mkdir()
    with (home / LOG).open("wb") as output:
        process = start(["worker", "--join", url, "--name", home.name, "--slots", "2"], home, output)
    try:
        yield process.pid
    finally:
        stop(process)


if __name__ == "__main__":
    main()
