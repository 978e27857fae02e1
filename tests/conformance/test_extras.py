"""What few jobs have beside the rest: it comes back from every read, and blocked jobs do not begin."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from fairway.core.lifecycle import State
from fairway.core.model import DEFAULT_RULES, Extras, Rules
from fairway.core.plan import Begin, Drop, Edit, Return, Revive
from fairway.errors import Deposed
from fairway.store import Submission
from fairway.stores.rows import rules_from
from tests.conformance.stage import NOW, Stage, an_end, arrivals_of, new_job, where

EXTRAS = Extras(
    deadline=NOW + 5, group="night", unique_for=60.0, replaces=3, worker="w3", away=("w1", "w2"), recall=4
)


@pytest.mark.parametrize("by_leader", [True, False])
async def test_extras_come_back_from_every_read(stage: Stage, by_leader: bool) -> None:
    store = stage.store
    jobs = [new_job(7, extras=EXTRAS), new_job(8)]
    if by_leader:
        await stage.commit(Submission(jobs))
    else:
        await store.submit([Submission(jobs)], NOW)
        assert [taken.job.extras for taken in await store.take_arrivals(0)] == [EXTRAS, None]
    [page] = [page async for page in store.waiting_jobs()]
    assert [job.extras for job in arrivals_of(page)] == [EXTRAS, None]
    assert {job.id: job.extras for job in await store.find_jobs([7, 8])} == {7: EXTRAS, 8: None}
    await stage.commit(begins=[Begin([7, 8], "inc", "w", NOW)])
    live = await store.live_attempts()
    assert {one.arrival.job: one.arrival.extras for one in live} == {7: EXTRAS, 8: None}
    await stage.commit(ends=[an_end(7, incarnation="inc")._replace(jobs=[7, 8])])
    assert {job.id: job.extras for job in await store.find_jobs([7, 8])} == {7: EXTRAS, 8: None}


async def test_a_blocked_job_is_loaded_and_found_but_cannot_begin(stage: Stage) -> None:
    store = stage.store
    needs = replace(EXTRAS, after=(1, 2))
    await stage.run(new_job(1), new_job(2))
    await store.submit([Submission([new_job(7, extras=needs)])], NOW)
    [taken] = await store.take_arrivals(0)
    assert taken.job.extras == needs and taken.job.blocked
    [page] = [page async for page in store.waiting_jobs()]
    assert page.others[0].extras == needs and page.others[0].blocked
    found = await store.find_job(7)
    assert found is not None and found.state is State.BLOCKED
    for state, ids in (("blocked", [7]), ("waiting", [7]), ("queued", []), ("scheduled", [])):
        page_found = await store.search(where("state", state), now=NOW)
        assert [job.id for job in page_found.jobs] == ids, state
    with pytest.raises(Deposed):
        await stage.commit(begins=[Begin([7], "inc", "w", NOW)])
    await stage.commit(drops=[Drop(7, "failed", b'{"reason":"doomed"}', NOW)])
    found = await store.find_job(7)
    assert found is not None and found.state is State.FAILED and found.extras == needs


async def test_an_edit_changes_the_deadline_and_keeps_the_rest(stage: Stage) -> None:
    await stage.submit(new_job(7, extras=EXTRAS))
    later = replace(EXTRAS, deadline=NOW + 99)
    await stage.commit(edits=[Edit(7, "acme/emails", None, 0, (), NOW, NOW, DEFAULT_RULES, later)])
    assert (await stage.get(7)).extras == later
    [page] = [page async for page in stage.store.waiting_jobs()]
    assert page.others[0].extras == later


async def test_a_job_that_is_tried_again_by_hand_has_no_deadline_any_more(stage: Stage) -> None:
    await stage.submit(new_job(7, extras=EXTRAS), new_job(8))
    await stage.commit(drops=[Drop(job, "failed", b'{"reason":"expired"}', NOW) for job in (7, 8)])
    receipt = await stage.commit(revives=[Revive(7, NOW + 9, NOW + 9), Revive(8, NOW + 9, NOW + 9)])
    assert {job.id: job.extras for job in receipt.revived} == {7: replace(EXTRAS, deadline=None), 8: None}
    assert (await stage.get(7)).extras == replace(EXTRAS, deadline=None)


async def test_a_job_that_expires_in_the_commit_that_inserts_it_is_there_and_has_ended(stage: Stage) -> None:
    drop = Drop(7, "failed", b'{"reason":"expired"}', NOW)
    await stage.commit(Submission([new_job(7, extras=EXTRAS)]), drops=[drop])
    assert await stage.states(7) == [State.FAILED]


async def test_a_job_that_returns_and_expires_in_one_commit_has_ended(stage: Stage) -> None:
    await stage.submit(new_job(7, extras=EXTRAS))
    await stage.begin(7)
    back = Return(7, 1, "w1-a", NOW, NOW, 1, 0, (), b'{"reason":"error"}')
    await stage.commit(returns=[back], drops=[Drop(7, "failed", b'{"reason":"expired"}', NOW)])
    stored = await stage.get(7)
    assert (stored.state, stored.tries, stored.outcome) == (State.FAILED, 1, b'{"reason":"expired"}')


async def test_what_a_submitter_did_not_say_comes_back_as_not_said(stage: Stage) -> None:
    some = Rules(7, timeout=None, unsaid=("max_crashes", "backoff"))
    await stage.submit(new_job(1, rules=some), new_job(2), new_job(3, rules=Rules()))
    begun = {one.job: one.rules for one in await stage.begin(1, 2, 3)}
    assert begun == {1: some, 2: DEFAULT_RULES, 3: Rules()}
    assert begun[2] is DEFAULT_RULES
    assert {job.id: job.rules for job in await stage.store.find_jobs([1, 2, 3])} == begun


def test_rules_of_an_earlier_version_were_all_said() -> None:
    before = {"max_attempts": 4, "max_crashes": 3, "timeout": 9.0, "retry_first": 1.0, "retry_max": 60.0}
    assert rules_from(msgspec.msgpack.encode(before)) == Rules(4, 3, 9.0, 1.0, 60.0)
