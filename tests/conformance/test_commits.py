"""A commit is the leader's, fenced, and whole: what a record asks for happens once or not at all."""

from __future__ import annotations

from typing import Any

import pytest

from fairway.core.lifecycle import State
from fairway.core.model import DEFAULT_RULES, Rules
from fairway.core.plan import (
    Begin,
    Begun,
    Drop,
    Edit,
    Flag,
    Resolve,
    Return,
    Revive,
    SaveQueue,
)
from fairway.errors import Deposed
from fairway.store import Submission
from tests.conformance.stage import NOW, SECOND, Stage, an_end, events_of, new_job, told


async def check_refused(stage: Stage, *submissions: Submission, **records: Any) -> None:
    """The commit is refused as a whole: not even its harmless records happened."""
    harmless = SaveQueue("canary", b"{}", NOW)
    span = await stage.store.event_span()
    with pytest.raises(Deposed):
        await stage.commit(
            Submission([new_job(999)]), *submissions, queues=[harmless], news=[told("canary")], **records
        )
    assert "canary" not in await stage.store.queue_rows()
    assert await stage.store.event_span() == span
    assert await stage.store.find_job(999) is None


def returned(job: int, attempt: int = 1, incarnation: str = "w1-a", **changes: Any) -> Return:
    one = Return(job, attempt, incarnation, NOW - 5, NOW - 4, 1, 2, (NOW, NOW + 1), b'{"reason":"error"}')
    return one._replace(**changes)


async def test_begin_gives_the_next_attempt_and_what_it_needs(stage: Stage) -> None:
    rules = Rules(max_attempts=2)
    await stage.submit(new_job(1, rules=rules, unique="k", payload=b'{"args":[1]}'), new_job(2))
    begun = await stage.begin(2, 1)
    assert [one.job for one in begun] == [2, 1]
    assert begun[1] == Begun(1, 1, 0, 0, 0, (), rules, "k", b'{"args":[1]}')
    stored = await stage.get(1)
    assert (stored.state, stored.attempt, stored.incarnation) == (State.RUNNING, 1, "w1-a")
    assert (stored.worker, stored.started_at) == ("w1", NOW + 1)
    assert await stage.waiting() == []


async def test_a_job_begins_once(stage: Stage) -> None:
    await stage.submit(new_job(1), new_job(2))
    await stage.begin(1)
    await check_refused(stage, begins=[Begin([2], "w2-a", "w2", NOW), Begin([1], "w2-a", "w2", NOW)])
    assert (await stage.get(1)).incarnation == "w1-a"
    assert await stage.states(2) == [State.QUEUED]


async def test_a_job_named_twice_by_one_commit_does_not_begin(stage: Stage) -> None:
    await stage.submit(new_job(1))
    await check_refused(stage, begins=[Begin([1], "w1-a", "w1", NOW)] * 2)


async def test_a_job_that_is_not_there_cannot_begin(stage: Stage) -> None:
    await check_refused(stage, begins=[Begin([1], "w1-a", "w1", NOW)])


async def test_an_ended_job_keeps_what_it_was_and_gets_its_outcome(stage: Stage) -> None:
    await stage.submit(new_job(1, flow="u", tags=("gpu",), unique="k"))
    await stage.begin(1)
    await stage.end(1, outcome=b'"done"', tries=1, crashes=2, unique="k")
    stored = await stage.get(1)
    assert (stored.state, stored.outcome, stored.ended_at) == (State.SUCCEEDED, b'"done"', NOW + 2)
    assert (stored.tries, stored.crashes, stored.attempt, stored.worker) == (1, 2, 1, "w1")
    assert (stored.flow, stored.tags, stored.unique, stored.started_at) == ("u", ("gpu",), "k", NOW + 1)


@pytest.mark.parametrize("state", ["succeeded", "failed", "cancelled", "unknown"])
async def test_every_way_to_end(stage: Stage, state: str) -> None:
    await stage.run(new_job(1), state=state, outcome=None)
    assert await stage.states(1) == [State(state)]


@pytest.mark.parametrize("count", [1, 3, 120], ids=["one", "few", "a run of ids"])
@pytest.mark.parametrize("cause", [None, "c1"], ids=["well", "failed"])
async def test_an_end_may_know_better_when_it_started(stage: Stage, count: int, cause: str | None) -> None:
    jobs = list(range(1, count + 1))
    await stage.submit(*map(new_job, [*jobs, 1000]))
    await stage.begin(*jobs, 1000)
    late = an_end(1, started_at=NOW + 5, cause=cause)._replace(jobs=jobs)
    await stage.commit(ends=[late, an_end(1000, cause=cause)])
    assert {job.started_at for job in await stage.store.find_jobs(jobs)} == {NOW + 5}
    assert (await stage.get(1000)).started_at == NOW + 1, "as it was begun"


