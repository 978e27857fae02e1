"""Measures Fairway on SQLite, from outside: a node in its own process, spoken to over HTTP.

Every backlog goes into a paused queue first; the clock runs from the resume to the moment the file
shows no unfinished job, and afterwards it must show each of them ended, once.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from http.client import HTTPConnection
from typing import Any, NamedTuple

from bench.machine import ROOT, cost_of
from bench.node import QUEUE, Node
from bench.rows import Row, efficiency, median, percentiles

SIDE = "fairway"
STEP = 25_000  # jobs between two looks at the memory


def warm_up(node: Node) -> None:
    """Let the workers import and the node learn how long the tasks take: bundles need 20 runs."""
    node.submit("nothing", 200)
    node.wait_until_idle()


class Drained(NamedTuple):
    """One drain: how fast the backlog was submitted, how fast it went, what it cost in all processes."""

    submitted: float
    drained: float
    cpu_micros: float


def drain(node: Node, jobs: int) -> Drained:
    """Time a backlog of no-ops, and the bulk submit that made it."""
    with paused(node):
        started = time.perf_counter()
        node.submit("nothing", jobs)
        submitted = jobs / (time.perf_counter() - started)
        ended_before, cost_before = count_ended(node), node.cost()
    started = time.perf_counter()
    node.wait_until_idle()
    drained = jobs / (time.perf_counter() - started)
    cpu = (node.cost().cpu_seconds - cost_before.cpu_seconds) / jobs * 1e6
    check_ended(node, jobs, ended_before)
    return Drained(submitted, drained, cpu)


def drain_rows(runs: Sequence[Drained], jobs: int) -> list[Row]:
    """Return the medians."""
    used = f"{min(run.cpu_micros for run in runs):.0f} µs CPU a job in all processes; backlog {jobs:,}"
    return [
        median("drain of no-op jobs", SIDE, [run.drained for run in runs], "jobs/s", used),
        median("bulk submit, 5,000 a call, HTTP", SIDE, [run.submitted for run in runs], "jobs/s"),
    ]


def rest(node: Node, seconds: float, jobs: int) -> Row:
    """Time jobs that take a while; return the part of the slots' time that they ran."""
    node.submit("rest", 40, [seconds])
    node.wait_until_idle()
    with paused(node):
        node.submit("rest", jobs, [seconds])
    started = time.perf_counter()
    node.wait_until_idle()
    return efficiency(SIDE, seconds, jobs, time.perf_counter() - started)


def single(node: Node, count: int) -> Iterator[Row]:
    """Time single submits: one caller, then 32, then 32 while the jobs execute."""
    with paused(node):
        yield submit_row(node, "single submit, one caller", min(count, 3000), 1)
        yield submit_row(node, "single submit, 32 connections", count, 32)
    node.wait_until_idle()
    yield submit_row(node, "single submit, 32 connections, while executing", count, 32)
    node.wait_until_idle()


def submit_row(node: Node, measure: str, count: int, connections: int) -> Row:
    """Send *count* single submits with the lean client and say what both ends used."""
    before = node.cost()
    result = lean_client(node, count, connections)
    server = (node.cost().cpu_seconds - before.cpu_seconds) / count * 1e6
    client = result["cpu_seconds"] / count * 1e6
    if result["statuses"] != {"201": count}:
        raise RuntimeError(f"{measure}: expected {count} times 201, got {result['statuses']}")
    p50, p99 = result["p50"], result["p99"]
    note = f"CPU a job: server {server:.0f} µs, client {client:.0f} µs; answer p50 {p50:.1f} p99 {p99:.1f} ms"
    return Row(measure, SIDE, count / result["seconds"], "jobs/s", note)


def lean_client(node: Node, count: int, connections: int) -> dict[str, Any]:
    """Run the lean client in a process of its own: it must not share anybody's GIL."""
    command = [sys.executable, "-m", "bench.lean_client"]
    answer = subprocess.run(
        [*command, str(node.port), "--count", str(count), "--connections", str(connections)],
        cwd=ROOT,
        capture_output=True,
        check=True,
        timeout=320,
    )
    result: dict[str, Any] = json.loads(answer.stdout)
    return result


