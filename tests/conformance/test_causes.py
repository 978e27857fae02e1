"""Causes are counted in the commit in which attempts fail; jobs that failed are found by them."""

from __future__ import annotations

from typing import Any

import pytest

from fairway.core.causes import Cause
from fairway.core.lifecycle import State
from fairway.core.plan import CauseSeen, Drop, End, Resolve, Return, Revive
from fairway.errors import Deposed
from fairway.store import CauseRow, LogLine, Store
from fairway.stores.causing import CAUSE_SECONDS, FOREVER
from fairway.times import MICRO
from tests.conformance.stage import NOW, Stage, an_end, events_of, new_job, where

ONE = Cause("0123456789ab", "app.send", "ValueError", "no user <n>", "app/mail.py:send")
OTHER = Cause("ba9876543210", "app.send", "KeyError", "<text>", "")
DAY = 86_400 * MICRO


def seen(cause: Cause = ONE, at: int = NOW, job: int = 1, failures: int = 1) -> CauseSeen:
    return CauseSeen(cause, at, job, "acme/emails", failures)


def failed(job: int, cause: Cause = ONE, **changes: Any) -> End:
    return an_end(job, **{"state": "failed", "outcome": b'{"reason":"error"}', "cause": cause.id} | changes)


async def ids(store: Store, *causes: str, negated: bool = False) -> list[int]:
    page = await store.search(where("cause", *causes, negated=negated), now=NOW, sort="created_at")
    assert page.total == len(page.jobs) == await store.count(where("cause", *causes, negated=negated), NOW)
    return [job.id for job in page.jobs]


async def test_a_failed_end_names_its_cause_and_is_found_by_it(stage: Stage) -> None:
    await stage.submit(*(new_job(number) for number in range(1, 6)))
    await stage.begin(1, 2, 3, 4)
    ends = [failed(1), failed(2), failed(3, OTHER), an_end(4)]
    await stage.commit(ends=ends, causes=[seen(), seen(job=2), seen(OTHER, job=3)])
    assert [(await stage.get(number)).cause for number in range(1, 6)] == [
        ONE.id,
        ONE.id,
        OTHER.id,
        None,
        None,
    ]
    assert await ids(stage.store, ONE.id) == [1, 2]
    assert await ids(stage.store, ONE.id, OTHER.id) == [1, 2, 3]
    assert await ids(stage.store, ONE.id, negated=True) == [3, 4, 5]
    assert await ids(stage.store, "000000000000") == []


async def test_many_failures_of_one_commit_end_as_one_does(stage: Stage) -> None:
    jobs = range(1, 51)
    await stage.submit(*(new_job(number) for number in jobs))
    await stage.begin(*jobs)
    ends = [failed(number, outcome=b'{"n":%d}' % number) for number in jobs]
    await stage.commit(ends=ends, causes=[seen(job=number) for number in jobs])
    found = await stage.store.find_cause(ONE.id)
    assert found is not None and found.failures == 50
    assert [(await stage.get(number)).outcome for number in (1, 50)] == [b'{"n":1}', b'{"n":50}']


async def test_a_waiting_job_that_is_dropped_has_its_cause(stage: Stage) -> None:
    await stage.submit(new_job(1), new_job(2))
    drops = [Drop(1, "failed", b'{"reason":"expired"}', NOW, ONE.id), Drop(2, "cancelled", None, NOW)]
    await stage.commit(drops=drops, causes=[seen()])
    assert [(await stage.get(number)).cause for number in (1, 2)] == [ONE.id, None]


async def test_failures_are_counted_and_new_causes_told_once(stage: Stage) -> None:
    await stage.submit(new_job(1))
    await stage.begin(1)
    back = Return(1, 1, "w1-a", NOW, NOW, 1, 0, (), b'{"reason":"error"}')
    receipt = await stage.commit(returns=[back], causes=[seen(), seen(OTHER, at=NOW + 1), seen()])
    news = [event for event in events_of(receipt.told) if event.kind == "failure.new"]
    assert [(event.job, event.queue, event.task) for event in news] == [(1, "acme/emails", "app.send")] * 2
    assert {event.detail["cause"] for event in news if event.detail} == {ONE.id, OTHER.id}
    receipt = await stage.commit(causes=[seen(at=NOW + 9, failures=3), seen(at=NOW + 5)])
    assert events_of(receipt.told) == []
    assert await stage.store.causes() == [
        CauseRow(*ONE, NOW, NOW + 9, 6, None),
        CauseRow(*OTHER, NOW + 1, NOW + 1, 1, None),
    ]
    stored = [one.event.kind for one in await stage.store.events_after(0, 0)]
    assert stored.count("failure.new") == 2


async def test_a_refused_commit_counts_nothing(stage: Stage) -> None:
    await stage.submit(new_job(1))
    await stage.begin(1)
    with pytest.raises(Deposed):
        await stage.commit(ends=[failed(1, attempt=7)], causes=[seen()])
    assert await stage.store.causes() == []


