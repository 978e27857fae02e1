"""Numbers of each tenant for /metrics: a bounded number of series, whatever queues people make.

A tenant is a child of the root. The first hundred have series of their own, in the order in which they were
made, so that none comes and goes with its load; all others are summed up as `_other`.
"""

from __future__ import annotations

from collections import defaultdict

from fairway.core.numbers import NO_ATTEMPTS, Attempts
from fairway.core.queue import Queue
from fairway.core.world import World

MOST_TENANTS = 100
OTHER = "_other"


def tenant_numbers(world: World, mono: float) -> dict[str, float]:
    """Return counters and gauges by tenant, under their names and labels."""
    found: defaultdict[str, float] = defaultdict(float)
    counted = world.numbers.of_tenants()
    for place, tenant in enumerate(sorted(world.tree.root.children.values(), key=_order)):
        own = place < MOST_TENANTS and tenant.path != OTHER
        _add(found, tenant.path if own else OTHER, tenant, counted.get(tenant, NO_ATTEMPTS), mono)
    return dict(found)


def _order(queue: Queue) -> int:
    return queue.order


def _add(found: defaultdict[str, float], label: str, tenant: Queue, counted: Attempts, mono: float) -> None:
    values = {
        "tenant_waiting": tenant.waiting,
        "tenant_running": tenant.in_use,
        "tenant_begun_total": counted.begun,
        "tenant_ended_total": counted.ended,
        "tenant_failed_total": counted.failures,
        "tenant_slot_seconds_total": tenant.slot_seconds_until(mono),
    }
    for name, value in values.items():
        found[f'{name}{{tenant="{label}"}}'] += value
