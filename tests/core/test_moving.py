"""A branch that is moved: closed at once, emptied page by page, gone at the end; and changes of settings."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fairway.core import events as happened
from fairway.core.explain import explain
from fairway.core.model import Extras
from fairway.core.plan import Plan, Reply

from .stage import Stage


def move(stage: Stage, path: str, to: str, rename: bool = True) -> Plan:
    """Ask for a move, and return the plan that begins it."""
    stage.absorb(happened.MoveAsked("ticket", path, to, "op", rename, "ann"))
    return stage.step()


def page(stage: Stage, path: str, *jobs: int) -> Plan:
    """Hand in a page of jobs as the store saw them."""
    stage.absorb(happened.PageAsked("page", path, [stage.arrivals[job] for job in jobs]))
    return stage.step()


def over(stage: Stage, path: str) -> Plan:
    """Ask whether a move is over."""
    stage.absorb(happened.MoveOverAsked("over", path))
    return stage.step()


def moves(plan: Plan) -> list[tuple[list[int], str]]:
    return [(sorted(one.jobs), one.queue) for one in plan.batch.moves]


def rows(plan: Plan) -> dict[str, Any]:
    return {row.path: row.settings and json.loads(row.settings) for row in plan.batch.queues}


def changes(plan: Plan) -> list[tuple[str, str, Any, Any]]:
    def read(settings: bytes | None) -> Any:
        return None if settings is None else json.loads(settings)

    return [(one.path, one.who, read(one.old), read(one.new)) for one in plan.batch.changes]


def set_by(stage: Stage, path: str, who: str, **settings: Any) -> Plan:
    stage.absorb(happened.QueueAsked("ticket", path, settings, False, who))
    return stage.step()


def queues(stage: Stage) -> dict[str, tuple[int, int]]:
    """Return what waits and runs in each queue."""
    return {path: (one.waiting, one.in_use) for path, one in stage.core.world.tree.queues.items() if path}


# --- who changed what ------------------------------------------------------------------------------------
def test_every_change_is_written_down_with_who_did_it() -> None:
    stage = Stage()
    assert changes(set_by(stage, "q", "ann", limit=3)) == [("q", "ann", None, {"limit": 3})]
    plan = set_by(stage, "q", "bob", limit=None, weight=2.0)
    assert changes(plan) == [("q", "bob", {"limit": 3}, {"weight": 2.0})]
    [told] = [one for one in plan.batch.news if one.kind == "queue.changed"]
    assert told.detail == {"weight": 2.0, "by": "bob"}
    stage.absorb(happened.QueueDropAsked("ticket", "q", "cat"))
    assert changes(stage.step()) == [("q", "cat", {"weight": 2.0}, None)]


def test_what_changes_nothing_and_rows_of_first_jobs_are_no_changes() -> None:
    stage = Stage()
    stage.submit(1, queue="acme/q")
    plan = stage.step()
    assert rows(plan) == {"acme/q": {}, "acme": {}}
    assert changes(plan) == []
    assert changes(set_by(stage, "acme/q", "ann", limit=None)) == []


def test_a_limit_that_comes_with_a_job_is_the_jobs_change() -> None:
    stage = Stage()
    stage.submit(1)
    stage.step()
    stage.absorb(happened.TakenIn([stage.arrivals[1]._replace(job=33, concurrency=2)], [1]))
    assert changes(stage.step()) == [("q", "job 0000000000011", {}, {"limit": 2})]


# --- many at once ----------------------------------------------------------------------------------------
def test_settings_of_many_queues_are_judged_together() -> None:
    stage = Stage()
    wanted = {"acme/a": {"assured": 2}, "acme": {"assured": 3, "limit": 4}}
    stage.absorb(happened.QueuesAsked("ticket", wanted, False, "ann"))
    plan = stage.step()
    assert rows(plan) == {"acme": {"assured": 3, "limit": 4}, "acme/a": {"assured": 2}}
    assert [path for path, *_ in changes(plan)] == ["acme", "acme/a"]
    stage.absorb(happened.QueuesAsked("ticket", wanted, False, "ann"))
    plan = stage.step()
    assert plan.replies == [Reply("ticket", [])]
    assert not plan.batch


def test_one_refusal_leaves_all_as_they_were() -> None:
    stage = Stage()
    wanted = {"a": {"limit": 1}, "b/c": {"assured": 2}}
    stage.absorb(happened.QueuesAsked("ticket", wanted, False, "ann"))
    plan = stage.step()
    [reply] = plan.replies
    assert reply.error is not None and "'b/c'" in reply.error[1]
    assert reply.field == "queues.b/c.assured"
    assert not plan.batch
    assert queues(stage) == {}


def test_a_dry_run_says_what_would_change_and_leaves_nothing() -> None:
    stage = Stage()
    stage.absorb(happened.QueuesAsked("ticket", {"a/b": {"limit": 1}, "a": {}}, True, "ann"))
    plan = stage.step()
    [_, change] = plan.replies[0].value
    assert (change.path, change.old, change.new) == ("a/b", None, b'{"limit": 1}')
    assert not plan.batch
    assert queues(stage) == {}


# --- rename ----------------------------------------------------------------------------------------------
def test_a_rename_takes_settings_and_attempts_along_and_jobs_in_pages() -> None:
    stage = Stage()
    stage.join("w", 2)
    set_by(stage, "old", "ann", limit=2)
    set_by(stage, "old/a", "ann", weight=3.0)
    stage.submit(1, 2, 3, 4, queue="old/a")
    stage.step()
    plan = move(stage, "old", "new/x")
    assert plan.replies == [Reply("ticket", "op")]
    assert moves(plan) == [([1, 2], "new/x/a")]
    written = rows(plan)
    assert (written["new/x"], written["new/x/a"]) == ({"limit": 2}, {"weight": 3.0})
    assert written["old"]["moving"]["to"] == "new/x"
    assert written["old/a"] is None
    assert queues(stage)["new/x"] == (0, 2)
    assert queues(stage)["old"] == (2, 0)
    plan = page(stage, "old", 3, 4)
    assert moves(plan) == [([3, 4], "new/x/a")]
    assert plan.replies == [Reply("page", 2)]
    assert plan.batch.begins == [], "two run already, which is the limit"
    plan = over(stage, "old")
    assert plan.replies == [Reply("over", True)]
    assert rows(plan) == {"old": None}
    [(path, who, before, after)] = changes(plan)
    assert (path, who, before["moving"]["operation"], after) == ("old", "ann", "op", None)
    assert set(queues(stage)) == {"new", "new/x", "new/x/a"}
    stage.finish(1)
    plan = stage.step()
    assert [end.queue for end in plan.batch.ends] == ["new/x/a"]
    assert [begin.queue for begin in plan.batch.begins] == ["new/x/a"]


def test_a_branch_that_is_closed_keeps_its_disciplines() -> None:
    """A new one would have to be filled with all that waits, which nobody has the time for."""
    stage = Stage()
    set_by(stage, "old", "ann", discipline="sfq", limit=2)
    set_by(stage, "old/a", "ann", discipline="fifo", weight=2.0)
    stage.submit(1, queue="old/a")
    stage.submit(2, queue="old")
    stage.step()
    before = {path: stage.core.world.tree.queues[path].own for path in ("old", "old/a")}
    move(stage, "old", "new")
    assert {path: stage.core.world.tree.queues[path].own for path in before} == before
    assert stage.core.world.tree.queues["old"].settings.limit is None
    page(stage, "old", 1, 2)
    plan = over(stage, "old")
    assert plan.replies == [Reply("over", True)]
    assert [path for path, *_ in changes(plan)] == ["old"]


def test_nothing_begins_in_a_branch_that_is_being_moved() -> None:
    stage = Stage()
    stage.submit(1, 2, queue="old")
    stage.step()
    move(stage, "old", "new")
    stage.join("w", 2)
    assert stage.begun() == []
    why = explain(stage.core.world, stage.arrivals[1], stage.now.wall)
    assert why is not None and (why.reason, why.on) == ("moving", "old")
    stage.absorb(happened.PageAsked("page", "old", [stage.arrivals[2]]))
    assert stage.begun() == [2]


def test_a_job_that_comes_for_the_old_branch_is_sent_on() -> None:
    stage = Stage()
    stage.submit(1, queue="old")
    stage.step()
    move(stage, "old", "new")
    stage.submit(2, queue="old/b")
    plan = stage.step()
    assert moves(plan) == [([2], "new/b")]
    late = stage.arrivals[1]._replace(job=3)
    stage.absorb(happened.TakenIn([late], [1]))
    assert moves(stage.step()) == [([3], "new")]
    stage.absorb(happened.Refused([stage.arrivals[2]]))
    assert queues(stage)["new"] == (1, 0), "only job 3: job 2 was never stored"


def test_a_job_that_is_not_where_the_store_saw_it_is_passed_over() -> None:
    stage = Stage()
    stage.submit(1, 2, queue="old")
    stage.step()
    move(stage, "old", "new")
    gone = stage.arrivals[1]
    stage.absorb(happened.CancelAsked("ticket", gone, False))
    plan = page(stage, "old", 1, 2)
    assert moves(plan) == [([2], "new")]
    assert moves(page(stage, "old", 2)) == []


def test_a_branch_is_kept_until_nothing_waits_or_runs_there() -> None:
    stage = Stage()
    stage.join("w", 1)
    stage.submit(1, 2, queue="old")
    stage.step()
    plan = move(stage, "old", "other", rename=False)
    assert moves(plan) == [], "what runs ends where it began"
    assert over(stage, "old").replies == [Reply("over", False)]
    page(stage, "old", 2)
    assert over(stage, "old").replies == [Reply("over", False)], "one still runs"
    stage.finish(1, kind="error")
    [back] = stage.step().batch.returns
    assert over(stage, "old").replies == [Reply("over", False)], "it waits there for its retry"
    stage.arrivals[1] = stage.arrivals[1]._replace(place=back.place)
    assert moves(page(stage, "old", 1)) == [([1], "other")]
    assert over(stage, "old").replies == [Reply("over", True)]
    assert set(queues(stage)) == {"other"}


@pytest.mark.parametrize(
    ("path", "to", "rename", "code"),
    [
        ("none", "x", True, "not_found"),
        ("old", "taken", True, "exists"),
        ("old", "old/a", True, "invalid"),
        ("old", "old", False, "invalid"),
        ("old", "1/2/3/4/5/6/7/8", True, "invalid"),
        ("moving", "x", True, "moving"),
        ("moved", "x", True, "moving"),
        ("old", "moving/a", False, "moving"),
        ("kept/a", "poor/a", True, "invalid"),
        ("kept", "poor/k", True, "invalid"),
    ],
)
def test_what_cannot_be_moved_is_refused_and_nothing_changes(
    path: str, to: str, rename: bool, code: str
) -> None:
    stage = Stage()
    for number, queue in enumerate(("old/a", "taken", "moving", "poor/b", "kept/a"), start=1):
        stage.submit(number, queue=queue)
    stage.set("kept", assured=2)
    stage.set("kept/a", assured=2)
    move(stage, "moving", "moved")
    before = queues(stage)
    plan = move(stage, path, to, rename)
    [reply] = plan.replies
    assert reply.error is not None and reply.error[0] == code
    assert not plan.batch
    assert queues(stage) == before


def test_asked_twice_it_is_the_same_move() -> None:
    stage = Stage()
    stage.submit(1, queue="old")
    move(stage, "old", "new")
    stage.absorb(happened.MoveAsked("ticket", "old", "new", "another", True, "bob"))
    plan = stage.step()
    assert plan.replies == [Reply("ticket", "op")]
    assert not plan.batch


def test_settings_of_a_branch_that_is_being_moved_cannot_be_changed() -> None:
    stage = Stage()
    stage.submit(1, queue="old/a")
    move(stage, "old", "new")
    for ask in (
        happened.QueueAsked("ticket", "old/a", {"limit": 1}, False),
        happened.QueueAsked("ticket", "old", {"paused": False}, False),
        happened.QueuesAsked("ticket", {"old": {}}, False),
    ):
        stage.absorb(ask)
        plan = stage.step()
        assert plan.replies[0].error is not None and plan.replies[0].error[0] == "moving"
        assert not plan.batch


def test_the_queue_that_a_branch_goes_to_cannot_be_deleted() -> None:
    stage = Stage()
    stage.submit(1, queue="old")
    move(stage, "old", "new")
    stage.absorb(happened.QueueDropAsked("ticket", "new"))
    [reply] = stage.step().replies
    assert reply.error is not None and reply.error[0] == "moving"


def test_a_new_leader_goes_on_where_the_old_one_died() -> None:
    stage = Stage()
    stage.submit(1, 2, 3, queue="old")
    stage.step()
    row = move(stage, "old", "new").batch.queues
    page(stage, "old", 1)
    heir = Stage(micros=stage.micros)
    for one in row:
        heir.absorb(happened.QueueFound(one.path, json.loads(one.settings or b"{}")))
    # Job 3 is read in a page of the backlog and then, moved by its arrival, is not put twice.
    heir.absorb(happened.TakenIn([stage.arrivals[3]], [7]))
    arrivals = [stage.arrivals[1]._replace(queue="new"), stage.arrivals[2], stage.arrivals[3]]
    heir.absorb(happened.Loaded(arrivals))
    assert moves(heir.step()) == [([3], "new")]
    assert queues(heir) == {"old": (1, 0), "new": (2, 0)}
    heir.arrivals = stage.arrivals
    assert moves(page(heir, "old", 2, 3)) == [([2], "new")]
    assert over(heir, "old").replies == [Reply("over", True)]
    heir.join("w", 3)
    assert sorted(heir.begun()) == [1, 2, 3]


def test_a_job_that_waits_for_others_goes_along_and_is_released_there() -> None:
    stage = Stage()
    stage.join("w", 1)
    stage.submit(1, queue="elsewhere")
    stage.step()
    arrival = stage.arrivals[1]._replace(job=2, queue="old", extras=Extras(after=(1,)), blocked=True)
    stage.arrivals[2] = arrival
    stage.absorb(happened.TakenIn([arrival], [2], {}))
    stage.step()
    move(stage, "old", "new")
    assert over(stage, "old").replies == [Reply("over", False)]
    assert moves(page(stage, "old", 2)) == [([2], "new")]
    assert moves(page(stage, "old", 2)) == []
    assert over(stage, "old").replies == [Reply("over", True)]
    assert queues(stage)["new"] == (0, 0)
    stage.finish(1)
    [released] = stage.step().batch.unblocks
    assert released.job == 2
    assert queues(stage)["new"] in {(1, 0), (0, 1)}


def test_one_that_comes_to_wait_for_others_in_a_closed_branch_waits_where_that_goes() -> None:
    stage = Stage()
    stage.submit(1, queue="old")
    stage.step()
    move(stage, "old", "new")
    arrival = stage.arrivals[1]._replace(job=2, extras=Extras(after=(1,)), blocked=True)
    stage.absorb(happened.TakenIn([arrival], [2], {}))
    assert moves(stage.step()) == [([2], "new")]
    assert stage.core.world.blocked[2].arrival.queue == "new"
