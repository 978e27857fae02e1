"""Jobs that wait for others: released, doomed, cancelled, moved, asked about."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from fairway.core import events as happened
from fairway.core.explain import explain, position
from fairway.core.lifecycle import State
from fairway.core.model import DEFAULT_RULES, Arrival, Extras
from fairway.core.naming import show
from fairway.core.plan import Plan, Reply

from .stage import COMMAND, Stage


def block(
    stage: Stage, job: int, *after: int, if_failed: str = "fail", queue: str = "q", delay: float = 0.0,
    ended: dict[int, State | None] | None = None,
) -> Arrival:  # fmt: skip
    """Take in a job that waits for others, some of which have ended before."""
    arrival = waiting_for(stage, job, *after, if_failed=if_failed, queue=queue, delay=delay)
    stage.absorb(happened.TakenIn([arrival], [job], ended or {}))
    return arrival


def waiting_for(
    stage: Stage, job: int, *after: int, if_failed: str = "fail", queue: str = "q", delay: float = 0.0
) -> Arrival:
    place = stage.now.wall + int(delay * 1e6)
    extras = Extras(after=after, if_failed=if_failed)
    stage.arrivals[job] = Arrival(job, queue, None, 0, COMMAND, place, None, extras, True)
    return stage.arrivals[job]


def doomed(plan: Plan) -> dict[int, str]:
    """Return the jobs that a plan fails because of others, and what is said of each."""
    failed = [drop for drop in plan.batch.drops if drop.state == "failed"]
    errors = {drop.job: json.loads(drop.outcome or b"{}") for drop in failed}
    assert all(error["reason"] == "dependency" for error in errors.values())
    return {job: error["message"] for job, error in errors.items()}


def doomed_by(plan: Plan, job: int) -> str:
    [drop] = [drop for drop in plan.batch.drops if drop.job == job]
    return str(json.loads(drop.outcome or b"{}")["message"])


def unblocked(plan: Plan) -> list[int]:
    return [one.job for one in plan.batch.unblocks]


def running(*jobs: int) -> Stage:
    """Return a stage on which these jobs run and one slot is free."""
    stage = Stage()
    stage.join("w", len(jobs) + 1)
    stage.submit(*jobs)
    assert stage.begun() == list(jobs)
    return stage


def nobody_waits(stage: Stage) -> bool:
    return not stage.core.world.blocked and not stage.core.world.awaited


# --- released ------------------------------------------------------------------------------------------
def test_it_begins_in_the_same_commit_in_which_the_last_of_them_ends() -> None:
    stage = running(1, 2)
    block(stage, 9, 1, 2)
    assert stage.begun() == []
    stage.finish(1)
    assert unblocked(stage.step()) == []
    stage.finish(2)
    plan = stage.step()
    assert [end.jobs for end in plan.batch.ends] == [[2]]
    assert unblocked(plan) == [9] and [begin.jobs for begin in plan.batch.begins] == [[9]]
    kinds = [news.kind for news in plan.batch.news]
    assert kinds.index("job.ended") < kinds.index("job.unblocked")
    assert nobody_waits(stage)


def test_it_is_released_when_its_dependency_ends_in_the_plan_that_takes_it_in() -> None:
    stage = running(1)
    stage.finish(1)
    block(stage, 9, 1)
    assert stage.begun() == [9]


def test_what_had_ended_before_it_came_counts() -> None:
    stage = running(1)
    block(stage, 9, 1, 7, ended={7: State.SUCCEEDED})
    assert stage.begun() == []
    stage.finish(1)
    assert stage.begun() == [9]


def test_its_own_time_still_counts_and_its_place_is_when_it_was_released() -> None:
    stage = running(1)
    block(stage, 8, 1)
    late = block(stage, 9, 1, delay=60.0)
    stage.step(1.0)
    stage.finish(1)
    plan = stage.step()
    assert plan.batch.unblocks == [(8, stage.now.wall), (9, late.place)]
    assert [(n.jobs[0], n.state) for n in plan.batch.news if n.kind == "job.unblocked"] == [
        (8, State.QUEUED),
        (9, State.SCHEDULED),
    ]
    assert stage.begun(30.0) == []
    stage.finish(8)
    assert stage.begun(31.0) == [9]


def test_ten_thousand_wait_for_one_and_one_for_ten_thousand() -> None:
    stage = running(1)
    many = range(100, 10_100)
    stage.absorb(happened.TakenIn([waiting_for(stage, job, 1, queue="many") for job in many], list(many)))
    block(stage, 99, *many)
    stage.finish(1)
    assert unblocked(stage.step()) == list(many)
    assert list(stage.core.world.blocked) == [99]
    done: dict[int, State | None] = dict.fromkeys(many, State.SUCCEEDED)
    stage.absorb(happened.TakenIn([], [], done))
    assert unblocked(stage.step()) == [99]
    assert nobody_waits(stage)


# --- doomed ----------------------------------------------------------------------------------------------
def test_a_failure_fails_those_who_wait_and_those_who_wait_for_them() -> None:
    stage = running(1)
    for job in range(10, 3000):  # no recursion would get that far
        block(stage, job, 1 if job == 10 else job - 1)
    block(stage, 5000, 2999, if_failed="run")
    stage.finish(1, kind="permanent")
    plan = stage.step()
    assert list(doomed(plan)) == list(range(10, 3000))
    assert doomed(plan)[10] == f"job {show(1)}, for which it waited, failed"
    assert unblocked(plan) == [5000]
    assert nobody_waits(stage)


@pytest.mark.parametrize(
    ("state", "said"),
    [(State.FAILED, "failed"), (State.CANCELLED, "was cancelled"), (None, "is not known any more")],
)
def test_what_did_not_end_well_before_it_came_fails_it(state: State | None, said: str) -> None:
    stage = running(1)
    block(stage, 9, 1, 7, ended={7: state})
    block(stage, 10, 1, 7, ended={7: state}, if_failed="run")
    assert doomed(stage.step()) == {9: f"job {show(7)}, for which it waited, {said}"}
    stage.finish(1)
    assert stage.begun() == [10]


def test_jobs_that_are_taken_in_together_may_fail_each_other_in_any_order() -> None:
    for order in ((10, 11, 12), (12, 11, 10)):
        stage = Stage()
        chain = {10: 7, 11: 10, 12: 11}
        arrivals = [waiting_for(stage, job, chain[job]) for job in order]
        stage.absorb(happened.TakenIn(arrivals, list(order), {7: State.FAILED}))
        assert sorted(doomed(stage.step())) == [10, 11, 12]
        assert nobody_waits(stage)


def test_a_job_of_which_nobody_knows_how_it_went_is_waited_for_until_somebody_says() -> None:
    for said, begins, fails in ((State.SUCCEEDED, [8, 9], []), (State.FAILED, [9], [8])):
        stage = running(1)
        block(stage, 8, 7, ended={7: State.UNKNOWN})
        block(stage, 9, 7, ended={7: State.UNKNOWN}, if_failed="run")
        stage.join("w2")
        assert stage.begun() == []
        stage.absorb(happened.Resolved(7, said))
        plan = stage.step()
        assert [job for begin in plan.batch.begins for job in begin.jobs] == begins
        assert list(doomed(plan)) == fails


def test_what_is_cancelled_or_given_up_fails_those_who_wait() -> None:
    stage = Stage()
    stage.set("q", capacity=1, overflow="drop_oldest")
    stage.submit(1)
    block(stage, 8, 1)
    block(stage, 9, 2)
    stage.submit(2)  # 1 makes room
    assert doomed(stage.step()) == {8: f"job {show(1)}, for which it waited, was cancelled"}
    stage.absorb(happened.CancelAsked("ticket", stage.arrivals[2], False))
    plan = stage.step()
    assert [(drop.job, drop.state) for drop in plan.batch.drops] == [(2, "cancelled"), (9, "failed")]


def test_a_deadline_counts_while_it_waits_for_others_and_its_end_is_heard_by_those_behind_it() -> None:
    stage = running(1)
    extras = Extras(deadline=stage.now.wall + 2_000_000, after=(1,))
    arrival = waiting_for(stage, 8, 1)._replace(extras=extras)
    stage.absorb(happened.TakenIn([arrival], [1]))
    block(stage, 9, 8)
    assert stage.step(1.0).batch.drops == []
    stage.finish(1)  # at the very time
    plan = stage.step(1.0)
    assert [drop.job for drop in plan.batch.drops] == [8, 9]
    assert b'"expired"' in (plan.batch.drops[0].outcome or b"")
    assert doomed_by(plan, 9) == f"job {show(8)}, for which it waited, failed"
    assert plan.batch.unblocks == [] and nobody_waits(stage)


def test_a_deadline_counts_after_it_was_released_and_can_be_moved_before() -> None:
    stage = running(1)
    stage.set("q", limit=1)
    extras = Extras(deadline=stage.now.wall + 2_000_000, after=(1,))
    arrivals = [waiting_for(stage, job, 1)._replace(extras=extras) for job in (7, 8, 9)]
    stage.absorb(happened.TakenIn(arrivals, [1, 2, 3]))
    last = arrivals[2]
    later = last._replace(extras=replace(extras, deadline=stage.now.wall + 60_000_000), blocked=False)
    stage.absorb(happened.EditAsked("ticket", last, later, later.place, DEFAULT_RULES))
    stage.finish(1)
    assert stage.begun() == [7]
    stage.finish(7)
    plan = stage.step(5.0)
    assert [drop.job for drop in plan.batch.drops] == [8]
    assert [begin.jobs for begin in plan.batch.begins] == [[9]]


# --- taken over -----------------------------------------------------------------------------------------
def test_a_job_that_is_both_taken_in_and_loaded_is_there_once() -> None:
    for ended in ({}, {7: State.SUCCEEDED}, {7: State.FAILED}):
        stage = Stage()
        stage.join("w")
        arrival = waiting_for(stage, 9, 7)
        stage.absorb(happened.TakenIn([arrival], [1], ended))
        stage.absorb(happened.Loaded([arrival], ended))
        plan = stage.step()
        assert len(plan.batch.unblocks) + len(plan.batch.drops) == len(ended)
        assert len(stage.core.world.blocked) == 1 - len(ended)


# --- what people do ---------------------------------------------------------------------------------------
def test_a_blocked_job_is_cancelled_at_once_and_fails_those_who_wait_for_it() -> None:
    stage = running(1)
    arrival = block(stage, 8, 1)
    block(stage, 9, 8)
    stage.absorb(happened.CancelAsked("ticket", arrival, True))
    plan = stage.step()
    assert [(drop.job, drop.state) for drop in plan.batch.drops] == [(8, "cancelled"), (9, "failed")]
    assert Reply("ticket", "cancelled") in plan.replies
    assert nobody_waits(stage)
    stage.finish(1)
    assert unblocked(stage.step()) == []


def test_a_blocked_job_can_be_moved_and_is_released_where_it_was_moved_to() -> None:
    stage = running(1)
    old = block(stage, 9, 1)
    new = old._replace(queue="other", priority=5, blocked=False)
    stage.absorb(happened.EditAsked("ticket", old, new, new.place, DEFAULT_RULES))
    plan = stage.step()
    assert [(edit.job, edit.queue) for edit in plan.batch.edits] == [(9, "other")]
    assert [(news.kind, news.state) for news in plan.batch.news] == [
        ("job.submitted", State.BLOCKED),
        ("job.edited", State.BLOCKED),
    ]
    late = happened.EditAsked("late", old, new, new.place, DEFAULT_RULES)  # of what was read before the first
    stage.absorb(late)
    assert [reply.error and reply.error[0] for reply in stage.step().replies] == ["moved"]
    stage.finish(1)
    assert [(begin.jobs, begin.queue) for begin in stage.step().batch.begins] == [([9], "other")]


def test_one_that_is_released_by_this_very_plan_is_moved_by_the_next_one() -> None:
    stage = Stage()
    old = block(stage, 9, 7, ended={7: State.SUCCEEDED}, delay=60.0)
    stage.absorb(happened.EditAsked("ticket", old, old._replace(queue="other"), old.place, DEFAULT_RULES))
    assert [reply.error and reply.error[0] for reply in stage.step().replies] == ["moved"]


def test_a_queue_with_blocked_jobs_is_not_empty() -> None:
    stage = running(1)
    block(stage, 9, 1, queue="later")
    stage.absorb(happened.QueueDropAsked("ticket", "later"))
    [reply] = stage.step().replies
    assert reply.error is not None and reply.error[0] == "not_empty" and "1 blocked" in reply.error[1]


def test_why_it_waits_names_the_first_that_has_not_ended() -> None:
    stage = running(1, 2, 3)
    arrival = block(stage, 9, 1, 2, 3, delay=60.0)
    for ends, said in ((None, "1 and 2 others"), (1, "2 and 1 other"), (2, "3")):
        if ends is not None:
            stage.finish(ends)
        stage.step()
        why = explain(stage.core.world, arrival, stage.now.wall)
        first, _, rest = said.partition(" ")
        assert why is not None and (why.reason, why.on) == ("blocked", show(int(first)))
        assert why.detail == f"waits for job {show(int(first))}{' ' + rest if rest else ''} to end"
        assert position(stage.core.world, arrival, stage.now.wall) is None
    stage.finish(3)
    stage.step()
    why = explain(stage.core.world, arrival._replace(blocked=False), stage.now.wall)
    assert why is not None and why.reason == "not_due"


def test_blocked_jobs_do_not_count_for_a_queue_s_bounds() -> None:
    stage = running(1)
    stage.set("q", capacity=1, overflow="drop_newest")
    for job in (7, 8, 9):
        block(stage, job, 1)
    stage.submit(2)
    stage.step()
    stage.finish(1, 2)
    plan: Any = stage.step()
    assert unblocked(plan) == [7, 8, 9] and plan.batch.drops == []


# --- replaced ------------------------------------------------------------------------------------------
def test_a_blocked_job_that_is_replaced_ends_once_and_is_not_released() -> None:
    stage = running(1)
    older = block(stage, 9, 1)
    block(stage, 10, 9)
    stage.step()
    stage.absorb(happened.Replaced([older]))
    stage.finish(1)
    plan = stage.step()
    assert [(drop.job, drop.state) for drop in plan.batch.drops] == [(9, "cancelled"), (10, "failed")]
    assert unblocked(plan) == [] and plan.batch.begins == [] and nobody_waits(stage)


def test_a_blocked_job_that_is_replaced_has_no_deadline_any_more() -> None:
    stage = running(1)
    older = waiting_for(stage, 9, 1)
    assert older.extras is not None
    older = older._replace(extras=replace(older.extras, deadline=stage.now.wall + 1_000_000))
    stage.absorb(happened.TakenIn([older], [9], {}))
    stage.step()
    stage.absorb(happened.Replaced([older]))
    assert [drop.state for drop in stage.step(5.0).batch.drops] == ["cancelled"]
    assert stage.step(5.0).batch.drops == []


def test_those_who_wait_for_a_running_job_that_is_replaced_hear_of_its_end() -> None:
    stage = running(1)
    block(stage, 9, 1)
    stage.step()
    stage.absorb(happened.Replaced([stage.arrivals[1]]))
    assert stage.step().batch.drops == []
    stage.finish(1, kind="error")
    plan = stage.step()
    assert [(end.jobs, end.state) for end in plan.batch.ends] == [([1], State.CANCELLED)]
    assert plan.batch.returns == [] and list(doomed(plan)) == [9]
