"""One tenant floods, another has a single job: how long does that wait? `make bench-flood`.

    python -m bench.flood [--jobs 100000] [--sides fairway,procrastinate,...] [--patience 120] [--samples 20]

The flood is jobs of 10 ms on four slots, all of it submitted before anything runs. When some seconds of it
have run, the other tenant submits one job, and the clock runs until that job's first line. The promise is
2 × job time / slots + 1 s. In Fairway it is measured many times, each by another tenant, and the longest wait
counts. Of a peer one job is awaited, as long as patience lasts; what was done of the flood by then is told.

`celery` has one queue for all, as it comes. `celery-queues` has a queue for each of the two tenants, which
its worker was told to serve by name: it takes from both in turns. In Procrastinate each tenant has a queue of
its own too, but a worker takes the oldest job of all.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from bench.machine import RESULTS, busy_with_others, facts
from bench.node import Node, node_on
from bench.peers.install import install
from bench.peers.peer import Peer
from bench.peers.program import Program
from bench.peers.redis_peers import RedisPeer, redis_peers
from bench.peers.roster import postgres_peers
from bench.peers.run import end
from bench.peers.server import Server, running_server
from bench.wait import until

SLOTS = 4
JOB_SECONDS = 0.010
BOUND_SECONDS = 2 * JOB_SECONDS / SLOTS + 1.0
SETTLE_SECONDS = 3.0
SIDES = ("fairway", "fairway-sqlite", "procrastinate", "celery", "celery-queues")
#: What Celery keeps of the flood: the queues, what its worker holds, and all that has not come back.
CELERY_COUNTS = ("LLEN celery", "LLEN flood", "HLEN unacked")


class Flood(NamedTuple):
    """What was asked for."""

    jobs: int
    patience: float
    samples: int


class Waited(NamedTuple):
    """How long the small tenants waited, or None if the job had not begun when patience was over."""

    side: str
    seconds: Sequence[float] | None
    done: int
    asked: Flood

    def row(self) -> str:
        """Write one line of the table."""
        if self.seconds is None:
            wait = f"> {self.asked.patience:g} s ({self.done:,} of {self.asked.jobs:,} done)"
            ratio = f"> {self.asked.patience / BOUND_SECONDS:.0f}"
        else:
            worst = max(self.seconds)
            wait = f"{worst * 1000:.0f} ms" if worst < 10 else f"{worst:.1f} s"
            wait += f", longest of {len(self.seconds)}" if len(self.seconds) > 1 else ""
            ratio = f"{worst / BOUND_SECONDS:.2f}"
        return f"{self.side:<16} {wait:<40} {BOUND_SECONDS:>8.3f} s {ratio:>10}"


def main() -> int:
    """Measure every side, print the table, keep the numbers."""
    signal.signal(signal.SIGTERM, end)
    asked, sides = parse()
    machine = facts()
    if set(sides) - {"fairway", "fairway-sqlite"}:
        machine["peers"] = install()
    machine["cores_used_by_others"] = busy_with_others()
    print("  ".join(f"{name}: {value}" for name, value in machine.items()), flush=True)
    found, failures = [], []
    with running_server() as server:
        for side in sides:
            print(f"{side} ...", flush=True)
            try:
                found.append(MEASURES[side](server, side, asked))
                print(found[-1].row(), flush=True)
            except Exception as error:
                traceback.print_exception(error)
                failures.append(f"{side}: {error}")
    finish(machine, found, failures)
    return 1 if failures else 0


def finish(machine: dict[str, object], found: Sequence[Waited], failures: Sequence[str]) -> None:
    """Print the table and write it down."""
    print(f"\n{'':<16} {'wait of the small tenant':<40} {'promise':>10} {'× promise':>10}")
    print("\n".join(one.row() for one in found))
    for failure in failures:
        print(f"NOT MEASURED  {failure.splitlines()[0]}", file=sys.stderr)
    rows = [{"side": one.side, "seconds": one.seconds, "flood_done": one.done} for one in found]
    content = {"machine": machine, "promise_seconds": BOUND_SECONDS, "rows": rows, "failures": failures}
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "flood.json").write_text(json.dumps(content, indent=1) + "\n")


# --- Fairway -------------------------------------------------------------------------------------------
def fairway_on_postgres(server: Server, side: str, asked: Flood) -> Waited:
    with server.database() as database:
        return fairway(database.dsn, side, asked)


def fairway_on_sqlite(server: Server, side: str, asked: Flood) -> Waited:
    RESULTS.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="flood-", dir=RESULTS) as folder:
        return fairway(f"sqlite:///{folder}/fairway.db", side, asked)


def fairway(address: str, side: str, asked: Flood) -> Waited:
    """Measure a node: small tenants come one after the other, and each has one job."""
    with (
        tempfile.TemporaryDirectory(prefix="fairway-bench-") as home,
        node_on(address, Path(home), SLOTS) as node,
    ):
        node.submit("stamp", 2 * SLOTS)  # every child is there
        until(lambda: node.unfinished() == 0, "the first jobs", timeout=60)
        node.pause(True)
        node.submit("rest", asked.jobs, [JOB_SECONDS])
        node.pause(False)
        time.sleep(SETTLE_SECONDS)
        waits = [small_job(node, number) for number in range(asked.samples)]
        left = node.unfinished()
        if not left:
            raise RuntimeError("the flood was over before the small tenants were served; give it more jobs")
        return Waited(side, waits, asked.jobs - left, asked)


def small_job(node: Node, number: int) -> float:
    """Let a tenant that was never seen before submit one job; return how long its first line took."""
    sent = time.monotonic_ns()
    job = node.call("POST", "/v1/jobs", {"task": "stamp", "queue": f"small-{number}"})
    ended = node.call("GET", f"/v1/jobs/{job['id']}?wait=60s")
    return (int(ended["outcome"]["value"]) - sent) / 1e9


# --- peers ---------------------------------------------------------------------------------------------
def procrastinate(server: Server, side: str, asked: Flood) -> Waited:
    peer = next(one for one in postgres_peers(server) if one.name == "procrastinate")
    program = Program(peer.program.file, {**peer.program.settings, "BENCH_CONCURRENCY": str(SLOTS // 2)})
    flooded = Peer(peer.name, peer.keeps, program, peer.tables, server)  # by two processes
    return peer_wait(flooded, side, asked)


def celery(server: Server, side: str, asked: Flood) -> Waited:
    with redis_peers() as peers:
        peer = next((one for one in peers if one.name == "celery"), None)
        if not isinstance(peer, RedisPeer):
            raise RuntimeError("there is no Redis here")
        settings = {"BENCH_CONCURRENCY": str(SLOTS), "BENCH_PREFETCH": "4"}  # as it comes
        if side == "celery-queues":
            settings["BENCH_QUEUES"] = "flood,small"
        program = Program(peer.program.file, settings)
        flooded = RedisPeer(peer.name, peer.keeps, program, CELERY_COUNTS, peer.redis)
        return peer_wait(flooded, side, asked)


def peer_wait(side: Peer | RedisPeer, name: str, asked: Flood) -> Waited:
    """Measure a peer: one job of a small tenant, as long as patience lasts."""
    with side.fresh() as queue:
        queue.call("flood", asked.jobs, round(JOB_SECONDS * 1000))
        queue.settle()
        with queue.working():
            time.sleep(SETTLE_SECONDS)
            seconds = queue.call("small", round(asked.patience))
            left = queue.left()
    if seconds is not None and not left:
        raise RuntimeError("the flood was over before the small tenant was served; give it more jobs")
    # What is left has the small job in it, if that has not begun.
    done = asked.jobs - left + (seconds is None)
    return Waited(name, None if seconds is None else [seconds], done, asked)


MEASURES: dict[str, Callable[[Server, str, Flood], Waited]] = {
    "fairway": fairway_on_postgres,
    "fairway-sqlite": fairway_on_sqlite,
    "procrastinate": procrastinate,
    "celery": celery,
    "celery-queues": celery,
}


def parse() -> tuple[Flood, list[str]]:
    parser = argparse.ArgumentParser(description="How long one job waits beside another tenant's flood.")
    parser.add_argument("--jobs", type=int, default=100_000, help="jobs of the flood (100,000)")
    parser.add_argument("--sides", default=",".join(SIDES), help=f"some of {','.join(SIDES)}")
    parser.add_argument("--patience", type=float, default=120.0, help="seconds a peer's job is awaited (120)")
    parser.add_argument("--samples", type=int, default=20, help="small tenants of Fairway (20)")
    asked = parser.parse_args()
    sides = asked.sides.split(",")
    if unknown := set(sides) - set(SIDES):
        parser.error(f"no such side: {', '.join(sorted(unknown))}")
    return Flood(asked.jobs, asked.patience, asked.samples), sides


if __name__ == "__main__":
    sys.exit(main())