@pytest.mark.parametrize("groups", [2, 20], ids=["few groups", "each its own"])
async def test_each_end_has_its_own_start(stage: Stage, groups: int) -> None:
    jobs = [3 * number for number in range(1, groups + 1)]
    await stage.submit(*map(new_job, jobs))
    await stage.begin(*jobs)
    await stage.commit(ends=[an_end(job, outcome=b"%d" % job, started_at=NOW + job) for job in jobs])
    found = {job.id: job.started_at for job in await stage.store.find_jobs(jobs)}
    assert found == {job: NOW + job for job in jobs}


@pytest.mark.parametrize(
    "stale",
    [an_end(1, attempt=2), an_end(1, incarnation="w1-b"), an_end(2), an_end(3), an_end(4)],
    ids=["other attempt", "other incarnation", "waiting", "ended", "not there"],
)
async def test_a_stale_end_changes_nothing(stage: Stage, stale: Any) -> None:
    await stage.submit(new_job(2), new_job(5))
    await stage.run(new_job(3))
    await stage.submit(new_job(1))
    await stage.begin(1, 5)
    await check_refused(stage, ends=[an_end(5), stale])
    assert await stage.states(1, 2, 3, 5) == [State.RUNNING, State.QUEUED, State.SUCCEEDED, State.RUNNING]


@pytest.mark.parametrize("stale", [returned(1, attempt=2), returned(1, incarnation="w1-b"), returned(2)])
async def test_a_stale_return_changes_nothing(stage: Stage, stale: Return) -> None:
    await stage.submit(new_job(1), new_job(2))
    await stage.begin(1)
    await check_refused(stage, returns=[stale])
    assert await stage.states(1, 2) == [State.RUNNING, State.QUEUED]


async def test_a_returned_job_waits_at_its_new_place_with_its_ledger(stage: Stage) -> None:
    await stage.submit(new_job(1))
    await stage.begin(1)
    await stage.commit(returns=[returned(1)])
    stored = await stage.get(1)
    assert (stored.state, stored.place, stored.run_at) == (State.QUEUED, NOW - 5, NOW - 4)
    assert (stored.tries, stored.crashes, stored.losses) == (1, 2, (NOW, NOW + 1))
    assert stored.outcome == b'{"reason":"error"}'
    assert await stage.waiting() == [1]
    [again] = await stage.begin(1, incarnation="w2-a")
    assert (again.attempt, again.tries, again.crashes, again.losses) == (2, 1, 2, (NOW, NOW + 1))
    await stage.commit(ends=[an_end(1, 2, "w2-a")._replace(tries=1, crashes=4)])
    ended = await stage.get(1)
    assert (ended.crashes, ended.losses) == (4, ()), "lost workers are counted in the crashes by then"


async def test_the_old_attempt_of_a_returned_job_is_stale(stage: Stage) -> None:
    await stage.submit(new_job(1))
    await stage.begin(1)
    await stage.commit(returns=[returned(1)])
    await stage.begin(1)
    await check_refused(stage, ends=[an_end(1, attempt=1)])
    await stage.end(1, attempt=2)
    assert await stage.states(1) == [State.SUCCEEDED]


async def test_return_and_begin_may_be_one_commit(stage: Stage) -> None:
    await stage.submit(new_job(1))
    await stage.begin(1)
    receipt = await stage.commit(returns=[returned(1)], begins=[Begin([1], "w2-a", "w2", NOW)])
    assert [begun.attempt for begun in receipt.begun] == [2]


async def test_a_dropped_job_has_ended_and_freed_its_key(stage: Stage) -> None:
    await stage.submit(new_job(1, unique="k"))
    await stage.commit(drops=[Drop(1, "cancelled", b'{"reason":"cancelled"}', NOW + 3)])
    stored = await stage.get(1)
    assert (stored.state, stored.ended_at, stored.attempt) == (State.CANCELLED, NOW + 3, 0)
    assert stored.outcome == b'{"reason":"cancelled"}'
    assert (await stage.submit(new_job(2, unique="k"))).ids == [2]
    await check_refused(stage, begins=[Begin([1], "w1-a", "w1", NOW)])


async def test_a_running_job_cannot_be_dropped(stage: Stage) -> None:
    await stage.submit(new_job(1))
    await stage.begin(1)
    await check_refused(stage, drops=[Drop(1, "cancelled", None, NOW)])


async def test_a_flag_marks_a_live_attempt_until_it_is_over(stage: Stage) -> None:
    await stage.submit(new_job(1))
    await stage.begin(1)
    await stage.commit(flags=[Flag(1, 1, "w1-a")])
    assert (await stage.get(1)).cancelling
    await stage.commit(returns=[returned(1)])
    assert not (await stage.get(1)).cancelling


