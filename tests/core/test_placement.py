"""Who runs what: the least loaded worker first, async tasks by their size, short jobs in bundles."""

from __future__ import annotations

from collections import Counter

import pytest

from fairway.core import events as happened
from fairway.core.estimates import ENOUGH
from fairway.core.model import SLOT, Held, Result, Shape, TaskInfo
from fairway.core.plan import Begun, Plan

from .stage import COMMAND, Stage, begun_jobs, task


def workers_of(plan: Plan) -> list[str]:
    return [begin.worker for begin in plan.batch.begins for _ in begin.jobs]


def teach(stage: Stage, name: str, seconds: float) -> None:
    for _ in range(ENOUGH):
        stage.core.world.estimates.add(name, seconds)


def test_the_least_loaded_worker_is_first_and_ties_go_by_name() -> None:
    stage = Stage()
    for name, slots in (("b", 2), ("a", 2), ("c", 4)):
        stage.join(name, slots)
    stage.submit(*range(8))
    assert workers_of(stage.step()) == ["a", "b", "c", "c", "a", "b", "c", "c"]


def test_a_full_worker_gets_nothing_more() -> None:
    stage = Stage()
    stage.join("a", 2)
    stage.submit(1, 2, 3)
    assert stage.begun() == [1, 2]
    stage.finish(1)
    assert stage.begun() == [3]


def test_a_job_goes_only_where_it_fits() -> None:
    stage = Stage()
    stage.join("plain", 9)
    stage.join("gpu", 1, tags=("gpu",))
    stage.submit(1, 2, shape=Shape("command", tags=("gpu",)))
    stage.submit(3)
    plan = stage.step()
    assert {job: begin.worker for begin in plan.batch.begins for job in begin.jobs} == {1: "gpu", 3: "plain"}


@pytest.mark.parametrize("how", ["left", "draining"])
def test_who_is_gone_or_drains_gets_nothing(how: str) -> None:
    stage = Stage()
    stage.join("a", 4)
    stage.absorb(
        happened.Left("a") if how == "left" else happened.WorkerAsked("ticket", "a", None, True)
    )  # fmt: skip
    stage.submit(1)
    assert stage.begun() == []


def test_a_worker_that_hands_back_gets_nothing_before_its_next_beat() -> None:
    stage = Stage()
    stage.join("a", 1)
    stage.submit(1)
    assert stage.begun() == [1]
    stage.absorb(happened.HandedBack("a", [Held(1, 1, False)]))
    assert stage.begun() == []
    stage.beat("a")
    assert stage.begun() == [1]
    assert stage.attempts[1] == 2


