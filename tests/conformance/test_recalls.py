"""Jobs that name workers, and running attempts that are recalled to go elsewhere."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fairway.core.lifecycle import State
from fairway.core.model import DEFAULT_RULES, Extras, Shape
from fairway.core.plan import Begin, Edit, Recall, Return, Revive
from fairway.errors import Deposed
from fairway.store import Submission
from tests.conformance.stage import NOW, Stage, an_end, arrivals_of, new_job

PINNED = Extras(worker="w3", away=("w1", "w2"))
SHAPE = Shape("python", "app.send", worker="w3", away=("w1", "w2"))
PLAIN = Shape("python", "app.send")


@pytest.mark.parametrize("by_leader", [True, False])
async def test_the_workers_a_job_names_come_back_from_every_read(stage: Stage, by_leader: bool) -> None:
    store, jobs = stage.store, [new_job(7, extras=PINNED), new_job(8)]
    if by_leader:
        await stage.commit(Submission(jobs))
    else:
        await store.submit([Submission(jobs)], NOW)
        assert [taken.job.shape for taken in await store.take_arrivals(0)] == [SHAPE, PLAIN]
    [page] = [page async for page in store.waiting_jobs()]
    assert [one.shape for one in arrivals_of(page)] == [SHAPE, PLAIN]
    below, _ = await store.waiting_below("acme")
    assert {one.job: one.shape for one in below} == {7: SHAPE, 8: PLAIN}
    await stage.commit(begins=[Begin([7, 8], "inc", "w3", NOW)])
    live = await store.live_attempts()
    assert {one.arrival.job: one.arrival.shape for one in live} == {7: SHAPE, 8: PLAIN}
    await stage.commit(ends=[an_end(7, incarnation="inc")._replace(jobs=[7, 8], state="failed")])
    assert {job.id: job.extras for job in await store.find_jobs([7, 8])} == {7: PINNED, 8: None}
    receipt = await stage.commit(revives=[Revive(7, NOW, NOW)])
    assert [job.extras for job in receipt.revived] == [PINNED]


@pytest.mark.parametrize("before", [None, Extras(group="night")])
async def test_a_recall_is_remembered_while_the_attempt_runs(stage: Stage, before: Extras | None) -> None:
    await stage.submit(new_job(7, extras=before), new_job(8))
    await stage.begin(7, 8)
    wanted = replace(before or Extras(), worker="w3", recall=1)
    await stage.commit(recalls=[Recall(7, 1, "w1-a", NOW - 5, wanted)])
    live = {one.arrival.job: one for one in await stage.store.live_attempts()}
    found = live[7].arrival
    assert (found.extras, found.place, found.shape.worker) == (wanted, NOW - 5, "w3")
    assert (live[8].arrival.extras, live[8].arrival.place) == (None, NOW)
    stored = await stage.get(7)
    assert (stored.state, stored.attempt, stored.extras) == (State.RUNNING, 1, wanted)
    await stage.commit(returns=[Return(7, 1, "w1-a", NOW - 5, NOW - 5, 0, 0, (), None)])
    [page] = [page async for page in stage.store.waiting_jobs()]
    assert [(one.job, one.place, one.shape.worker) for one in page.others] == [(7, NOW - 5, "w3")]


async def test_of_two_recalls_in_one_commit_the_last_counts_and_a_return_comes_after(stage: Stage) -> None:
    await stage.submit(new_job(7))
    await stage.begin(7)
    first, last = Extras(worker="w2", recall=1), Extras(away=("w1",), recall=1)
    recalls = [Recall(7, 1, "w1-a", NOW - 5, first), Recall(7, 1, "w1-a", NOW - 6, last)]
    back = Return(7, 1, "w1-a", NOW - 6, NOW - 6, 0, 0, (), None)
    receipt = await stage.commit(recalls=recalls, returns=[back], begins=[Begin([7], "w2-a", "w2", NOW)])
    assert [one.attempt for one in receipt.begun] == [2]
    stored = await stage.get(7)
    assert (stored.extras, stored.worker) == (last, "w2")


@pytest.mark.parametrize("stored", [True, False])
async def test_a_recall_is_remembered_though_the_same_commit_begins_another_job(
    stage: Stage, stored: bool
) -> None:
    """Begins of a few jobs alone may be written a shorter way; these are not alone."""
    await stage.submit(new_job(7))
    await stage.begin(7)
    submissions = [] if stored else [Submission([new_job(8)])]
    if stored:
        await stage.submit(new_job(8))
    recall = Recall(7, 1, "w1-a", NOW - 5, Extras(worker="w3", recall=1))
    await stage.commit(*submissions, recalls=[recall], begins=[Begin([8], "w1-a", "w1", NOW)])
    assert (await stage.get(7)).extras == recall.extras
    assert await stage.states(7, 8) == [State.RUNNING, State.RUNNING]


@pytest.mark.parametrize(
    "recall",
    [Recall(7, 2, "w1-a", NOW, PINNED), Recall(7, 1, "w2-b", NOW, PINNED), Recall(8, 0, "", NOW, PINNED)],
)
async def test_the_recall_of_what_does_not_run_is_refused(stage: Stage, recall: Recall) -> None:
    await stage.submit(new_job(7), new_job(8))
    await stage.begin(7)
    with pytest.raises(Deposed):
        await stage.commit(recalls=[recall])
    assert {job.id: job.extras for job in await stage.store.find_jobs([7, 8])} == {7: None, 8: None}


async def test_an_edit_changes_the_adapter_only_if_it_names_one(stage: Stage) -> None:
    await stage.submit(new_job(7))
    edit = Edit(7, "acme/emails", None, 0, (), NOW, NOW, DEFAULT_RULES, PINNED)
    await stage.commit(edits=[edit])
    stored = await stage.get(7)
    assert (stored.adapter, stored.task, stored.extras) == ("python", "app.send", PINNED)
    await stage.commit(edits=[edit._replace(adapter="warm", extras=None)])
    stored = await stage.get(7)
    assert (stored.adapter, stored.task, stored.extras) == ("warm", "app.send", None)
