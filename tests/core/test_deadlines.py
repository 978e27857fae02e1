"""Deadlines: what has not begun in time ends as failed; and the discipline that serves by them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.core import events as happened
from fairway.core import expiry
from fairway.core.disciplines import DISCIPLINES
from fairway.core.disciplines.deadline import Deadline
from fairway.core.explain import explain, position
from fairway.core.foresee import foresee
from fairway.core.lifecycle import State
from fairway.core.model import Arrival, Extras, QueueSettings, Rules, Shape
from fairway.core.plan import Begun, Plan
from tests.core.stage import COMMAND, WALL, Stage, task
from tests.drawing import drawn

SECOND = 1_000_000


class Late(Stage):
    """A stage whose jobs may have deadlines, in seconds since the curtain rose."""

    def submit_by(self, deadline: float | None, *jobs: int, queue: str = "q", delay: float = 0.0) -> None:
        for job in jobs:
            self.micros += 1
            self.arrivals[job] = self.arrival(job, deadline, queue, delay)
            self.absorb(happened.Submitted([self.arrivals[job]]))

    def arrival(self, job: int, deadline: float | None, queue: str = "q", delay: float = 0.0) -> Arrival:
        extras = None if deadline is None else Extras(deadline=WALL + int(deadline * SECOND))
        place = self.now.wall + int(delay * SECOND)
        return Arrival(job, queue, None, 0, COMMAND, place, None, extras)


def expired(plan: Plan) -> list[int]:
    """Return the jobs that a plan ends because they are late."""
    for drop in plan.batch.drops:
        assert drop.state == State.FAILED and json.loads(drop.outcome or b"")["reason"] == "expired"
    return [drop.job for drop in plan.batch.drops]


def told(plan: Plan) -> list[tuple[Any, ...]]:
    """Return what a plan tells of ends."""
    return [(*news.jobs, news.state, news.detail) for news in plan.batch.news if news.kind == "job.ended"]


# --- expiry ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", DISCIPLINES)
def test_a_job_that_waits_past_its_deadline_fails_whatever_the_discipline(name: str) -> None:
    stage = Late()
    stage.set("q", discipline=name)
    stage.submit_by(5, 1)
    stage.submit_by(None, 2)
    assert expired(stage.step(4.9)) == []
    plan = stage.step(0.2)
    assert expired(plan) == [1]
    assert told(plan) == [(1, "failed", {"reason": "expired"})]
    assert stage.core.world.counts.failed == 1
    assert stage.core.world.tree.root.waiting == 1
    stage.join("w", 2)
    assert stage.begun() == [2]


def test_a_job_that_is_not_due_expires_too() -> None:
    stage = Late()
    stage.submit_by(5, 1, delay=4)
    stage.submit_by(5, 2, delay=3)
    stage.set("q", paused=True)
    assert expired(stage.step(3.5)) == []
    assert sorted(expired(stage.step(1.5))) == [1, 2]


def test_nothing_begins_at_its_deadline_or_later() -> None:
    stage = Late()
    stage.submit_by(5, 1)
    stage.micros = 5 * SECOND
    stage.join("w")
    plan = stage.step()
    assert expired(plan) == [1] and plan.batch.begins == []


def test_a_running_attempt_is_not_touched_and_may_still_succeed() -> None:
    stage = Late()
    stage.join("w")
    stage.submit_by(5, 1)
    assert stage.begun() == [1]
    plan = stage.step(3)
    stage.beat("w", 1)
    assert expired(plan) == [] and expired(stage.step(3)) == []
    stage.finish(1)
    assert [end.state for end in stage.step().batch.ends] == ["succeeded"]


@pytest.mark.parametrize("kind", ["error", "crashed", "stopped"])
def test_a_job_that_comes_back_after_its_deadline_expires(kind: str) -> None:
    stage = Late()
    stage.join("w")
    stage.submit_by(5, 1)
    assert stage.begun() == [1]
    stage.micros += 6 * SECOND
    stage.beat("w", 1)
    stage.finish(1, kind=kind)
    plan = stage.step()
    assert [back.job for back in plan.batch.returns] == [1]
    assert expired(plan) == [1] and plan.batch.begins == []


def test_a_retry_that_would_come_too_late_waits_for_nothing() -> None:
    stage = Late(rules=Rules(retry_first=3600.0))
    stage.join("w")
    stage.submit_by(5, 1)
    assert stage.begun() == [1]
    stage.finish(1, kind="error")
    plan = stage.step()
    assert [back.job for back in plan.batch.returns] == [1] and expired(plan) == []
    assert plan.wake_at is not None and plan.wake_at <= 1005.0
    assert expired(stage.step(5)) == [1]


def test_the_core_wakes_for_the_next_deadline() -> None:
    stage = Late()
    assert stage.step().wake_at is None
    stage.submit_by(9, 1)
    stage.submit_by(5, 2)
    assert stage.step().wake_at == pytest.approx(1005.0)
    assert stage.step(5).wake_at == pytest.approx(1009.0)
    assert stage.step(4).wake_at is None


def test_what_left_in_time_is_forgotten() -> None:
    stage = Late()
    stage.submit_by(5, 1, 2)
    stage.absorb(happened.CancelAsked("ticket", stage.arrivals[1], False))
    new = stage.arrivals[2]._replace(extras=Extras(deadline=WALL + 9 * SECOND))
    stage.absorb(happened.EditAsked("ticket", stage.arrivals[2], new, new.place, Rules()))
    plan = stage.step()
    assert [edit.extras for edit in plan.batch.edits] == [new.extras]
    assert expired(stage.step(5)) == []
    assert expired(stage.step(4)) == [2]
    assert not stage.core.world.tree.deadlines


def test_a_new_leader_goes_on_where_the_old_one_was() -> None:
    stage = Late()
    waits, runs = stage.arrival(1, 5), stage.arrival(2, 5)
    begun = Begun(2, 1, 0, 0, 0, (), Rules(), None, b"{}")
    stage.absorb(happened.Found(runs, begun, "w", "w", WALL, False))
    stage.absorb(happened.TakenIn([waits], [7]))
    stage.step()
    stage.absorb(happened.Loaded([waits, stage.arrival(3, 2)]))  # the first is seen twice
    assert expired(stage.step(3)) == [3]
    assert expired(stage.step(3)) == [1]
    stage.join("w")
    stage.attempts[2] = 1
    stage.finish(2, kind="error")
    assert expired(stage.step()) == [2]


def test_very_many_ends_are_written_with_several_plans_and_nothing_else_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(expiry, "MOST", 4)
    stage = Late()
    stage.submit_by(1, *range(1, 11))
    stage.submit_by(None, 11)
    stage.join("w", 20)
    stage.micros = SECOND
    plan = stage.step()
    assert expired(plan) == [1, 2, 3, 4]
    assert [begin.jobs for begin in plan.batch.begins] == [[11]]
    assert plan.wake_at == stage.now.mono
    late = explain(stage.core.world, stage.arrivals[9], stage.now.wall)
    assert late is not None and late.reason == "expired"
    stage.absorb(happened.Loaded([stage.arrivals[9]]))  # its row still waits
    assert [expired(stage.step()) for _ in range(3)] == [[5, 6, 7, 8], [9, 10], []]


@given(st.lists(st.tuples(st.integers(1, 20), st.integers(0, 10), st.booleans()), max_size=30), st.data())
@drawn(100)
def test_every_job_begins_before_its_deadline_or_expires_at_the_first_plan_after_it(
    drawn: list[tuple[int, int, bool]], data: st.DataObject
) -> None:
    stage = Late()
    stage.set("q", discipline=data.draw(st.sampled_from(sorted(DISCIPLINES))))
    stage.join("w", 2)
    for job, (deadline, delay, has) in enumerate(drawn, start=1):
        stage.submit_by(deadline + 0.5 if has else None, job, delay=min(delay, deadline))
    waiting = dict(stage.arrivals)
    for _ in range(25):
        plan = stage.step(1)
        stage.beat("w", *stage.live)
        late = [job for job, one in waiting.items() if one.extras and _deadline(one) <= stage.now.wall]
        assert sorted(expired(plan)) == late
        begun = [job for begin in plan.batch.begins for job in begin.jobs]
        for job in [*late, *begun]:
            del waiting[job]
        if stage.live and data.draw(st.booleans()):
            stage.finish(next(iter(stage.live)))


def _deadline(arrival: Arrival) -> int:
    assert arrival.extras is not None and arrival.extras.deadline is not None
    return arrival.extras.deadline


# --- the discipline --------------------------------------------------------------------------------------
def check(deadlines: list[int | None], served: list[int]) -> None:
    """Jobs 0, 1, 2... with these deadlines are served in this order."""
    stage = Late()
    stage.set("q", discipline="deadline")
    for job, deadline in enumerate(deadlines):
        stage.submit_by(deadline, job)
    world = stage.core.world
    queue = world.tree.grow("q")
    assert foresee(world.tree, queue, 100, stage.now) == served
    assert [position(world, stage.arrivals[job], stage.now.wall) for job in served] == list(
        range(len(served))
    )
    stage.join("w", 1)
    begun = []
    while jobs := stage.begun():
        begun += jobs
        stage.finish(*jobs)
    assert begun == served


def test_the_earliest_deadline_is_first() -> None:
    check([30, 10, 20], [1, 2, 0])


def test_those_without_a_deadline_are_last_by_place() -> None:
    check([None, 30, None, 10], [3, 1, 0, 2])


def test_equal_deadlines_are_served_in_the_order_they_came() -> None:
    check([10, 10, None, 10, 5], [4, 0, 1, 3, 2])


def test_behind_says_how_many_have_an_earlier_deadline() -> None:
    stage = Late()
    stage.set("q", discipline="deadline")
    stage.join("w", 1)
    stage.submit_by(None, 1)
    assert stage.begun() == [1]
    stage.submit_by(None, 2)
    stage.submit_by(50, 3)
    stage.submit_by(40, 4)
    stage.step()
    world = stage.core.world
    said = {job: explain(world, stage.arrivals[job], stage.now.wall) for job in (2, 3, 4)}
    assert [(why.reason, why.detail) for why in said.values() if why] == [
        ("behind", "behind 2 jobs of its queue"),
        ("behind", "behind 1 job of its queue"),
        ("busy", "all 1 slots that fit are taken; it is the next of its queue"),
    ]


def test_a_queue_that_becomes_one_by_deadline_knows_the_deadlines_of_its_backlog() -> None:
    stage = Late()
    for job, deadline in enumerate((None, 30, 10), start=1):
        stage.submit_by(deadline, job)
    tree = stage.core.world.tree
    for name, order in (
        ("deadline", [3, 2, 1]),
        ("fifo", [1, 2, 3]),
        ("sfq", [1, 2, 3]),
        ("deadline", [3, 2, 1]),
    ):
        stage.set("q", discipline=name)
        assert foresee(tree, tree.grow("q"), 9, stage.now) == order


def test_what_was_due_is_not_any_more_when_the_clock_is_set_back() -> None:
    discipline = Deadline(QueueSettings())
    for job, place in enumerate((10, 20, 30)):
        discipline.put(Arrival(job, "q", None, 0, Shape("cpu"), place, None, Extras(deadline=100 - job)))
    assert list(discipline.order(30, 9)) == [2, 1, 0]
    assert list(discipline.order(15, 9)) == [0]
    assert (discipline.due_count(25), discipline.next_due(25)) == (2, 30)
    assert discipline.offer(lambda shape: True, 5) is None


@pytest.mark.parametrize(("overflow", "dropped"), [("drop_oldest", 0), ("drop_newest", 3), ("reject", 3)])
def test_a_bound_counts_jobs_with_and_without_a_deadline(overflow: str, dropped: int) -> None:
    discipline = Deadline(QueueSettings(capacity=3, overflow=overflow))
    jobs = [
        Arrival(job, "q", None, 0, task("t"), job, None, Extras(deadline=9) if job % 2 else None)
        for job in range(4)
    ]
    for job in jobs[:3]:
        discipline.put(job)
        assert discipline.surplus(job) is None
    assert (discipline.refusal({None: 1}) is not None) == (overflow == "reject")
    discipline.put(jobs[3])
    surplus = discipline.surplus(jobs[3])
    assert surplus is not None and surplus.job == dropped
    assert discipline.remove(surplus) and len(discipline) == 3