async def test_a_stale_flag_is_refused_but_not_one_that_its_own_commit_overtakes(stage: Stage) -> None:
    await stage.submit(new_job(1))
    await stage.begin(1)
    await check_refused(stage, flags=[Flag(1, 2, "w1-a")])
    await stage.commit(flags=[Flag(1, 1, "w1-a")], ends=[an_end(1)])
    assert await stage.states(1) == [State.SUCCEEDED]


async def test_an_edit_re_roles_a_waiting_job(stage: Stage) -> None:
    await stage.submit(new_job(1, rules=Rules(timeout=9)))
    await stage.commit(edits=[Edit(1, "beta", "f", 7, ("cpu",), NOW + 9, NOW + 8, Rules(4, timeout=9))])
    stored = await stage.get(1)
    assert (stored.queue, stored.flow, stored.priority, stored.tags) == ("beta", "f", 7, ("cpu",))
    assert (stored.run_at, stored.place, stored.rules) == (NOW + 9, NOW + 8, Rules(4, timeout=9))


async def test_a_running_job_cannot_be_edited(stage: Stage) -> None:
    await stage.submit(new_job(1))
    await stage.begin(1)
    await check_refused(stage, edits=[Edit(1, "beta", None, 0, (), NOW, NOW, DEFAULT_RULES)])


async def test_a_moved_job_takes_its_unique_key_along(stage: Stage) -> None:
    await stage.submit(new_job(1, unique="k"))
    await stage.commit(edits=[Edit(1, "beta", None, 0, (), NOW, NOW, DEFAULT_RULES)])
    assert (await stage.submit(new_job(2, unique="k", queue="beta"))).ids == [1]
    assert (await stage.submit(new_job(3, unique="k"))).ids == [3]


async def test_a_job_moved_to_a_queue_that_has_its_key_goes_on_without_one(stage: Stage) -> None:
    await stage.submit(new_job(1, unique="k"), new_job(2, unique="k", queue="beta"))
    await stage.commit(edits=[Edit(1, "beta", None, 0, (), NOW, NOW, DEFAULT_RULES)])
    assert (await stage.get(1)).unique is None
    assert (await stage.submit(new_job(3, unique="k", queue="beta"))).ids == [2]
    assert (await stage.submit(new_job(4, unique="k"))).ids == [4]


async def test_a_revived_job_starts_over_but_its_attempts_count_on(stage: Stage) -> None:
    await stage.run(new_job(1, unique="k"), state="failed", tries=3, crashes=1)
    receipt = await stage.commit(revives=[Revive(1, NOW + 7, NOW + 8)])
    [revived] = receipt.revived
    assert [(event.kind, event.job) for event in events_of(receipt.told)] == [("job.revived", 1)]
    assert (revived.id, revived.generation, revived.attempt) == (1, 1, 1)
    assert (revived.tries, revived.crashes, revived.losses) == (0, 0, ())
    assert (revived.place, revived.run_at, revived.outcome) == (NOW + 7, NOW + 8, None)
    assert (revived.worker, revived.started_at, revived.ended_at) == (None, None, None)
    assert await stage.waiting() == [1]
    assert (await stage.submit(new_job(2, unique="k"))).ids == [1]
    [begun] = await stage.begin(1)
    assert (begun.attempt, begun.generation) == (2, 1)


async def test_what_cannot_be_revived_is_left_alone(stage: Stage) -> None:
    await stage.run(new_job(1, unique="k"))
    await stage.submit(new_job(2, unique="k"))
    receipt = await stage.commit(revives=[Revive(job, NOW, NOW) for job in (1, 2, 3)])
    assert receipt.revived == []
    assert await stage.states(1, 2) == [State.SUCCEEDED, State.QUEUED]


async def test_an_unknown_job_is_resolved_once_by_its_own_attempt(stage: Stage) -> None:
    await stage.run(new_job(1), state="unknown", outcome=None)
    verdicts = [
        Resolve(1, 2, "w1-a", "failed", b"{}", NOW),
        Resolve(1, 1, "w1-b", "failed", b"{}", NOW),
        Resolve(1, 1, "w1-a", "succeeded", b"1", NOW + 4),
        Resolve(1, 0, "", "failed", b"{}", NOW),
    ]
    receipts = [await stage.commit(resolves=[verdict]) for verdict in verdicts]
    assert [[job.id for job in receipt.resolved] for receipt in receipts] == [[], [], [1], []]
    assert [(event.kind, event.job, event.state) for event in events_of(receipts[2].told)] == [
        ("job.ended", 1, "succeeded")
    ]
    stored = await stage.get(1)
    assert (stored.state, stored.outcome, stored.ended_at) == (State.SUCCEEDED, b"1", NOW + 4)


