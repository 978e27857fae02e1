"""What few jobs have beside the rest: it comes back from every read, and blocked jobs do not begin."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fairway.core.lifecycle import State
from fairway.core.model import Extras
from fairway.core.plan import Begin, Drop
from fairway.errors import Deposed
from fairway.store import Submission
from tests.conformance.stage import NOW, Stage, an_end, new_job, where

EXTRAS = Extras(deadline=NOW + 5, group="night", unique_for=60.0, replaces=3)


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
    assert [taken.job.extras for taken in page] == [EXTRAS, None]
    assert {job.id: job.extras for job in await store.find_jobs([7, 8])} == {7: EXTRAS, 8: None}
    await stage.commit(begins=[Begin([7, 8], "inc", "w", NOW)])
    live = await store.live_attempts()
    assert {one.arrival.job: one.arrival.extras for one in live} == {7: EXTRAS, 8: None}
    await stage.commit(ends=[an_end(7, incarnation="inc")._replace(jobs=[7, 8])])
    assert {job.id: job.extras for job in await store.find_jobs([7, 8])} == {7: EXTRAS, 8: None}


async def test_a_blocked_job_is_loaded_and_found_but_cannot_begin(stage: Stage) -> None:
    store = stage.store
    needs = replace(EXTRAS, after=(1, 2))
    await store.submit([Submission([new_job(7, extras=needs)])], NOW)
    [taken] = await store.take_arrivals(0)
    assert taken.job.extras == needs
    [page] = [page async for page in store.waiting_jobs()]
    assert page[0].job.extras == needs
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
