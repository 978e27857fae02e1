"""Workers come, beat, fall silent and go; their attempts are sent again, lost or left alone accordingly."""

from __future__ import annotations

import pytest

from fairway.core import events as happened
from fairway.core.lifecycle import State
from fairway.core.model import Held, Moment, Result, Timers
from fairway.core.plan import Begun, Plan, Resolve
from fairway.core.scheduler import Core

from .stage import COMMAND, Stage, begun_jobs, task

LEASE, BEAT = 10.0, 2.0


def running(*jobs: int, once: bool = False, slots: int = 4) -> Stage:
    """Return a stage whose worker `w` has begun these jobs, under a leader that is not new any more."""
    stage = Stage()
    stage.join("w", slots)
    wait(stage, LEASE)
    stage.submit(*jobs, shape=task("t", once=True) if once else COMMAND)
    stage.step()
    assert sorted(stage.live) == sorted(jobs)
    stage.beat("w", *jobs)
    return stage


def wait(stage: Stage, seconds: float, naming: tuple[int, ...] = (), silent: bool = False) -> list[Plan]:
    """Let a punctual leader plan every second; the worker beats unless it is silent."""
    plans = []
    for _ in range(int(seconds)):
        if not silent:
            stage.beat("w", *naming)
        plans.append(stage.step(1.0))
    return plans


def returned(plans: list[Plan]) -> list[int]:
    return [one.job for plan in plans for one in plan.batch.returns]


# --- leases ----------------------------------------------------------------------------------------------
def test_a_named_attempt_lives_as_long_as_its_worker_beats() -> None:
    stage = running(1)
    assert returned(wait(stage, 100, naming=(1,))) == []


def test_a_silent_worker_loses_its_attempts_after_a_lease_and_no_sooner() -> None:
    stage = running(1, 2)
    assert returned(wait(stage, LEASE, silent=True)) == []
    assert returned(wait(stage, 1, silent=True)) == [1, 2]
    assert stage.workers == {}


def test_no_queue_pays_for_the_time_in_which_its_worker_was_dead() -> None:
    """Nor is it paid for the turns that others had meanwhile: it goes on level with them."""
    stage = Stage()
    stage.join("dead", 2)
    stage.submit(1, 2, queue="a")
    stage.step()
    stage.join("w", 2)
    for number in range(100, 300, 3):
        for queue, job in zip("abc", range(number, number + 3), strict=True):
            stage.submit(job, queue=queue)
    begun: list[int] = []
    lost_at = 0
    for _ in range(40):
        plan = stage.step()
        if returned([plan]):
            assert returned([plan]) == [1, 2]
            lost_at = len(begun)
        begun += begun_jobs(plan)
        mine = tuple(stage.workers["w"].live)
        stage.micros += 1_000_000
        stage.beat("w", *mine)
        stage.finish(*mine)
    assert lost_at
    first, then = begun[lost_at : lost_at + 6], begun[lost_at : lost_at + 30]
    assert {1, 2} <= set(first), "it waits until the others have had as much as it held in vain"
    assert 9 <= sum(stage.arrivals[job].queue == "a" for job in then) <= 12, "it is paid for the past"


@pytest.mark.parametrize(("assured", "paid"), [(None, 12.0), (1, 6.0)])
def test_what_a_worker_did_before_it_died_is_paid_for_at_every_level(
    assured: int | None, paid: float
) -> None:
    """Two slots for six seconds, then it is silent for a lease; what is assured costs nothing anyway."""
    stage = Stage()
    stage.set("t", assured=assured)
    stage.set("t/a", assured=assured)
    stage.join("w", 2)
    wait(stage, LEASE)
    stage.submit(1, 2, queue="t/a")
    stage.step()
    wait(stage, 6, naming=(1, 2))
    stage.beat("w", 1, 2)
    tree = stage.core.world.tree
    assert [round(tree.queues[path].used_until(stage.now.mono), 3) for path in ("t", "t/a")] == [paid, paid]
    assert returned(wait(stage, LEASE + 1, silent=True)) == [1, 2]
    assert [round(tree.queues[path].used, 3) for path in ("t", "t/a")] == [paid, paid]
    assert tree.queues["t/a"].line.used == pytest.approx(12.0)


