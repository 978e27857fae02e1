"""Demand: what waits for nothing but slots, shape by shape."""

from __future__ import annotations

from typing import Any

import pytest

from fairway.core.demand import Demand, ShapeDemand, demand
from fairway.core.model import Shape, TaskInfo

from .stage import COMMAND, Stage, task

GPU = Shape("command", tags=("gpu",))


def asked(stage: Stage) -> Demand:
    return demand(stage.core.world, stage.now)


def of(stage: Stage, adapter: str, name: str = "", tags: tuple[str, ...] = ()) -> ShapeDemand | None:
    found = [one for one in asked(stage).shapes if (one.adapter, one.task, one.tags) == (adapter, name, tags)]
    return found[0] if found else None


def jobs(stage: Stage) -> dict[tuple[str, ...], int]:
    """Return what is wanted, by tags."""
    return {one.tags: one.jobs for one in asked(stage).shapes if one.jobs}


def test_what_waits_and_runs_is_told_shape_by_shape() -> None:
    stage = Stage()
    stage.join("w", 2)
    stage.submit(1, 2, 3, 4, 5)
    stage.step()
    stage.submit(6, 7, shape=GPU)
    stage.submit(8, delay=60)
    plain, gpu = of(stage, "command"), of(stage, "command", tags=("gpu",))
    assert plain is not None and gpu is not None
    assert (plain.jobs, plain.slots, plain.running, plain.slots_there, plain.slots_free) == (
        3,
        3.0,
        2,
        2,
        0.0,
    )
    assert (gpu.jobs, gpu.slots, gpu.running, gpu.slots_there) == (2, 2.0, 0, 0)
    assert (asked(stage).slots, asked(stage).free) == (2, 0.0)


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        ({}, {(): 6, ("gpu",): 3}),
        ({"paused": True}, {}),
        ({"limit": 0}, {}),
        ({"limit": 3}, {(): 2, ("gpu",): 1}),
        ({"limit": 1}, {(): 1}),
        ({"limit": 99}, {(): 6, ("gpu",): 3}),
        ({"rate": "4/s", "burst": 1}, {(): 3, ("gpu",): 1}),
    ],
)
def test_what_a_setting_holds_back_is_no_demand(
    settings: dict[str, Any], wanted: dict[tuple[str, ...], int]
) -> None:
    stage = Stage()
    stage.set("acme", **settings)
    stage.submit(*range(6), queue="acme/mail")
    stage.submit(*range(6, 9), queue="acme/render", shape=GPU)
    assert jobs(stage) == wanted


def test_what_a_rate_lets_begin_is_what_tokens_there_are_and_come_while_one_runs() -> None:
    def check(rate: str, burst: int, seconds: float, wanted: int) -> None:
        """After one job of *seconds* there are *burst* - 1 tokens, and twenty jobs wait."""
        stage = Stage()
        stage.join("w", 99)
        stage.step()
        stage.set("q", rate=rate, burst=burst)
        stage.micros += 7200 * 1_000_000
        stage.submit(0)
        stage.beat("w")
        stage.step()
        stage.core.world.queue_estimates.add("q", 20 * seconds, count=20)
        stage.finish(0, seconds=seconds)
        stage.submit(*range(1, 21))
        assert jobs(stage).get((), 0) == wanted

    check("1/h", burst=1, seconds=1.0, wanted=0)
    check("1/h", burst=1, seconds=3500.0, wanted=0)
    check("1/h", burst=1, seconds=3700.0, wanted=1)
    check("1/h", burst=4, seconds=1.0, wanted=3)
    check("2/s", burst=4, seconds=2.5, wanted=8)
    check("99/s", burst=1, seconds=9.0, wanted=20)


def test_what_comes_by_a_rate_takes_the_slots_of_what_ends_first() -> None:
    stage = Stage()
    stage.join("w", 99)
    stage.set("q", rate="4/s", burst=1)
    stage.submit(*range(9))
    for _ in range(3):
        stage.step(0.25)
    assert len(stage.live) == 3
    assert jobs(stage) == {(): 1}


def test_a_full_queue_wants_nothing_more() -> None:
    stage = Stage()
    stage.join("w", 9)
    stage.set("acme", limit=1)
    stage.submit(1, 2, queue="acme")
    stage.step()
    assert jobs(stage) == {}


def test_short_jobs_and_async_ones_share_a_slot() -> None:
    stage = Stage()
    stage.join("w", 1, tasks=(TaskInfo("t"), TaskInfo("a", True)), async_per_slot=10)
    for job in range(20):
        stage.submit(job, shape=task("t"))
        stage.step()
        stage.finish(job, seconds=0.001)
    stage.submit(*range(100, 200), shape=task("t"))
    stage.submit(*range(200, 205), shape=task("a"))
    short, shared = of(stage, "python", "t"), of(stage, "python", "a")
    assert short is not None and shared is not None
    assert (short.jobs, short.slots, short.seconds) == (100, pytest.approx(10.0), pytest.approx(0.001))
    assert (shared.jobs, shared.slots, shared.seconds) == (5, 0.5, None)


def test_workers_that_drain_are_not_there() -> None:
    stage = Stage()
    stage.join("w", 4)
    stage.workers["w"].draining = True
    stage.submit(1, shape=COMMAND)
    found = of(stage, "command")
    assert found is not None
    assert (found.jobs, found.slots_there, asked(stage).slots) == (1, 0, 0)
