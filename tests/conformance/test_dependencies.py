"""Jobs that wait for others: what is refused, what is released, and how those ended that are waited for."""

from __future__ import annotations

import pytest

from fairway.core.lifecycle import State
from fairway.core.model import DEFAULT_RULES, Delivery, Extras
from fairway.core.plan import Begin, Drop, Edit, Resolve, Revive, Unblock
from fairway.errors import Deposed, InvalidRequest
from fairway.store import NewJob
from tests.conformance.stage import NOW, SECOND, Stage, an_end, arrivals_of, new_job, where


def waiting_for(number: int, *after: int, **changes: object) -> NewJob:
    return new_job(number, extras=Extras(after=after), **changes)


async def blocked_by(stage: Stage, number: int) -> tuple[int, ...]:
    """Return the jobs that a blocked one waits for."""
    found = await stage.get(number)
    assert found.state is State.BLOCKED and found.extras is not None
    return found.extras.after


# --- submitting ----------------------------------------------------------------------------------------
async def test_it_may_wait_for_what_waits_runs_or_has_ended_and_for_its_own_company(stage: Stage) -> None:
    await stage.run(new_job(1))
    await stage.submit(new_job(2), new_job(3))
    await stage.begin(2)
    await stage.submit(new_job(8), waiting_for(9, 1, 2, 3, 8))
    assert await blocked_by(stage, 9) == (1, 2, 3, 8)


async def test_it_is_refused_if_it_waits_for_what_is_not_there_and_nothing_is_inserted(stage: Stage) -> None:
    await stage.submit(new_job(1))
    with pytest.raises(InvalidRequest) as caught:
        await stage.submit(new_job(8, unique="k"), waiting_for(9, 1, 77), key="once")
    assert caught.value.code == "unknown_job" and caught.value.field == "after"
    assert await stage.store.find_jobs([8, 9]) == []
    assert await stage.store.find_claim("acme/emails", "k", NOW) is None
    accepted = await stage.submit(new_job(8, unique="k"), waiting_for(9, 1), key="once", digest=b"other")
    assert (accepted.ids, accepted.problem) == ([8, 9], None)  # the key was not used up either


async def test_the_same_request_is_answered_although_what_it_waited_for_is_gone(stage: Stage) -> None:
    await stage.run(new_job(1))
    first = await stage.submit(waiting_for(9, 1), key="once")
    assert await stage.store.tidy(NOW + 10 * SECOND, 0.0) > 0
    assert await stage.store.find_job(1) is None
    again = await stage.submit(waiting_for(10, 1), key="once")
    assert again.ids == first.ids == [9] and again.existed == [True]


async def test_within_a_submission_it_waits_for_the_holder_of_a_key_that_was_taken(stage: Stage) -> None:
    await stage.submit(new_job(1, unique="k"))
    accepted = await stage.submit(new_job(7, unique="k"), new_job(8), waiting_for(9, 7, 8))
    assert accepted.ids == [1, 8, 9]
    assert await blocked_by(stage, 9) == (1, 8)


async def test_within_a_submission_it_waits_for_a_job_whose_id_had_to_be_drawn_anew(stage: Stage) -> None:
    await stage.submit(new_job(7))
    accepted = await stage.submit(new_job(7), waiting_for(9, 7))
    drawn, _ = accepted.ids
    assert drawn != 7
    assert await blocked_by(stage, 9) == (drawn,)


async def test_a_job_may_wait_for_ten_thousand(stage: Stage) -> None:
    many = range(100, 10_100)
    await stage.submit(*(new_job(number) for number in many))
    await stage.submit(waiting_for(9, *many))
    assert await blocked_by(stage, 9) == tuple(many)
    assert await stage.store.ended_states(many) == {}