def test_the_charge_of_a_flow_stands_when_its_worker_is_lost() -> None:
    stage = Stage()
    stage.set("q", discipline="sfq", charge="seconds")
    stage.join("w", 1)
    wait(stage, LEASE)
    stage.submit(1, flow="a")
    stage.submit(2, flow="a")
    stage.step()
    assert returned(wait(stage, LEASE + 1, silent=True)) == [1]
    stage.join("x", 1, incarnation="x.1")
    stage.submit(3, flow="b")
    assert stage.begun() == [3]


def test_what_is_killed_with_its_lease_has_a_lease_of_its_own() -> None:
    stage = Stage(Core(Timers(kill_lease=20.0)))
    stage.join("w", 4)
    wait(stage, LEASE)
    stage.set("strict", on_lease_lost="kill")
    stage.submit(1)
    stage.submit(2, queue="strict/below")
    stage.set("strict/kept", on_lease_lost="keep")
    stage.submit(3, queue="strict/kept")
    stage.step()
    stage.beat("w", 1, 2, 3)
    assert sorted(returned(wait(stage, LEASE + 1, silent=True))) == [1, 3]
    assert returned(wait(stage, 8, silent=True)) == [] and "w" in stage.workers
    assert returned(wait(stage, 3, silent=True)) == [2] and "w" not in stage.workers


def test_a_begin_whose_commit_took_long_has_its_whole_lease_from_when_it_is_sent() -> None:
    """Its worker may count from a beat that was heard meanwhile."""
    stage = Stage()
    stage.join("w", 1)
    stage.set("strict", on_lease_lost="kill")
    stage.submit(1, queue="strict")
    assert begun_jobs(stage.core.plan(stage.now)) == [1]
    planned = stage.now.mono
    stage.micros += 5_000_000
    stage.absorb(happened.Started([Begun(1, 1, 0, 0, 0, (), stage.rules, None, b"{}")]))
    assert stage.live[1].named_at == planned + 5.0


def test_an_attempt_that_is_never_named_is_lost_although_its_worker_beats() -> None:
    stage = running(1, 2)
    plans = wait(stage, LEASE + 2, naming=(2,))
    assert returned(plans) == [1]
    assert "w" in stage.workers


def test_a_lost_at_most_once_job_is_unknown() -> None:
    stage = running(1, once=True)
    plans = wait(stage, LEASE + 2, silent=True)
    assert [(end.jobs, end.state) for plan in plans for end in plan.batch.ends] == [([1], State.UNKNOWN)]


def test_a_new_leader_expires_nothing_within_its_first_lease() -> None:
    stage = Stage()
    stage.join("w")
    stage.submit(1)
    assert stage.begun() == [1]
    stage.workers["w"].heard_at -= 60.0  # found as it was, by a leader that has just been elected
    assert returned(wait(stage, LEASE - 1, silent=True)) == []
    assert returned(wait(stage, 2, silent=True)) == [1]


def test_a_late_leader_expires_nothing_for_another_lease() -> None:
    stage = running(1)
    assert returned([stage.step(60.0)]) == []
    assert returned(wait(stage, LEASE - 1, silent=True)) == []
    assert returned(wait(stage, 2, silent=True)) == [1]


def test_a_wall_clock_that_jumps_ends_no_lease() -> None:
    stage = running(1)
    ahead = Moment(stage.now.wall + 3_600_000_000, stage.now.mono + 1)
    assert stage.core.plan(ahead).batch.returns == []


def test_a_worker_surely_dead_loses_its_attempts_at_once() -> None:
    stage = running(1)
    stage.absorb(happened.Gone("w"))
    assert returned([stage.step()]) == [1]


def test_a_goodbye_hands_back_what_crossed_it_at_no_cost() -> None:
    stage = running(1)
    stage.absorb(happened.Parted("w"))
    [plan] = [stage.step()]
    assert [(one.job, one.crashes, one.losses) for one in plan.batch.returns] == [(1, 0, ())]
    assert "w" not in stage.core.world.workers


def test_a_predecessor_is_buried_at_once() -> None:
    stage = running(1)
    stage.join("w", incarnation="w.2", predecessor="w")
    plan = stage.step()
    assert returned([plan]) == [1]
    assert [(begin.jobs, begin.incarnation) for begin in plan.batch.begins] == [([1], "w.2")]


def test_a_connection_that_broke_costs_nothing_within_the_lease() -> None:
    stage = running(1)
    stage.absorb(happened.Left("w"))
    assert returned(wait(stage, 5, silent=True)) == []
    stage.join("w", 4, holds=(Held(1, 1),))
    assert returned(wait(stage, 20, naming=(1,))) == []