async def test_a_person_resolves_an_unknown_job_whatever_its_attempt(stage: Stage) -> None:
    await stage.run(new_job(1), state="unknown", outcome=None)
    receipt = await stage.commit(resolves=[Resolve(1, 0, "", "failed", b'{"reason":"resolved"}', NOW)])
    assert [job.id for job in receipt.resolved] == [1]
    assert await stage.states(1) == [State.FAILED]


async def test_queues_are_saved_changed_and_deleted(stage: Stage) -> None:
    await stage.commit(queues=[SaveQueue("b", b"{}", NOW), SaveQueue("a", b'{"limit":1}', NOW)])
    assert await stage.store.queue_rows() == {"a": b'{"limit":1}', "b": b"{}"}
    await stage.commit(queues=[SaveQueue("a", b'{"limit":2}', NOW), SaveQueue("b", None, NOW)])
    assert await stage.store.queue_rows() == {"a": b'{"limit":2}'}


async def test_live_attempts_are_found_by_a_new_leader(stage: Stage) -> None:
    await stage.submit(new_job(1, flow="u", tags=("gpu",), unique="k"), new_job(2), new_job(3))
    await stage.begin(1, 3)
    await stage.commit(flags=[Flag(1, 1, "w1-a")])
    await stage.end(3)
    [live] = await stage.store.live_attempts()
    assert (live.incarnation, live.worker, live.started_at, live.cancelling) == ("w1-a", "w1", NOW + 1, True)
    assert (live.arrival.job, live.arrival.flow, live.arrival.shape.tags) == (1, "u", ("gpu",))
    assert [live.begun] == await stage.store.begun_again([1, 2, 3])
    assert (live.begun.attempt, live.begun.unique) == (1, "k")


async def test_a_refused_submission_never_existed(stage: Stage) -> None:
    await stage.submit(new_job(1, unique="k"), new_job(5))
    receipt = await stage.commit(
        Submission([new_job(2, unique="k"), new_job(3)]),
        begins=[Begin([2], "w1-a", "w1", NOW), Begin([3], "w1-a", "w1", NOW), Begin([5], "w1-a", "w1", NOW)],
        news=[
            told("job.submitted", 2),
            told("job.submitted", 3),
        ],
    )
    assert (receipt.refused, receipt.accepted[0].ids) == ([2], [1, 3])
    assert [begun.job for begun in receipt.begun] == [3, 5]
    assert await stage.store.find_job(2) is None
    events = [one.event for one in await stage.store.events_after(0, -1)]
    assert events == events_of(receipt.told)
    assert [(event.kind, event.job, event.attempt) for event in events] == [
        ("job.submitted", 3, 1),
        ("job.begun", 3, 1),
        ("job.begun", 5, 1),
    ]


async def test_a_commit_that_only_tells_of_refused_jobs_tells_nothing(stage: Stage) -> None:
    await stage.submit(new_job(1, unique="k"))
    receipt = await stage.commit(Submission([new_job(2, unique="k")]), news=[told("job.submitted", 2)])
    assert receipt.number is None
    assert await stage.store.event_span() == (0, 0)


async def test_a_big_commit_of_ends_and_begins_is_right_for_every_job(stage: Stage) -> None:
    first, second = range(1, 301), range(301, 601)
    await stage.submit(*(new_job(number) for number in (*first, *second)))
    await stage.begin(*first)
    receipt = await stage.commit(
        ends=[an_end(job, outcome=str(job).encode()) for job in first],
        begins=[Begin([job], "w1-a", "w1", NOW) for job in reversed(second)],
        now=NOW + SECOND,
    )
    assert [begun.job for begun in receipt.begun] == list(reversed(second))
    ended = await stage.store.find_jobs(first)
    assert {job.id: job.outcome for job in ended} == {job: str(job).encode() for job in first}
    assert {live.begun.job for live in await stage.store.live_attempts()} == set(second)


async def test_runs_of_ids_and_single_ones_end_and_begin_alike(stage: Stage) -> None:
    numbers = [*range(1, 121), *range(200, 205), *range(300, 360)]
    await stage.submit(*(new_job(number) for number in numbers))
    receipt = await stage.commit(begins=[Begin(numbers[::-1], "w1-a", "w1", NOW)])
    assert [begun.job for begun in receipt.begun] == numbers[::-1]
    with pytest.raises(Deposed):  # one of the run has not begun a second time
        await stage.commit(ends=[an_end(1)._replace(jobs=numbers, attempt=2)])
    await stage.commit(ends=[an_end(1)._replace(jobs=numbers[10:])])
    assert {live.begun.job for live in await stage.store.live_attempts()} == set(numbers[:10])
    with pytest.raises(Deposed):  # none of them waits
        await stage.commit(begins=[Begin(range(1, 61), "w1-a", "w1", NOW)])
