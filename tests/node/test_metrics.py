"""The numbers page has a bounded number of series, whatever queues people make."""

from __future__ import annotations

import pytest

from fairway.core.model import Arrival, Moment, QueueSettings, Shape, Timers
from fairway.core.world import World
from fairway.node.metrics import LIMITS, MOST_TENANTS, tenant_numbers


def test_the_first_hundred_tenants_have_series_and_the_rest_are_summed_up() -> None:
    world = World(Timers())
    for number in range(MOST_TENANTS + 3):
        queue = world.tree.grow(f"t{number}/deep")
        world.numbers.began(queue, 1, 0.0, 1.0)
        world.numbers.ended(queue, 1, 1.0, 1.0, number % 2 == 0, 2.0)
    found = tenant_numbers(world, Moment(0, 2.0))
    series = {name for name in found if name.startswith("tenant_begun_total")}
    assert len(series) == MOST_TENANTS + 1
    assert found['tenant_begun_total{tenant="t0"}'] == 1
    assert found['tenant_begun_total{tenant="_other"}'] == 3
    assert found['tenant_failed_total{tenant="_other"}'] == 2


def test_a_tenant_cannot_pass_for_the_rest() -> None:
    world = World(Timers())
    world.tree.grow("_other")
    world.tree.grow("a")
    assert {name for name in tenant_numbers(world, Moment(0, 0.0)) if "tenant_waiting" in name} == {
        'tenant_waiting{tenant="_other"}',
        'tenant_waiting{tenant="a"}',
    }


def test_a_tenant_shows_how_long_its_jobs_wait_and_run_and_how_many_go_wrong() -> None:
    world = World(Timers())
    mail, reports = world.tree.grow("acme/mail"), world.tree.grow("acme/reports")
    world.numbers.began(mail, 3, 1.0, 1.0)
    world.numbers.ended(mail, 3, 6.0, 6.0, False, 1.0)
    world.numbers.ended(reports, 1, 2.0, 2.0, True, 1.0)
    for job, (path, place) in enumerate((("acme/mail", 7), ("acme/reports", 4), ("later", 99)), start=1):
        world.tree.put(Arrival(job, path, None, 0, Shape("command"), place * 1_000_000), 10_000_000)
    found = tenant_numbers(world, Moment(10_000_000, 1.0))
    assert found['tenant_oldest_wait_seconds{tenant="acme"}'] == 6.0
    assert found['tenant_oldest_wait_seconds{tenant="later"}'] == 0.0
    assert found['tenant_error_share{tenant="acme"}'] == 0.25
    for part in ("0.5", "0.9", "0.99"):
        assert found[f'tenant_wait_seconds{{tenant="acme",quantile="{part}"}}'] == pytest.approx(
            1.0, rel=0.12
        )
        assert found[f'tenant_run_seconds{{tenant="acme",quantile="{part}"}}'] == pytest.approx(2.0, rel=0.12)
    assert not [name for name in found if name.startswith(("tenant_run_", "tenant_err")) and "later" in name]


def test_what_holds_a_tenant_back_is_one_of_few_reasons() -> None:
    world = World(Timers())
    for number in range(MOST_TENANTS + 2):
        path = f"t{number}"
        settings = QueueSettings(paused=number >= MOST_TENANTS, limit=0 if number == 1 else None)
        world.tree.set(world.tree.grow(path), settings, 1)
        world.tree.put(Arrival(number, path, None, 0, Shape("command"), 0), 1)
    found = tenant_numbers(world, Moment(1, 1.0))
    limited = {name: value for name, value in found.items() if name.startswith("tenant_limited")}
    assert len(limited) == len(LIMITS) * (MOST_TENANTS + 1)
    assert {name: value for name, value in limited.items() if value} == {
        'tenant_limited{tenant="t1",by="limit"}': 1,
        'tenant_limited{tenant="_other",by="paused"}': 2,
    }