def latency(node: Node, samples: int) -> list[Row]:
    """Time from the submit call to the first line of the task, on an idle node, by both clients."""
    os.environ["FAIRWAY_URL"] = node.url  # before the import: it is where the app will submit to
    from bench.tasks import stamp

    def by_client() -> int:
        handle = stamp.submit()
        return int(handle.result(timeout=10))

    def by_http() -> int:
        bare.request("POST", "/v1/jobs", body, {"Content-Type": "application/json"})
        job = json.loads(bare.getresponse().read())["id"]
        bare.request("GET", f"/v1/jobs/{job}?wait=10s")
        return int(json.loads(bare.getresponse().read())["outcome"]["value"])

    measure, body = "idle latency, submit to first line", json.dumps({"task": "stamp", "queue": QUEUE})
    # The standard library's client: a comfortable one takes half a millisecond for itself.
    with contextlib.closing(HTTPConnection("127.0.0.1", node.port, timeout=30)) as bare:
        return [
            *percentiles(measure, SIDE, sample(by_http, samples), "bare HTTP"),
            *percentiles(f"{measure}, Python client", SIDE, sample(by_client, samples)),
        ]


def sample(begin: Any, samples: int) -> list[float]:
    """Submit one job after the other, 10 to 20 ms apart; return the milliseconds each took to begin."""
    spacing, taken = random.Random(7), []
    for _ in range(samples + 30):
        sent = time.monotonic_ns()
        taken.append((begin() - sent) / 1e6)
        time.sleep(spacing.uniform(0.010, 0.020))
    return taken[30:]  # the first ones warm everything up


def memory(node: Node, jobs: int) -> Iterator[Row]:
    """Send *jobs* through the node and watch its memory.

    It fills caches first and then must stand still, so the number is what the second half added.
    """
    costs, started = [node.cost()], time.perf_counter()
    costs += [node.cost() for _ in _send(node, jobs)]
    rate = jobs / (time.perf_counter() - started)
    seen = [costs[0], costs[len(costs) // 2], costs[-1]]
    alone = " → ".join(f"{each.rss_of_root / 1e6:.0f}" for each in seen)
    whole = " → ".join(f"{each.rss / 1e6:.0f}" for each in seen)
    note = f"node {alone} MB at start, half, end; with worker and children {whole} MB"
    added = (seen[2].rss_of_root - seen[1].rss_of_root) / 1e6
    yield Row(f"memory added by the second half of {jobs:,} jobs", SIDE, added, "MB", note, True)
    yield Row(f"submit and drain of {jobs:,} jobs", SIDE, rate, "jobs/s", "bulk submit and execution at once")


def agent_memory(node: Node, jobs: int) -> Iterator[Row]:
    """Do the same with a worker apart from its node, and watch the worker's agent, warm after a tenth."""
    seen = [cost_of(node.worker.pid).rss_of_root / 1e6]
    seen += [cost_of(node.worker.pid).rss_of_root / 1e6 for _ in _send(node, jobs)]
    warm = seen[max(1, jobs // 10 // STEP)]
    most = max(seen)
    note = (
        f"{seen[0]:.1f} MB at start, {warm:.1f} after a tenth, at most {most:.1f}, {seen[-1]:.1f} at the end"
    )
    yield Row(f"memory added to a worker's agent by {jobs:,} jobs", SIDE, most - warm, "MB", note, True)


def _send(node: Node, jobs: int) -> Iterator[int]:
    """Send jobs through the node, a step at a time, and say each time how many are done."""
    for done in range(0, jobs, STEP):
        count = min(STEP, jobs - done)
        node.submit("nothing", count)
        node.wait_until_idle()
        print(f"\r  memory: {done + count:,} of {jobs:,} jobs", end="", file=sys.stderr, flush=True)
        yield done + count
    print(file=sys.stderr)


@contextlib.contextmanager
def paused(node: Node) -> Iterator[None]:
    """Keep everything waiting inside the block."""
    node.pause(True)
    yield
    node.pause(False)


def count_ended(node: Node) -> tuple[int, int]:
    """Count in the file: ended jobs, and the attempts they took."""
    with contextlib.closing(node.reader()) as reader:
        found = reader.execute("SELECT count(*), coalesce(sum(attempt), 0) FROM ended WHERE state = 2")
        count, attempts = found.get
        return int(count), int(attempts)


def check_ended(node: Node, jobs: int, before: tuple[int, int]) -> None:
    """Every job ended once; a hand-back costs an attempt number, never a second end."""
    count, attempts = count_ended(node)
    if count - before[0] != jobs:
        raise RuntimeError(f"{jobs} jobs were drained, but the database shows {count - before[0]} ended")
    if attempts - before[1] < jobs:
        raise RuntimeError(f"{jobs} jobs ended with only {attempts - before[1]} attempts begun")