async def test_causes_come_in_pages_those_seen_last_first(stage: Stage) -> None:
    some = [ONE._replace(id=f"{number:012x}") for number in range(5)]
    await stage.commit(causes=[seen(cause, at=NOW + number // 2) for number, cause in enumerate(some)])
    first = await stage.store.causes(most=2)
    rest = await stage.store.causes(before=(first[-1].last_at, first[-1].id))
    assert [int(row.id, 16) for row in (*first, *rest)] == [4, 3, 2, 1, 0]


async def test_a_cause_is_muted_until_a_time(stage: Stage) -> None:
    store = stage.store
    await stage.commit(causes=[seen()])
    for until, muted in ((NOW + 5, True), (FOREVER, True), (NOW, False), (None, False)):
        assert await store.mute_cause(stage.term, "leader", ONE.id, until)
        found = await store.find_cause(ONE.id)
        assert found is not None and found.muted_until == until and found.is_muted(NOW) is muted
    assert not await store.mute_cause(stage.term, "leader", OTHER.id, None)
    assert await store.find_cause(OTHER.id) is None


async def test_a_cause_is_forgotten_with_its_jobs_a_bounded_number_at_a_time(stage: Stage) -> None:
    store = stage.store
    await stage.submit(*(new_job(number) for number in range(1, 6)))
    await stage.begin(1, 2, 3, 4)
    await stage.commit(ends=[failed(1), failed(2), failed(3), failed(4, OTHER)], causes=[seen(), seen(OTHER)])
    await store.add_log([LogLine(1, 1, 0, NOW, "stdout", "x"), LogLine(4, 1, 0, NOW, "stdout", "y")])
    assert await store.forget_cause(stage.term, "leader", ONE.id, most=2) == 2
    assert await store.find_cause(ONE.id) is not None
    assert await store.forget_cause(stage.term, "leader", ONE.id, most=2) == 1
    assert await store.find_cause(ONE.id) is None
    assert sorted(job.id for job in await store.find_jobs(range(1, 6))) == [4, 5]
    assert await store.read_log(1, None) == [] and len(await store.read_log(4, None)) == 1
    assert await store.forget_cause(stage.term, "leader", ONE.id) == 0
    receipt = await stage.commit(causes=[seen()])
    assert [event.kind for event in events_of(receipt.told)] == ["failure.new"]  # it is new again


@pytest.mark.parametrize(("later", "holder"), [(1, "leader"), (-1, "leader"), (0, "somebody")])
async def test_a_leader_whose_term_is_over_mutes_and_forgets_nothing(
    stage: Stage, later: int, holder: str
) -> None:
    await stage.submit(new_job(1))
    await stage.begin(1)
    await stage.commit(ends=[failed(1)], causes=[seen()])
    with pytest.raises(Deposed):
        await stage.store.forget_cause(stage.term + later, holder, ONE.id)
    with pytest.raises(Deposed):
        await stage.store.mute_cause(stage.term + later, holder, ONE.id, FOREVER)
    found = await stage.store.find_cause(ONE.id)
    assert found is not None and found.muted_until is None and await ids(stage.store, ONE.id) == [1]


async def test_a_job_that_is_tried_again_has_no_cause(stage: Stage) -> None:
    await stage.submit(new_job(1))
    await stage.begin(1)
    await stage.commit(ends=[failed(1)], causes=[seen()])
    [revived] = (await stage.commit(revives=[Revive(1, NOW, NOW)])).revived
    assert revived.cause is None and await ids(stage.store, ONE.id) == []


async def test_an_unknown_job_that_did_succeed_has_no_cause(stage: Stage) -> None:
    await stage.submit(new_job(1), new_job(2))
    await stage.begin(1, 2)
    await stage.commit(ends=[failed(number)._replace(state="unknown") for number in (1, 2)], causes=[seen()])
    words = [Resolve(1, 0, "", "succeeded", b"1", NOW), Resolve(2, 0, "", "failed", b"{}", NOW)]
    await stage.commit(resolves=words)
    assert await stage.states(1, 2) == [State.SUCCEEDED, State.FAILED]
    assert [(await stage.get(number)).cause for number in (1, 2)] == [None, ONE.id]


async def test_causes_that_were_not_seen_for_long_go_unless_they_are_muted(stage: Stage) -> None:
    store = stage.store
    third = ONE._replace(id="f" * 12)
    await stage.commit(causes=[seen(), seen(OTHER), seen(third, at=NOW + DAY)])
    await store.mute_cause(stage.term, "leader", OTHER.id, FOREVER)
    await store.tidy(NOW + CAUSE_SECONDS * MICRO + DAY // 2, 1e9)
    assert {row.id for row in await store.causes()} == {OTHER.id, third.id}


async def test_beyond_a_number_those_seen_least_lately_go(stage: Stage) -> None:
    some = [ONE._replace(id=f"{number:012x}") for number in range(10_003)]
    await stage.commit(causes=[seen(cause, at=NOW + number) for number, cause in enumerate(some)])
    while await stage.store.tidy(NOW + DAY, 1e9):
        pass
    assert await stage.store.find_cause(some[2].id) is None
    assert await stage.store.find_cause(some[3].id) is not None