# --- coming back -----------------------------------------------------------------------------------------
def test_a_begin_that_is_not_named_on_connecting_is_sent_again() -> None:
    stage = running(1, 2, 3)
    stage.join("w", 4, holds=(Held(2, 1),))
    plan = stage.step()
    assert [(one.incarnation, one.jobs) for one in plan.resends] == [("w", (1, 3))]
    assert plan.batch.returns == []


def test_a_result_told_on_connecting_is_taken_and_not_sent_again() -> None:
    stage = running(1, 2)
    stage.join("w", 4, holds=(Held(2, 1),), results=(Result(1, 1, "ok", b"1", 0.1),))
    plan = stage.step()
    assert [(end.jobs, end.state) for end in plan.batch.ends] == [([1], State.SUCCEEDED)]
    assert plan.resends == []
    assert plan.acks["w"].done == [(1, 1)]


@pytest.mark.parametrize("held", [Held(1, 7), Held(99, 1)])
def test_a_worker_is_told_what_is_not_its_own_any_more(held: Held) -> None:
    stage = running(1)
    stage.absorb(happened.Renewed("w", [held], {}))
    assert stage.step().acks["w"].lost == [held[:2]]


def test_a_worker_that_was_buried_while_it_stood_still_must_say_hello_again() -> None:
    stage = running(1)
    wait(stage, LEASE + 2, silent=True)
    stage.beat("w", 1)
    plan = stage.step()
    assert plan.strangers == ["w"]
    assert plan.acks["w"].lost == [(1, 1)]


def test_a_cancel_is_said_again_with_every_beat() -> None:
    stage = running(1)
    stage.absorb(happened.CancelAsked("ticket", stage.arrivals[1], False))
    assert [(kill.job, kill.attempt) for kill in stage.step().kills] == [(1, 1)]
    stage.beat("w", 1)
    assert [(kill.job, kill.attempt) for kill in stage.step().kills] == [(1, 1)]


# --- reports ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("incarnation", "attempt"), [("w", 2), ("stranger", 1)], ids=["another attempt", "another worker"]
)
def test_a_stale_report_changes_nothing(incarnation: str, attempt: int) -> None:
    stage = running(1)
    stage.absorb(happened.Reported(incarnation, [Result(1, attempt, "ok", b"1", 0.1)], 0.0))
    plan = stage.step()
    assert not plan.batch.ends and not plan.batch.returns and not plan.batch.resolves
    assert plan.acks[incarnation].stale == [(1, attempt)]
    assert 1 in stage.live


def test_a_repeated_report_gets_the_same_answer() -> None:
    stage = running(1)
    report = happened.Reported("w", [Result(1, 1, "ok", b"1", 0.1)], 0.0)
    stage.absorb(report)
    assert stage.step().acks["w"].done == [(1, 1)]
    stage.absorb(report)
    plan = stage.step()
    assert plan.acks["w"].done == [(1, 1)]
    assert not plan.batch.ends and not plan.batch.resolves


def test_the_late_word_on_an_unknown_job_is_offered_to_the_store() -> None:
    stage = running(1, once=True)
    wait(stage, LEASE + 2, silent=True)
    stage.absorb(happened.Reported("w", [Result(1, 1, "ok", b'"late"', 0.1)], 0.0))
    plan = stage.step()
    word = Resolve(1, 1, "w", State.SUCCEEDED, b'"late"', stage.now.wall)
    assert plan.batch.resolves == [word]
    assert plan.acks["w"].stale == [(1, 1)]


@pytest.mark.parametrize(
    ("started", "once", "ends"), [(False, True, []), (True, True, [1]), (True, False, [])]
)
def test_what_is_handed_back_waits_again_unless_it_may_have_run(
    started: bool, once: bool, ends: list[int]
) -> None:
    stage = running(1, once=once)
    stage.absorb(happened.HandedBack("w", [Held(1, 1, started)]))
    plan = stage.step()
    assert [job for end in plan.batch.ends for job in end.jobs] == ends
    assert [(one.job, one.tries, one.crashes) for one in plan.batch.returns] == ([] if ends else [(1, 0, 0)])
    assert plan.acks["w"].done == [(1, 1)]


def test_a_lost_job_waits_at_the_front_of_its_line() -> None:
    stage = running(1, slots=1)
    stage.submit(2)
    stage.absorb(happened.Gone("w"))
    stage.join("x")
    assert stage.begun() == [1]