def test_async_tasks_share_a_slot_up_to_their_number() -> None:
    stage = Stage()
    stage.join("a", 2, tasks=(TaskInfo("t", True),), async_per_slot=3)
    stage.submit(*range(10), shape=task("t"))
    assert len(stage.begun()) == 6
    assert stage.workers["a"].free < SLOT // 3
    assert {live.size for live in stage.live.values()} == {SLOT // 3}


def test_a_part_of_a_slot_takes_async_tasks_only() -> None:
    stage = Stage()
    stage.join("a", 1, tasks=(TaskInfo("t", True), TaskInfo("u")), async_per_slot=3)
    stage.submit(1, shape=task("t"))
    assert stage.begun() == [1]
    stage.submit(2, shape=task("u"))
    stage.submit(3, shape=task("t"))
    assert stage.begun() == [3]
    stage.finish(1, 3)
    assert stage.begun() == [2]


def test_short_jobs_of_known_length_share_one_slot_exactly() -> None:
    stage = Stage()
    teach(stage, "t", 0.003)
    stage.join("a", 1)
    stage.submit(*range(7), shape=task("t"))
    plan = stage.step()
    assert begun_jobs(plan) == [0, 1, 2]
    assert set(plan.bundles.values()) == {1}
    assert sum(live.size for live in stage.live.values()) == SLOT
    assert stage.workers["a"].free == 0
    stage.finish(0, 1, seconds=0.003)
    assert stage.begun() == []
    stage.finish(2, seconds=0.003)
    assert stage.workers["a"].free == SLOT
    assert stage.begun() == [3, 4, 5]


@pytest.mark.parametrize(
    ("shape", "seconds"),
    [
        (task("t"), None),  # not known yet
        (task("t"), 0.02),  # too long
        (task("t", once=True), 0.001),  # at most once
        (COMMAND, 0.001),  # a command has no task to learn from
    ],
)
def test_all_others_travel_alone(shape: Shape, seconds: float | None) -> None:
    stage = Stage()
    if seconds is not None:
        teach(stage, "t", seconds)
        teach(stage, "", seconds)
    stage.join("a", 1)
    stage.submit(1, 2, 3, shape=shape)
    plan = stage.step()
    assert (len(begun_jobs(plan)), plan.bundles) == (1, {})


def test_a_bundle_ends_where_a_job_comes_that_must_travel_alone() -> None:
    stage = Stage()
    teach(stage, "t", 0.001)
    stage.join("a", 1)
    stage.submit(1, 2, shape=task("t"))
    stage.submit(3)
    stage.submit(4, shape=task("t"))
    assert stage.begun() == [1, 2]


def test_what_is_killed_with_its_lease_shares_its_process_with_nothing() -> None:
    stage = Stage()
    teach(stage, "t", 0.001)
    stage.join("a", 4)
    stage.set("strict", on_lease_lost="kill")
    stage.submit(1, 2, shape=task("t"), queue="strict/below")
    stage.submit(3, 4, 5, shape=task("t"))
    plan = stage.step()
    assert sorted(begun_jobs(plan)) == [1, 2, 3, 4, 5]
    assert set(plan.bundles) == {3, 4, 5}


def test_every_job_of_a_bundle_counts_against_every_limit() -> None:
    stage = Stage()
    teach(stage, "t", 0.001)
    stage.join("a", 2)
    stage.set("q", limit=3)
    stage.set("q/r", limit=1)
    stage.submit(*range(5), shape=task("t"), queue="q")
    stage.submit(*range(5, 10), shape=task("t"), queue="q/r")
    stage.submit(*range(10, 15), shape=task("t"), queue="other")
    begun = Counter(stage.arrivals[job].queue for job in stage.begun())
    assert begun["q"] + begun["q/r"] == 3
    assert begun["q/r"] <= 1
    assert begun["other"] == 5


def test_a_bundle_is_no_longer_than_it_may_be() -> None:
    stage = Stage()
    teach(stage, "t", 0.0)
    most = stage.core.world.timers.bundle_most
    stage.join("a", 1)
    stage.submit(*range(most + 5), shape=task("t"))
    assert len(stage.begun()) == most
    assert sum(live.size for live in stage.live.values()) == SLOT


def test_a_hiccup_in_the_last_few_of_a_bundle_does_not_make_the_next_one_small() -> None:
    """A bundle may be of several queues; how long its jobs took is learnt from all of them together."""
    stage = Stage()
    teach(stage, "t", 1e-6)
    most = stage.core.world.timers.bundle_most
    stage.join("a", 1)
    stage.submit(*range(most - 30), queue="one", shape=task("t"))
    stage.submit(*range(most - 30, most), queue="two", shape=task("t"))
    jobs = stage.begun()
    took = dict.fromkeys(jobs, 1e-6) | dict.fromkeys(range(most - 30, most), 50e-6)
    stage.absorb(happened.Reported("a", [Result(job, 1, "ok", b"1", took[job]) for job in jobs], 0.5))
    stage.submit(*range(most, 2 * most), queue="one", shape=task("t"))
    assert len(stage.begun()) == most


def test_what_an_earlier_leader_bundled_leaves_no_slot_uncounted() -> None:
    stage = Stage()
    stage.submit(*range(5), shape=task("t"))
    arrivals, fresh = stage.arrivals, Stage()
    for job in range(5):
        begun = Begun(job, 1, 0, 0, 0, (), stage.rules, None, b"{}")
        fresh.absorb(happened.Found(arrivals[job], begun, "a", "a", 0, False))
    fresh.join("a", 2, holds=tuple(Held(job, 1) for job in range(5)))
    fresh.attempts.update(range(5))
    fresh.submit(9)
    assert fresh.begun() == []
    fresh.finish(*range(5))
    assert fresh.workers["a"].free == 2 * SLOT
    assert fresh.begun() == [9]
