"""Which ends and returns have a cause, and of whose end somebody is told."""

from __future__ import annotations

import pytest

from fairway.core import events as happened
from fairway.core.model import Arrival, Extras, Notify, Result, Rules
from fairway.core.plan import Plan
from tests.core.stage import COMMAND, Stage, task

ERROR = b'{"type":"ValueError","message":"no user 7","traceback":""}'
SEND = task("t")
TOLD = Extras(notify=Notify("https://example.org/"))


def report(stage: Stage, job: int, kind: str, body: bytes = ERROR) -> Plan:
    live = stage.live[job]
    stage.absorb(happened.Reported(live.incarnation, [Result(job, live.attempt, kind, body, 0.1)], 0.5))
    return stage.step()


def running(rules: Rules, extras: Extras | None = None, once: bool = False) -> Stage:
    """A stage on which job 1 runs."""
    stage = Stage(rules=rules)
    stage.join("w")
    shape = task("t", once=once)
    stage.absorb(happened.Submitted([Arrival(1, "q", None, 0, shape, stage.now.wall, None, extras)]))
    assert stage.begun() == [1]
    return stage


@pytest.mark.parametrize(
    ("kind", "rules", "ends", "blamed"),
    [
        ("error", Rules(max_attempts=1), True, True),
        ("error", Rules(max_attempts=2), False, True),
        ("timeout", Rules(max_attempts=1), True, True),
        ("permanent", Rules(), True, True),
        ("crashed", Rules(max_crashes=1), True, True),
        ("crashed", Rules(max_crashes=2), False, True),
        ("retry_after", Rules(max_attempts=2), False, False),  # it asked for it
        ("retry_after", Rules(max_attempts=1), True, True),
        ("stopped", Rules(), False, False),
    ],
)
def test_failures_have_a_cause_whether_or_not_the_job_is_tried_again(
    kind: str, rules: Rules, ends: bool, blamed: bool
) -> None:
    batch = report(running(rules), 1, kind).batch
    assert (len(batch.ends), len(batch.returns)) == (int(ends), int(not ends))
    assert [
        (one.cause.task, one.cause.message, one.job, one.queue, one.failures) for one in batch.causes
    ] == [("t", "no user <n>", 1, "q", 1)] * blamed
    if ends:
        assert batch.ends[0].cause == batch.causes[0].cause.id
        [news] = [news for news in batch.news if news.kind == "job.ended"]
        assert news.detail is not None and news.detail["cause"] == batch.causes[0].cause.id


def test_what_ends_well_or_is_cancelled_has_none() -> None:
    batch = report(running(Rules()), 1, "ok", b"1").batch
    assert batch.ends[0].cause is None and batch.causes == []
    stage = running(Rules())
    stage.absorb(happened.CancelAsked("ticket", stage.live[1].arrival(0), False))
    stage.step()
    batch = report(stage, 1, "cancelled").batch
    assert batch.ends[0].state == "cancelled" and batch.ends[0].cause is None and batch.causes == []


def test_a_lost_worker_is_a_cause_also_of_what_nobody_knows() -> None:
    stage = running(Rules(max_crashes=1), once=True)
    stage.absorb(happened.Gone("w"))
    batch = stage.step().batch
    assert batch.ends[0].state == "unknown"
    assert [(one.cause.type, one.cause.id) for one in batch.causes] == [("WorkerLost", batch.ends[0].cause)]


def test_jobs_that_wait_for_different_jobs_are_doomed_for_one_cause() -> None:
    stage = Stage(rules=Rules(max_attempts=1))
    stage.join("w", slots=2)
    stage.submit(1, 2)
    assert stage.begun() == [1, 2]
    waiting = [
        Arrival(10 + job, "q", None, 0, COMMAND, stage.now.wall, None, Extras(after=(job,)), blocked=True)
        for job in (1, 2)
    ]
    stage.absorb(happened.TakenIn(waiting, [1, 2], {}))
    stage.step()
    stage.finish(1, 2, kind="error")
    batch = stage.step().batch
    doomed = {drop.job: drop.cause for drop in batch.drops}
    assert doomed.keys() == {11, 12} and len(set(doomed.values())) == 1
    assert {one.cause.type for one in batch.causes} == {"E", "DependencyFailed"}


def test_a_job_whose_deadline_passed_has_a_cause() -> None:
    stage = Stage()
    extras = Extras(deadline=stage.now.wall + 1_000_000)
    stage.absorb(happened.Submitted([Arrival(1, "q", None, 0, SEND, stage.now.wall, None, extras)]))
    batch = stage.step(2.0).batch
    [cause] = batch.causes
    assert cause.cause.type == "Expired" and batch.drops[0].cause == cause.cause.id


# --- of whose end somebody is told ------------------------------------------------------------------------
@pytest.mark.parametrize(("kind", "noticed"), [("ok", [1]), ("permanent", [1]), ("stopped", [])])
def test_the_end_of_a_watched_job_is_named_once(kind: str, noticed: list[int]) -> None:
    stage = running(Rules(), TOLD)
    assert report(stage, 1, kind, b"1" if kind == "ok" else ERROR).batch.notices == noticed
    assert stage.core.world.watched == (set() if noticed else {1})
    assert stage.step().batch.notices == []


def test_the_ends_of_others_are_not() -> None:
    assert report(running(Rules()), 1, "ok", b"1").batch.notices == []
    stage = running(Rules(), Extras(group="g"))
    assert stage.core.world.watched == set()


def test_watched_jobs_are_known_to_a_new_leader_and_again_after_a_retry_by_hand() -> None:
    stage = Stage()
    arrivals = [Arrival(job, "q", None, 0, SEND, stage.now.wall, None, TOLD) for job in (1, 2, 3)]
    blocked = Arrival(
        4, "q", None, 0, SEND, stage.now.wall, None, Extras(after=(1,), notify=TOLD.notify), True
    )
    stage.absorb(happened.Loaded([arrivals[0], blocked], {}))
    stage.absorb(happened.TakenIn([arrivals[1]], [1], {}))
    stage.absorb(happened.Revived(arrivals[2]))
    assert stage.core.world.watched == {1, 2, 3, 4}
    stage.absorb(happened.CancelAsked("ticket", arrivals[0], False))
    assert sorted(stage.step().batch.notices) == [1, 4]  # the second waited for the first


def test_a_replaced_job_that_is_not_known_yet_is_told_of() -> None:
    stage = Stage()
    stage.absorb(happened.Replaced([Arrival(1, "q", None, 0, SEND, stage.now.wall, None, TOLD)]))
    assert stage.step().batch.notices == [1]


def test_a_job_that_is_cancelled_while_it_is_set_aside_is_told_of() -> None:
    stage = Stage()
    stage.core.world.aside = {1}
    aside = Arrival(1, "q", None, 0, SEND, stage.now.wall, None, TOLD)
    stage.absorb(happened.TakenIn([aside], [1]))
    assert stage.step().batch.notices == []
    stage.absorb(happened.CancelAsked("ticket", aside, False))
    assert stage.step().batch.notices == [1]


def test_a_refused_job_is_forgotten() -> None:
    stage = Stage()
    arrival = Arrival(1, "q", None, 0, SEND, stage.now.wall, None, TOLD)
    stage.absorb(happened.Submitted([arrival]))
    stage.step()
    stage.absorb(happened.Refused([arrival]))
    assert stage.core.world.watched == set()
