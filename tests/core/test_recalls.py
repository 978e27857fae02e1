"""Running work sent elsewhere: stopped, handed back at no cost, and waiting as was wanted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fairway.core import events as happened
from fairway.core.lifecycle import State
from fairway.core.model import Arrival, Extras, Held, Shape, with_pins
from fairway.core.plan import Begun, Kill, Plan, Recall

from .stage import Stage

COMMAND = Shape("command")


def recall(stage: Stage, job: int, to_end: bool = False, attempt: int | None = None, **extras: Any) -> Plan:
    """Ask for a running job back, to wait with *extras*."""
    wanted = Extras(**extras) if extras else None
    old = stage.arrivals[job]
    new = old._replace(shape=with_pins(old.shape, wanted), extras=wanted)
    attempt = stage.attempts[job] if attempt is None else attempt
    stage.absorb(happened.RecallAsked("ticket", new, attempt, to_end))
    return stage.step()


def hand_back(stage: Stage, job: int, started: bool = True) -> Plan:
    live = stage.live[job]
    stage.absorb(happened.HandedBack(live.incarnation, [Held(job, live.attempt, started)]))
    return stage.step()


def running(*workers: str, shape: Shape = COMMAND) -> Stage:
    """Return a stage where job 1 runs on the first of *workers* and the others are free."""
    stage = Stage()
    stage.join(workers[0])
    stage.submit(1, shape=shape)
    stage.step()
    for name in workers[1:]:
        stage.join(name)
    stage.step()
    return stage


def answers(plan: Plan) -> list[str]:
    return [reply.error[0] if reply.error else reply.value for reply in plan.replies]


@pytest.mark.parametrize("started", [True, False])
@pytest.mark.parametrize("wish", [{"worker": "w2"}, {"away": ("w1",)}])
def test_a_running_job_is_stopped_and_begins_elsewhere_at_no_cost(
    wish: dict[str, Any], started: bool
) -> None:
    stage = running("w1", "w2")
    plan = recall(stage, 1, **wish)
    extras = Extras(recall=1, **wish)
    assert answers(plan) == ["recalled"]
    assert plan.kills == [Kill("w1", 1, 1, False, "stopped")]
    [written] = plan.batch.recalls
    assert written == Recall(1, 1, "w1", written.place, extras)
    [news] = plan.batch.news
    assert (news.kind, news.state, news.worker) == ("job.recalled", State.RUNNING, "w1")
    assert news.detail == ({"to": "w2"} if "worker" in wish else {"away": ["w1"]})
    plan = hand_back(stage, 1, started)
    [back] = plan.batch.returns
    assert (back.tries, back.crashes, back.losses, back.outcome) == (0, 0, (), None)
    assert [(begin.jobs, begin.worker) for begin in plan.batch.begins] == [([1], "w2")]
    [told] = [one for one in plan.batch.news if one.kind == "job.returned"]
    assert told.detail == {"trigger": "hand_back"} | news.detail
    assert not stage.workers["w1"].refusing


def test_it_waits_in_front_of_its_line_until_its_worker_is_there() -> None:
    stage = running("w1")
    stage.submit(2, 3)
    recall(stage, 1, worker="w2")
    assert where(hand_back(stage, 1)) == {2: "w1"}
    stage.finish(2)
    stage.submit(4, shape=Shape("command", worker="w2"))
    stage.join("w2")
    assert where(stage.step()) == {3: "w1", 1: "w2"}


def where(plan: Plan) -> dict[int, str]:
    return {job: begin.worker for begin in plan.batch.begins for job in begin.jobs}


def test_a_requeued_job_goes_to_the_end_of_its_line() -> None:
    stage = running("w1")
    stage.submit(2, 3)
    stage.step(1)
    plan = recall(stage, 1, to_end=True)
    assert plan.kills == [Kill("w1", 1, 1, False, "stopped")]
    assert plan.batch.recalls[0].place == stage.now.wall
    assert where(hand_back(stage, 1)) == {2: "w1"}
    stage.finish(2)
    assert stage.begun() == [3]
    stage.finish(3)
    assert stage.begun() == [1]


def test_a_job_that_is_there_already_is_pinned_and_not_stopped() -> None:
    stage = running("w1", "w2")
    plan = recall(stage, 1, worker="w1")
    assert (answers(plan), plan.kills) == (["recalled"], [])
    assert [one.extras for one in plan.batch.recalls] == [Extras(worker="w1")]
    assert [news.kind for news in plan.batch.news] == ["job.edited"]
    stage.finish(1, kind="crashed")
    assert where(stage.step()) == {1: "w1"}


def test_the_word_is_said_again_with_each_beat_until_it_is_back() -> None:
    stage = running("w1", "w2")
    recall(stage, 1, worker="w2")
    stage.beat("w1", 1)
    assert stage.step().kills == [Kill("w1", 1, 1, False, "stopped")]
    hand_back(stage, 1)
    stage.beat("w2", 1)
    assert stage.step().kills == []


def test_one_that_ends_by_itself_before_it_is_stopped_has_ended() -> None:
    stage = running("w1", "w2")
    recall(stage, 1, worker="w2")
    stage.finish(1)
    plan = stage.step()
    assert [(end.jobs, end.state) for end in plan.batch.ends] == [([1], State.SUCCEEDED)]
    assert plan.batch.begins == []


@pytest.mark.parametrize("kind", ["error", "crashed"])
def test_one_that_goes_wrong_before_it_is_stopped_is_tried_again_where_it_shall_be(kind: str) -> None:
    stage = running("w1", "w2")
    recall(stage, 1, worker="w2")
    stage.finish(1, kind=kind)
    plan = stage.step()
    [back] = plan.batch.returns
    assert (back.tries, back.crashes) == ((1, 0) if kind == "error" else (0, 1))
    begun = where(plan) or where(stage.step(60))
    assert begun == {1: "w2"}


@pytest.mark.parametrize("first", ["cancel", "recall"])
def test_a_cancel_wins(first: str) -> None:
    stage = running("w1", "w2")
    if first == "recall":
        recall(stage, 1, worker="w2")
    stage.absorb(happened.CancelAsked("cancel", stage.arrivals[1], False))
    stage.step()
    if first == "cancel":
        plan = recall(stage, 1, worker="w2")
        assert (answers(plan), plan.batch.recalls, plan.kills) == (["cancelling"], [], [])
    plan = hand_back(stage, 1)
    assert [(end.jobs, end.state) for end in plan.batch.ends] == [([1], State.CANCELLED)]


def test_at_most_once_code_is_not_stopped() -> None:
    stage = running("w1", "w2", shape=Shape("command", once=True))
    plan = recall(stage, 1, worker="w2")
    assert (answers(plan), plan.batch.recalls, plan.kills) == (["at_most_once"], [], [])
    assert not stage.live[1].recalled


@pytest.mark.parametrize("attempt", [1, 3])
def test_the_recall_of_another_attempt_changes_nothing(attempt: int) -> None:
    stage = running("w1", "w2")
    hand_back(stage, 1)  # and begins again, as attempt 2
    assert stage.live[1].attempt == 2
    before = vars(stage.live[1]).copy()
    plan = recall(stage, 1, attempt=attempt, worker="w2")
    assert (answers(plan), plan.kills, plan.batch.recalls) == (["moved"], [], [])
    assert vars(stage.live[1]) == before


def test_the_recall_of_an_attempt_that_has_ended_changes_nothing() -> None:
    stage = running("w1", "w2")
    stage.finish(1)
    stage.step()
    plan = recall(stage, 1, worker="w2")
    assert (answers(plan), plan.kills, plan.batch.recalls) == (["moved"], [], [])


def test_the_recall_of_a_begin_that_is_not_written_yet_is_to_be_asked_again() -> None:
    stage = Stage()
    stage.join("w1")
    stage.submit(1)
    stage.core.plan(stage.now)  # its commit is under way
    assert answers(recall(stage, 1, attempt=1, worker="w2")) == ["moved"]
    assert (stage.live[1].attempt, stage.live[1].shape.worker) == (0, "")


def test_a_recall_and_its_hand_back_in_one_plan_are_written_in_that_order() -> None:
    stage = running("w1", "w2")
    old = stage.arrivals[1]
    extras = Extras(worker="w2")
    new = old._replace(shape=with_pins(old.shape, extras), extras=extras)
    stage.absorb(happened.RecallAsked("ticket", new, 1, False))
    plan = hand_back(stage, 1)
    assert [one.extras for one in plan.batch.recalls] == [replace(extras, recall=1)]
    assert [one.place for one in plan.batch.returns] == [plan.batch.recalls[0].place]
    assert where(plan) == {1: "w2"}
    assert not plan.batch.is_simple


@pytest.mark.parametrize(("recalled", "kills"), [(1, 1), (0, 0), (2, 0)])
def test_a_new_leader_goes_on_with_what_was_recalled(recalled: int, kills: int) -> None:
    """Attempt 1 runs on w1; the row says which attempt is recalled, and where the job shall go."""
    stage = Stage()
    extras = Extras(worker="w2", recall=recalled)
    shape = with_pins(COMMAND, extras)
    arrival = Arrival(1, "q", None, 0, shape, stage.now.wall, None, extras)
    begun = Begun(1, 1, 0, 0, 0, (), stage.rules, None, b"{}")
    stage.absorb(happened.Found(arrival, begun, "w1", "w1", stage.now.wall, False))
    stage.attempts[1] = 1
    stage.join("w1", holds=(Held(1, 1),))
    stage.join("w2")
    assert len(stage.step().kills) == kills
    assert where(hand_back(stage, 1)) == {1: "w2"}
