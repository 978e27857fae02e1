"""Pinned jobs begin on their worker and nowhere else; workers that jobs name stand alone meanwhile."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.core import events as happened
from fairway.core.demand import demand
from fairway.core.explain import explain
from fairway.core.model import Extras, Shape, TaskInfo, shape_of, with_pins
from fairway.core.pins import LOOK_SECONDS
from fairway.core.plan import Plan
from tests.drawing import drawn

from .stage import Stage

PLAIN = Shape("command")


def pinned(worker: str = "", *away: str, task: str = "") -> Shape:
    """Return a shape that names workers."""
    return Shape("python" if task else "command", task, worker=worker, away=away)


def where(plan: Plan) -> dict[int, str]:
    """Return on which worker each job begins."""
    return {job: begin.worker for begin in plan.batch.begins for job in begin.jobs}


def kinds(stage: Stage) -> int:
    return len({id(worker.kind) for worker in stage.workers.values()})


# --- shapes ----------------------------------------------------------------------------------------------
def test_a_shape_is_one_object_pinned_or_not() -> None:
    plain = shape_of("python", "t", (), False)
    assert with_pins(plain, None) is plain
    assert with_pins(plain, Extras(deadline=5)) is plain
    there = with_pins(plain, Extras(worker="w3"))
    assert there is with_pins(plain, Extras(worker="w3", deadline=9))
    assert there == Shape("python", "t", worker="w3") != plain
    assert hash(there) == hash(Shape("python", "t", worker="w3"))
    assert (plain.names, there.names) == ((), ("w3",))
    assert with_pins(plain, Extras(worker="w3", away=("w1", "w2"))).names == ("w3", "w1", "w2")


# --- where they begin ------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("shape", "begins_on"),
    [
        (pinned("w1"), {"w1"}),
        (pinned("w2"), {"w2"}),
        (pinned("w9"), set()),
        (pinned("", "w1"), {"w2", "w3"}),
        (pinned("", "w1", "w3"), {"w2"}),
        (pinned("", "w1", "w2", "w3"), set()),
        (pinned("w1", "w1"), set()),
        (pinned("w2", task="t"), {"w2"}),
        (pinned("", "w9"), {"w1", "w2", "w3"}),
    ],
)
def test_a_job_begins_only_where_it_may(shape: Shape, begins_on: set[str]) -> None:
    stage = Stage()
    for name in ("w1", "w2", "w3"):
        stage.join(name)
    stage.submit(1, 2, 3, 4, 5, shape=shape)
    assert set(where(stage.step()).values()) == begins_on


def test_a_worker_that_comes_later_gets_what_is_pinned_to_it() -> None:
    stage = Stage()
    stage.join("w1", 4)
    stage.submit(1, shape=pinned("w2"))
    stage.submit(2)
    assert where(stage.step()) == {2: "w1"}
    stage.join("w2", 4)
    assert where(stage.step()) == {1: "w2"}


def test_pinned_jobs_stand_in_nobodys_way() -> None:
    stage = Stage()
    stage.join("w1", 1)
    stage.submit(1, 2, shape=pinned("w9"))
    stage.submit(3)
    assert stage.begun() == [3]


def test_only_named_workers_are_kinds_of_their_own_and_only_for_a_while() -> None:
    stage = Stage()
    for name in ("w1", "w2", "w3", "w4"):
        stage.join(name)
    stage.step()
    assert kinds(stage) == 1
    stage.submit(1, shape=pinned("w1"))
    stage.submit(2, shape=pinned("w9", "w2"))
    stage.step()
    assert kinds(stage) == 3  # w1, w2, and the others
    stage.finish(1)
    stage.absorb(happened.CancelAsked("ticket", stage.arrivals[2], False))
    for _ in range(40):
        stage.beat("w1"), stage.beat("w2"), stage.beat("w3"), stage.beat("w4")
        stage.step(LOOK_SECONDS / 20)
    assert kinds(stage) == 1
    assert stage.core.world.tree.named == {}
    assert stage.core.world.singled == set()
    stage.submit(3, shape=pinned("w1"))
    assert where(stage.step()) == {3: "w1"}


def test_a_named_worker_still_shares_slots_among_its_async_tasks() -> None:
    stage = Stage()
    for name in ("w1", "w2"):
        stage.join(name, tasks=(TaskInfo("t", True),), async_per_slot=3)
    stage.submit(1, 2, 3, shape=pinned("w1", task="t"))
    stage.submit(4, shape=pinned("w1", task="t"))
    assert where(stage.step()) == {1: "w1", 2: "w1", 3: "w1"}


@drawn(150)
@given(st.data())
def test_nothing_begins_where_it_may_not_and_nothing_that_could_begin_waits(data: st.DataObject) -> None:
    names = ["w1", "w2", "w3"]
    shapes = [PLAIN, *(pinned(name) for name in names), *(pinned("", name) for name in names)]
    stage, running, count = Stage(), dict[int, Shape](), 0
    for name in names:
        stage.join(name, 2)
    for _ in range(data.draw(st.integers(1, 12))):
        for shape in data.draw(st.lists(st.sampled_from(shapes), max_size=4)):
            count += 1
            stage.submit(count, shape=shape, queue=data.draw(st.sampled_from(["q", "q/a"])))
            running[count] = shape
        for job in [job for job in sorted(stage.live) if data.draw(st.booleans())]:
            stage.finish(job)
            del running[job]
        for job, worker in where(stage.step()).items():
            assert running[job].worker in ("", worker)
            assert worker not in running[job].away
        free = {worker.spec.name for worker in stage.workers.values() if worker.free}
        for job, shape in running.items():
            may = {name for name in free if shape.worker in ("", name) and name not in shape.away}
            assert job in stage.live or not may


# --- why they wait ---------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("shape", "reason", "detail", "on"),
    [
        (pinned("w9"), "no_worker", "pinned to 'w9', which is not there", "w9"),
        (pinned("w2"), "no_worker", "pinned to 'w2', which is draining", "w2"),
        (pinned("w1"), "busy", "pinned to 'w1', which is full; it is the next of its queue", "w1"),
        (pinned("w1", task="u"), "no_worker", "pinned to 'w1', which lacks task u", "w1"),
        (pinned("w1", "w1"), "no_worker", "pinned to 'w1', which is one it is kept from", "w1"),
        (
            pinned("", "w1", "w2"),
            "no_worker",
            "it is kept from every worker that could take it (w1, w2)",
            "w1",
        ),
    ],
)
def test_a_job_that_names_workers_says_why_it_waits(shape: Shape, reason: str, detail: str, on: str) -> None:
    stage = Stage()
    stage.join("w1")
    stage.submit(1)
    stage.step()
    stage.join("w2")
    stage.absorb(happened.WorkerAsked("ticket", "w2", None, True))
    stage.submit(7, shape=shape)
    stage.step()
    assert explain(stage.core.world, stage.arrivals[7], stage.now.wall) == (reason, detail, on)


def test_what_is_pinned_is_no_demand_and_what_is_kept_away_is_one_for_others() -> None:
    stage = Stage()
    stage.join("w1", 3)
    stage.submit(1, 2, shape=pinned("w9"))
    stage.submit(3, shape=pinned("", "w1"))
    stage.step()
    [shape] = demand(stage.core.world, stage.now).shapes
    assert (shape.jobs, shape.away, shape.slots_there) == (1, ("w1",), 0)


# --- waiting jobs sent elsewhere ---------------------------------------------------------------------------
def test_a_waiting_job_is_sent_elsewhere_and_its_row_says_so() -> None:
    stage = Stage()
    stage.join("w1"), stage.join("w2")
    stage.submit(1, 2)
    stage.step()
    stage.submit(3)
    old = stage.arrivals[3]
    extras = Extras(worker="w2")
    new = old._replace(shape=with_pins(old.shape, extras), extras=extras)
    stage.absorb(happened.EditAsked("ticket", old, new, old.place, stage.rules))
    plan = stage.step()
    assert [(edit.job, edit.extras, edit.adapter) for edit in plan.batch.edits] == [(3, extras, None)]
    [news] = [one for one in plan.batch.news if one.kind == "job.edited"]
    assert news.detail == {"to": "w2"}
    stage.finish(1 if stage.live[1].worker.spec.name == "w1" else 2)
    assert stage.begun() == []
    stage.finish(*stage.live)
    assert where(stage.step()) == {3: "w2"}
    assert stage.live[3].shape.worker == "w2"


def test_another_adapter_is_written_only_if_it_is_another() -> None:
    stage = Stage()
    stage.submit(1, shape=Shape("python", "t"))
    old = stage.arrivals[1]
    new = old._replace(shape=replace(old.shape, adapter="warm"))
    stage.absorb(happened.EditAsked("ticket", old, new, old.place, stage.rules))
    assert [edit.adapter for edit in stage.step().batch.edits] == ["warm"]


@pytest.mark.parametrize("priority", [0, 5])
def test_a_preferred_job_goes_first_and_a_requeued_one_last_within_their_priority(priority: int) -> None:
    stage = Stage()
    stage.set("q", discipline="priority")
    stage.submit(1, 2, 3, priority=0)
    stage.submit(4, priority=priority)
    ask = happened.EditAsked("t", stage.arrivals[3], stage.arrivals[3], stage.arrivals[3].place, stage.rules)
    stage.absorb(ask._replace(stand="front"))
    first = stage.arrivals[1]
    stage.micros += 5
    stage.absorb(happened.EditAsked("t", first, first, first.place, stage.rules, "end"))
    plan = stage.step()
    assert [reply.value for reply in plan.replies if reply.ticket == "t"] == ["edited", "edited"]
    stage.join("w1", 9)
    assert stage.begun() == ([3, 2, 4, 1] if priority == 0 else [4, 3, 2, 1])


def test_a_preferred_job_that_is_not_due_is_due_now_and_a_requeued_one_stays_as_it_is() -> None:
    stage = Stage()
    stage.submit(1, 2, delay=60)
    for job, stand in ((1, "front"), (2, "end")):
        old = stage.arrivals[job]
        stage.absorb(happened.EditAsked("t", old, old, old.place, stage.rules, stand))
    edits = {edit.job: edit for edit in stage.step().batch.edits}
    assert edits[1].run_at <= stage.now.wall and edits[1].place < stage.now.wall
    assert (edits[2].run_at, edits[2].place) == (stage.arrivals[2].place, stage.arrivals[2].place)
    stage.join("w1", 9)
    assert stage.begun() == [1]


def test_a_blocked_job_has_no_line_to_stand_in_front_of() -> None:
    stage = Stage()
    stage.submit(1)
    arrival = stage.arrivals[1]._replace(job=2, extras=Extras(after=(1,)), blocked=True)
    stage.absorb(happened.TakenIn([arrival], [1]))
    stage.absorb(happened.EditAsked("t", arrival, arrival, arrival.place, stage.rules, "front"))
    assert [reply.error and reply.error[0] for reply in stage.step().replies] == ["blocked"]
