"""Numbers of each tenant for /metrics: a bounded number of series, whatever queues people make.

A tenant is a child of the root. The first hundred have series of their own, in the order in which they were
made, so that none comes and goes with its load; all others are taken together as `_other`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fairway.core.explain import limited_by
from fairway.core.look import QueueLook, WorldLook
from fairway.core.mishaps import Part
from fairway.core.model import Moment
from fairway.core.numbers import PARTS, Numbers

MOST_TENANTS = 100
OTHER = "_other"
#: What may hold a tenant back: settings only, and no others, so that the series are bounded.
LIMITS = ("limit", "moving", "paused", "rate")


def tenant_numbers(world: WorldLook, now: Moment) -> dict[str, float]:
    """Return counters and gauges by tenant, under their names and labels."""
    ask = world.advice.ask
    counted = ask(Part.NUMBERS, None, world.numbers.of_tenants)
    found: dict[str, float] = {}
    for label, tenants in _labelled(world).items():
        found |= ask(Part.NUMBERS, {}, _gauges, label, tenants, now)
        if counted is not None:
            found |= ask(Part.NUMBERS, {}, _counts, world, label, tenants, counted, now)
        found |= ask(Part.EXPLANATION, {}, _limited, label, tenants, now)
    return found


def mishap_numbers(world: WorldLook) -> dict[str, float]:
    """Return how often each part of what is advisory failed."""
    counts = world.advice.mishaps.counts
    return {f'advisory_errors_total{{part="{part}"}}': float(count) for part, count in counts.items()}


def _labelled(world: WorldLook) -> dict[str, list[QueueLook]]:
    found: dict[str, list[QueueLook]] = {}
    for place, tenant in enumerate(sorted(world.tree.root.children.values(), key=_order)):
        own = place < MOST_TENANTS and tenant.path != OTHER
        found.setdefault(tenant.path if own else OTHER, []).append(tenant)
    return found


def _order(queue: QueueLook) -> int:
    return queue.order


def _gauges(label: str, tenants: Sequence[QueueLook], now: Moment) -> dict[str, float]:
    """Return what the tree knows."""
    values = {
        "tenant_waiting": sum(tenant.waiting for tenant in tenants),
        "tenant_running": sum(tenant.in_use for tenant in tenants),
        "tenant_slot_seconds_total": sum(tenant.slot_seconds_until(now.mono) for tenant in tenants),
        "tenant_oldest_wait_seconds": max(_oldest_wait(tenant, now.wall) for tenant in tenants),
    }
    return {f'{name}{{tenant="{label}"}}': value for name, value in values.items()}


def _counts(
    world: WorldLook,
    label: str,
    tenants: Sequence[QueueLook],
    counted: Mapping[QueueLook, Numbers],
    now: Moment,
) -> dict[str, float]:
    """Return what was counted: of waits, runs and errors nothing until there was one."""
    whole = Numbers(now.mono)
    for tenant in tenants:
        if tenant in counted:
            whole.merge(counted[tenant])
    values = {
        "tenant_begun_total": whole.begun,
        "tenant_ended_total": whole.ended,
        "tenant_failed_total": whole.failures,
    }
    found: dict[str, float] = {f'{name}{{tenant="{label}"}}': value for name, value in values.items()}
    figures = world.numbers.figures(whole, now.mono)
    for name, seconds in (("wait", figures.wait), ("run", figures.run)):
        for part, value in zip(PARTS, seconds, strict=False):
            found[f'tenant_{name}_seconds{{tenant="{label}",quantile="{part}"}}'] = value
    if figures.errors is not None:
        found[f'tenant_error_share{{tenant="{label}"}}'] = figures.errors
    return found


def _oldest_wait(tenant: QueueLook, now: int) -> float:
    """Return for how many seconds the first of the due jobs has waited; 0 if there is none."""
    if not tenant.waiting:
        return 0.0
    places = (queue.own.oldest() for queue in tenant.subtree() if len(queue.own))
    return max(now - min((place for place in places if place is not None), default=now), 0) / 1e6


def _limited(label: str, tenants: Sequence[QueueLook], now: Moment) -> dict[str, float]:
    """Return 1 for what keeps a tenant with waiting jobs from beginning more, else 0; `_other`: how many."""
    said = [limited_by(tenant, now.mono) or "" for tenant in tenants if tenant.waiting]
    reasons = [one.partition(" ")[0] for one in said]
    return {f'tenant_limited{{tenant="{label}",by="{reason}"}}': reasons.count(reason) for reason in LIMITS}
