"""What people ask for, and what arrives: each answered with the plan that writes it, and only then."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fairway.core import events as happened
from fairway.core.lifecycle import State
from fairway.core.model import Held, QueueSettings, Rules
from fairway.core.plan import Begun, Plan, Reply

from .stage import Stage


def settings_of(plan: Plan) -> dict[str, Any]:
    """Return the queue rows a plan writes."""
    return {row.path: None if row.settings is None else json.loads(row.settings) for row in plan.batch.queues}


def cancel(stage: Stage, job: int, force: bool = False) -> None:
    stage.absorb(happened.CancelAsked("ticket", stage.arrivals[job], force))


# --- cancel ----------------------------------------------------------------------------------------------
def test_a_waiting_job_is_cancelled_at_once() -> None:
    stage = Stage()
    stage.submit(1)
    cancel(stage, 1)
    plan = stage.step()
    assert [(drop.job, drop.state) for drop in plan.batch.drops] == [(1, State.CANCELLED)]
    assert plan.replies == [Reply("ticket", "cancelled")]
    stage.join("w")
    assert stage.begun() == []


def test_a_running_job_is_marked_and_its_worker_told_once_and_again_if_forced() -> None:
    stage = Stage()
    stage.join("w")
    stage.submit(1)
    stage.step()
    cancel(stage, 1)
    plan = stage.step()
    assert [tuple(flag) for flag in plan.batch.flags] == [(1, 1, "w")]
    assert [(kill.job, kill.force) for kill in plan.kills] == [(1, False)]
    assert plan.replies == [Reply("ticket", "cancelling")]
    cancel(stage, 1)
    assert stage.step().kills == []
    cancel(stage, 1, force=True)
    plan = stage.step()
    assert [(kill.job, kill.force) for kill in plan.kills] == [(1, True)]
    assert plan.batch.flags == []


def test_a_cancel_of_a_job_that_moved_is_to_be_asked_again() -> None:
    stage = Stage()
    stage.submit(1)
    elsewhere = stage.arrivals[1]._replace(place=5)
    stage.absorb(happened.CancelAsked("ticket", elsewhere, False))
    plan = stage.step()
    assert plan.batch.drops == []
    assert [reply.error and reply.error[0] for reply in plan.replies] == ["moved"]


def test_a_cancelled_job_that_comes_back_does_not_run_again() -> None:
    stage = Stage()
    stage.join("w")
    stage.submit(1)
    stage.step()
    cancel(stage, 1)
    stage.absorb(happened.HandedBack("w", [Held(1, 1, False)]))
    plan = stage.step()
    assert [(end.jobs, end.state) for end in plan.batch.ends] == [([1], State.CANCELLED)]
    assert plan.batch.returns == []


@pytest.mark.parametrize("reason", ["cancelled", "dropped", "replaced"])
def test_a_job_that_ends_while_it_waits_is_told_of_with_the_reason_of_its_outcome(reason: str) -> None:
    stage = Stage()
    stage.set("q", capacity=1, overflow="drop_oldest")
    stage.submit(1)
    if reason == "cancelled":
        cancel(stage, 1)
    elif reason == "dropped":
        stage.submit(2)
    else:
        stage.absorb(happened.Replaced([stage.arrivals[1]]))
    batch = stage.step().batch
    [drop], [told] = batch.drops, [one for one in batch.news if one.kind == "job.ended"]
    assert (json.loads(drop.outcome or b"{}")["reason"], told.detail) == (reason, {"reason": reason})
    assert (list(told.jobs), told.queue, told.state) == ([1], "q", State.CANCELLED)


# --- edit ------------------------------------------------------------------------------------------------
def edit(stage: Stage, job: int, **changes: Any) -> Plan:
    old = stage.arrivals[job]
    new = old._replace(**changes)
    stage.absorb(happened.EditAsked("ticket", old, new, new.place, Rules(5)))
    stage.arrivals[job] = new
    return stage.step()


def test_a_waiting_job_moves_to_where_it_shall_stand() -> None:
    stage = Stage()
    stage.submit(1, 2)
    plan = edit(stage, 2, queue="new/place", priority=7)
    assert [(one.job, one.queue, one.priority, one.rules.max_attempts) for one in plan.batch.edits] == [
        (2, "new/place", 7, 5)
    ]
    assert {"new", "new/place"} <= settings_of(plan).keys()
    assert plan.replies == [Reply("ticket", "edited")]
    tree = stage.core.world.tree
    assert (tree.grow("q").waiting, tree.grow("new").waiting) == (1, 1)


@pytest.mark.parametrize(("running", "code"), [(True, "running"), (False, "moved")])
def test_what_does_not_wait_there_cannot_be_edited(running: bool, code: str) -> None:
    stage = Stage()
    stage.submit(1)
    if running:
        stage.join("w")
        stage.step()
    else:
        stage.arrivals[1] = stage.arrivals[1]._replace(place=5)
    plan = edit(stage, 1, priority=3)
    assert plan.batch.edits == []
    assert [reply.error and reply.error[0] for reply in plan.replies] == [code]


# --- queues ----------------------------------------------------------------------------------------------
def test_a_queue_is_written_with_its_parents_at_its_first_job_and_not_again() -> None:
    stage = Stage()
    stage.submit(1, queue="a/b/c")
    assert settings_of(stage.step()) == {"a": {}, "a/b": {}, "a/b/c": {}}
    stage.submit(2, queue="a/b/c")
    assert settings_of(stage.step()) == {}


def test_settings_are_changed_one_by_one_or_replaced() -> None:
    stage = Stage()
    stage.set("q", limit=3)
    stage.set("q", paused=True)
    assert settings_of(stage.step())["q"] == {"limit": 3, "paused": True}
    stage.absorb(happened.QueueAsked("ticket", "q", {"discipline": "fifo"}, True))
    assert settings_of(stage.step())["q"] == {"discipline": "fifo"}


def test_a_job_may_bring_its_queues_limit_and_the_last_one_wins() -> None:
    stage = Stage()
    stage.submit(1, 2, 3)
    jobs = [
        stage.arrivals[1]._replace(job=4, concurrency=5),
        stage.arrivals[1]._replace(job=5, concurrency=2),
    ]
    stage.absorb(happened.TakenIn(jobs, [10, 11]))
    plan = stage.step()
    assert plan.batch.taken == [10, 11]
    assert settings_of(plan)["q"] == {"limit": 2}
    stage.join("w", 9)
    assert len(stage.begun()) == 2


def test_only_an_empty_queue_can_be_dropped() -> None:
    stage = Stage()
    stage.submit(1, queue="a/b")
    for path, code in (("a", "not_empty"), ("a/b", "not_empty"), ("x", "not_found"), ("", "not_found")):
        stage.absorb(happened.QueueDropAsked("ticket", path))
        assert [reply.error and reply.error[0] for reply in stage.step().replies] == [code]
    cancel(stage, 1)
    stage.absorb(happened.QueueDropAsked("ticket", "a/b"))
    assert settings_of(stage.step())["a/b"] is None


def test_a_new_leader_finds_the_settings_as_they_were() -> None:
    stage = Stage()
    stage.absorb(happened.QueueFound("q", {"limit": 1, "paused": False, "discipline": "none of ours"}))
    queue = stage.core.world.tree.grow("q")
    assert queue.settings == QueueSettings(limit=1, discipline="none of ours"), "it may be a plug-in's"
    assert queue.own.name == "priority"


# --- arrivals ----------------------------------------------------------------------------------------------
def test_a_job_seen_twice_while_loading_waits_once() -> None:
    stage = Stage()
    stage.submit(1)
    arrival = stage.arrivals[1]
    stage.absorb(happened.Loaded([arrival]))
    stage.absorb(happened.TakenIn([arrival], [7]))
    assert stage.core.world.tree.root.waiting == 1
    stage.join("w", 2)
    assert stage.begun() == [1]
    stage.absorb(happened.Loaded([arrival]))
    assert stage.begun() == []


@pytest.mark.parametrize("begun", [True, False])
def test_a_submission_the_store_refused_leaves_nothing_behind(begun: bool) -> None:
    stage = Stage()
    if begun:
        stage.join("w")
    stage.submit(1)
    stage.core.plan(stage.now)
    stage.absorb(happened.Refused([stage.arrivals[1]]))
    tree = stage.core.world.tree
    assert (tree.root.waiting, tree.root.in_use, stage.live) == (0, 0, {})
    assert not begun or stage.workers["w"].free == 1_000_000_000


def test_a_running_attempt_that_a_new_leader_finds_counts_at_once() -> None:
    stage = Stage()
    stage.submit(1)
    fresh = Stage()
    fresh.absorb(happened.QueueFound("q", {"limit": 1}))
    begun = Begun(1, 4, 0, 2, 1, (), stage.rules, None, b"")
    fresh.absorb(happened.Found(stage.arrivals[1], begun, "w", "w", 0, False))
    fresh.join("w", 9, holds=(Held(1, 4),))
    fresh.submit(2)
    assert fresh.begun() == []
    fresh.finish(1)
    assert fresh.begun() == [2]


def test_a_revived_job_waits_again() -> None:
    stage = Stage()
    stage.join("w")
    stage.submit(1)
    stage.step()
    stage.finish(1)
    stage.absorb(happened.ReviveAsked(1))
    assert [record.job for record in stage.step().batch.revives] == [1]
    stage.absorb(happened.Revived(stage.arrivals[1]))
    assert stage.begun() == [1]


def test_a_revived_job_is_not_set_aside_any_more_and_a_cancel_takes_it_out_of_its_line() -> None:
    stage = Stage()
    stage.submit(1)
    cancel(stage, 1)
    stage.step()
    stage.core.world.aside = {1}
    stage.absorb(happened.Revived(stage.arrivals[1]))
    assert not stage.core.world.aside
    cancel(stage, 1)
    assert [drop.job for drop in stage.step().batch.drops] == [1]
    stage.join("w")
    assert stage.begun() == []


# --- workers -----------------------------------------------------------------------------------------------
def test_a_worker_is_attached_to_other_queues_live() -> None:
    stage = Stage()
    stage.join("w", queues=("other",))
    stage.submit(1)
    assert stage.begun() == []
    stage.absorb(happened.WorkerAsked("ticket", "w", ("q",), None))
    assert stage.begun() == [1]


def test_a_worker_that_drains_gets_no_more() -> None:
    stage = Stage()
    stage.join("w")
    stage.absorb(happened.Drained("w"))
    stage.submit(1)
    assert stage.begun() == []


def steers(plan: Plan) -> list[tuple[object, ...]]:
    return [one[1:] for one in plan.steers]


def test_what_a_worker_is_given_it_is_told() -> None:
    stage = Stage()
    stage.join("w")
    stage.absorb(happened.WorkerAsked("ticket", "w", ("q",), True, 3, 30.0))
    assert steers(stage.step()) == [(3, ("q",), True, 30.0)]
    stage.absorb(happened.WorkerAsked("ticket", "w", None, False))
    assert steers(stage.step()) == [(None, None, False, None)]


def test_slots_change_live_and_fewer_of_them_stop_nothing() -> None:
    stage = Stage()
    stage.join("w", 1)
    stage.submit(1, 2, 3, 4)
    assert stage.begun() == [1]
    stage.absorb(happened.WorkerAsked("ticket", "w", None, None, 3))
    assert stage.begun() == [2, 3]
    stage.absorb(happened.WorkerAsked("ticket", "w", None, None, 2))
    plan = stage.step()
    assert not plan.kills and not plan.batch.begins and sorted(stage.live) == [1, 2, 3]
    stage.finish(1)
    assert stage.begun() == []
    stage.finish(2)
    assert stage.begun() == [4]


def test_a_worker_that_comes_back_without_it_is_told_again() -> None:
    stage = Stage()
    stage.join("w", 1)
    stage.absorb(happened.Left("w"))
    stage.absorb(happened.WorkerAsked("ticket", "w", ("q",), True, 3, 30.0))
    stage.step(10.0)
    stage.join("w", 1)
    assert steers(stage.step()) == [(3, ("q",), True, 20.0)]
    assert stage.workers["w"].spec.slots == 3 and stage.workers["w"].draining
    stage.join("w", 3, queues=("q",), draining=True)  # it has heard
    assert steers(stage.step()) == []


def test_a_deadline_that_was_set_while_a_draining_worker_was_away_is_told() -> None:
    stage = Stage()
    stage.join("w", 1)
    stage.absorb(happened.WorkerAsked("ticket", "w", None, True))
    stage.step()
    stage.absorb(happened.Left("w"))
    stage.absorb(happened.WorkerAsked("ticket", "w", None, True, None, 60.0))
    stage.step(10.0)
    stage.join("w", 1, draining=True)
    assert steers(stage.step()) == [(None, None, True, 50.0)]


def test_a_new_leader_hears_from_the_worker_itself_that_it_drains() -> None:
    stage = Stage()
    stage.join("w", draining=True)
    stage.submit(1)
    assert stage.begun() == [] and steers(stage.step()) == []
    stage.absorb(happened.WorkerAsked("ticket", "w", None, False))
    assert stage.begun() == [1]


def test_a_worker_that_closes_drains_although_somebody_resumed_it_before() -> None:
    stage = Stage()
    stage.join("w")
    stage.absorb(happened.WorkerAsked("ticket", "w", None, False))
    stage.absorb(happened.Drained("w"))
    stage.join("w", draining=True)
    stage.submit(1)
    plan = stage.step()
    assert not plan.batch.begins and steers(plan)[1:] == []  # the one it was resumed with


def test_a_worker_nobody_knows_cannot_be_changed() -> None:
    stage = Stage()
    stage.absorb(happened.WorkerAsked("ticket", "w", None, True))
    assert [reply.error and reply.error[0] for reply in stage.step().replies] == ["not_found"]