# --- the leader ------------------------------------------------------------------------------------------
async def test_ended_states_says_how_jobs_ended_and_which_are_gone(stage: Stage) -> None:
    ways = {2: "succeeded", 3: "failed", 4: "cancelled", 5: "unknown"}
    await stage.submit(*(new_job(number, delivery=Delivery.AT_MOST_ONCE) for number in range(1, 8)))
    await stage.begin(*ways, 6)
    for number, state in ways.items():
        await stage.end(number, state=state)
    await stage.submit(waiting_for(8, 1))
    found = await stage.store.ended_states(range(1, 10))
    assert found == {**{number: State(state) for number, state in ways.items()}, 9: None}
    await stage.commit(revives=[Revive(3, NOW, NOW)], resolves=[Resolve(5, 0, "", "failed", b"{}", NOW)])
    assert await stage.store.ended_states([3, 5]) == {5: State.FAILED}


async def test_it_is_released_and_begun_in_the_commit_that_ends_what_it_waited_for(stage: Stage) -> None:
    await stage.submit(new_job(1), waiting_for(8, 1), waiting_for(9, 1))
    await stage.begin(1)
    later = NOW + 60 * SECOND
    receipt = await stage.commit(
        ends=[an_end(1)],
        unblocks=[Unblock(8, NOW + 5), Unblock(9, later)],
        begins=[Begin([8], "w1-a", "w1", NOW + 5)],
    )
    assert [one.job for one in receipt.begun] == [8]
    assert await stage.states(1, 8, 9) == [State.SUCCEEDED, State.RUNNING, State.QUEUED]
    [page] = [page async for page in stage.store.waiting_jobs()]
    assert [(job.job, job.place, job.blocked) for job in arrivals_of(page)] == [(9, later, False)]
    extras = (await stage.get(9)).extras
    assert extras is not None and extras.after == (1,)  # for people to see


@pytest.mark.parametrize("state", ["waiting", "running", "ended", "gone"])
async def test_only_a_blocked_job_is_released(stage: Stage, state: str) -> None:
    if state != "gone":
        await stage.submit(new_job(1))
    if state in ("running", "ended"):
        await stage.begin(1)
    if state == "ended":
        await stage.end(1)
    with pytest.raises(Deposed):
        await stage.commit(unblocks=[Unblock(1, NOW)])


async def test_a_blocked_job_can_be_moved_released_and_dropped_in_one_commit(stage: Stage) -> None:
    await stage.submit(new_job(1), waiting_for(8, 1, unique="k"), waiting_for(9, 1))
    edit = Edit(8, "other", None, 3, (), NOW - 1, NOW - 1, DEFAULT_RULES, Extras(after=(1,)))
    await stage.commit(
        edits=[edit],
        unblocks=[Unblock(8, NOW + 7), Unblock(9, NOW + 7)],
        drops=[Drop(9, "failed", b'{"reason":"dependency"}', NOW)],
    )
    found = await stage.get(8)
    assert (found.queue, found.state, found.run_at, found.place) == ("other", State.QUEUED, NOW - 1, NOW + 7)
    assert await stage.store.find_claim("other", "k", NOW) == 8
    assert await stage.states(9) == [State.FAILED]


async def test_one_that_failed_with_another_is_tried_again_without_waiting(stage: Stage) -> None:
    await stage.submit(new_job(1), waiting_for(9, 1))
    await stage.commit(drops=[Drop(9, "failed", b"{}", NOW)])
    receipt = await stage.commit(revives=[Revive(9, NOW, NOW)])
    assert [job.state for job in receipt.revived] == [State.QUEUED]
    assert [one.job for one in await stage.begin(9)] == [9]


# --- groups ----------------------------------------------------------------------------------------------
async def test_jobs_are_found_by_their_group(stage: Stage) -> None:
    await stage.run(new_job(1, extras=Extras(group="night-7")))
    await stage.submit(new_job(2, extras=Extras(group="night-8")), new_job(3), waiting_for(4, 1))
    for query, ids in (
        (where("group", "night-7"), [1]),
        (where("group", "night-*"), [2, 1]),
        (where("group", "night-7", "night-8"), [2, 1]),
        (where("group", "night-?", negated=True), [4, 3]),
    ):
        found = await stage.store.search(query, now=NOW)
        assert [job.id for job in found.jobs] == ids, query
