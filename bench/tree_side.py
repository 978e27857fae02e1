"""Measures what the queue tree costs: the same no-ops flat, and through tenants with shares and flows.

And what one decision costs with a hundred thousand queues that all have something to begin: the core alone,
no process around it.
"""

from __future__ import annotations

import statistics
import time
from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from bench.fairway_side import check_ended, count_ended, paused
from bench.node import QUEUE, Node
from bench.rows import Row, median
from fairway.core.model import SLOT, Arrival, Shape
from fairway.core.queue import Queue
from fairway.core.tree import Tree

TENANTS, QUEUES, FLOWS = 10, 3, 20
MANY_QUEUES = 100_000
FLAT, TREE, MIXED = "flat fifo", "tree, sfq, limits", "the same, mixed"


class Ways(NamedTuple):
    """Drains of both kinds, in jobs a second."""

    flat: list[float]
    tree: list[float]
    mixed: list[float]


def drain_flat(node: Node, jobs: int) -> float:
    """Time a backlog in one queue, first in first out."""
    node.call("PATCH", f"/v1/queues/{QUEUE}", {"discipline": "fifo"})
    return _drain(node, [{"task": "nothing", "queue": QUEUE, "args": []}] * jobs)


def drain_tree(node: Node, jobs: int, mixed: bool = False) -> float:
    """Time the same backlog spread over tenants, each with a weight and a limit, and queues with flows.

    Each tenant sends calls of its own; *mixed*: neighbours in the database are of different tenants, so
    that whatever order but the first-come one has to touch a page for each job. That is the worst there is.
    """
    for tenant in range(TENANTS):
        settings = {"weight": 1 + tenant % 5, "limit": 100_000, "discipline": "sfq"}
        node.call("PATCH", f"/v1/queues/{QUEUE}/t{tenant}", settings)
    each = jobs // TENANTS
    work = [_job(tenant, number) for tenant in range(TENANTS) for number in range(each)]
    if mixed:
        work = [_job(number % TENANTS, number // TENANTS) for number in range(each * TENANTS)]
    return _drain(node, work)


def _job(tenant: int, number: int) -> dict[str, object]:
    queue = f"{QUEUE}/t{tenant}/q{number % QUEUES}"
    return {"task": "nothing", "queue": queue, "flow": f"f{number // QUEUES % FLOWS}", "args": []}


def _drain(node: Node, work: Sequence[dict[str, object]]) -> float:
    with paused(node):
        for first in range(0, len(work), 5000):
            node.call("POST", "/v1/jobs/bulk", {"jobs": work[first : first + 5000]})
        ended_before = count_ended(node)
    started = time.perf_counter()
    node.wait_until_idle()
    rate = len(work) / (time.perf_counter() - started)
    check_ended(node, len(work), ended_before)
    return rate


def drain_rows(ways: Ways, jobs: int) -> Iterator[Row]:
    """Return the medians, and what the tree takes of the rate."""
    measure = f"drain of {jobs:,} no-op jobs, the tree's cost"
    yield median(measure, FLAT, ways.flat, "jobs/s")
    shape = f"{TENANTS} tenants, {TENANTS * QUEUES} queues, {TENANTS * QUEUES * FLOWS} flows"
    yield median(measure, TREE, ways.tree, "jobs/s", f"{shape}; each tenant sends its own calls")
    yield median(measure, MIXED, ways.mixed, "jobs/s", "tenants' jobs alternate one by one")
    for side, rates in ((TREE, ways.tree), (MIXED, ways.mixed)):
        costs = [100 * (1 - rate / flat) for rate, flat in zip(rates, ways.flat, strict=True)]
        note = "median of the rounds' own differences: the machine's speed changes from round to round"
        what = f"what the tree takes of the rate, {jobs:,} jobs"
        yield Row(what, side, statistics.median(costs), "%", note, True, tuple(costs))


class Anybody:
    """A kind of worker that takes everything."""

    def fits(self, shape: Shape) -> bool:
        return True

    def attached(self, path: str) -> bool:
        return True


def decisions(count: int = 20_000, running: int = 64) -> Iterator[Row]:
    """Time single decisions, the begin's bookkeeping included, among very many queues."""
    tree, kind, queues = Tree(), Anybody(), deque[Queue]()
    tree.welcome(kind)
    shape = Shape("python", "nothing")
    for number in range(MANY_QUEUES):
        tree.put(Arrival(number, f"t{number % 1000}/q{number // 1000}", None, 0, shape, number), MANY_QUEUES)
    micros = []
    for number in range(MANY_QUEUES, MANY_QUEUES + count):
        tree.mono += 0.001
        started = time.perf_counter()
        found = tree.choose(kind, MANY_QUEUES)
        assert found is not None
        queue, offer = found
        tree.take(queue, offer, 1, SLOT, MANY_QUEUES)
        micros.append((time.perf_counter() - started) * 1e6)
        tree.put(Arrival(number, queue.path, None, 0, shape, offer.place), MANY_QUEUES)
        queues.append(queue)
        if len(queues) > running:
            tree.release(queues.popleft(), 1, SLOT, running * 0.001, None)
    micros.sort()
    measure = f"begin decision among {MANY_QUEUES:,} active queues"
    yield Row(f"{measure}, p50", "fairway", micros[len(micros) // 2], "µs")
    yield Row(f"{measure}, p99", "fairway", micros[int(len(micros) * 0.99)], "µs", f"of {count:,}")
