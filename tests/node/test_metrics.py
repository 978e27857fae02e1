"""The numbers page has a bounded number of series, whatever queues people make."""

from __future__ import annotations

from fairway.core.model import Timers
from fairway.core.world import World
from fairway.node.metrics import MOST_TENANTS, tenant_numbers


def test_the_first_hundred_tenants_have_series_and_the_rest_are_summed_up() -> None:
    world = World(Timers())
    for number in range(MOST_TENANTS + 3):
        queue = world.tree.grow(f"t{number}/deep")
        world.numbers.began(queue, 1, 0.0, 1.0)
        world.numbers.ended(queue, 1, 1.0, 1.0, number % 2 == 0, 2.0)
    found = tenant_numbers(world, 2.0)
    series = {name for name in found if name.startswith("tenant_begun_total")}
    assert len(series) == MOST_TENANTS + 1
    assert found['tenant_begun_total{tenant="t0"}'] == 1
    assert found['tenant_begun_total{tenant="_other"}'] == 3
    assert found['tenant_failed_total{tenant="_other"}'] == 2


def test_a_tenant_cannot_pass_for_the_rest() -> None:
    world = World(Timers())
    world.tree.grow("_other")
    world.tree.grow("a")
    assert {name for name in tenant_numbers(world, 0.0) if "waiting" in name} == {
        'tenant_waiting{tenant="_other"}',
        'tenant_waiting{tenant="a"}',
    }
