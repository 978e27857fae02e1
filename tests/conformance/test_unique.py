"""Unique keys: whose they are, how long they last, and how a newer job takes one."""

from __future__ import annotations

import pytest

from fairway.core.lifecycle import State
from fairway.core.model import DEFAULT_RULES, Extras
from fairway.core.plan import Begin, Drop, Edit, Move, Return, Revive, SaveQueue
from fairway.store import Accepted, NewJob, Submission
from tests.conformance.stage import NOW, SECOND, Stage, an_end, new_job

HOUR = 3600 * SECOND
FOR_AN_HOUR = Extras(unique_for=3600.0)


def keyed(number: int, key: str = "k", **changes: object) -> NewJob:
    """Make a job with a key that is taken for an hour."""
    return new_job(number, unique=key, extras=FOR_AN_HOUR, **changes)


def newer(number: int, key: str = "k", **changes: object) -> NewJob:
    """Make a job that replaces the one that has its key."""
    return new_job(number, unique=key, replace=True, **changes)


async def submit_at(stage: Stage, now: int, *jobs: NewJob) -> Accepted:
    [accepted] = await stage.store.submit([Submission(jobs)], now)
    return accepted


async def move(stage: Stage, job: int, queue: str) -> None:
    extras = (await stage.get(job)).extras
    await stage.commit(edits=[Edit(job, queue, None, 0, (), NOW, NOW, DEFAULT_RULES, extras)])


async def replaced(stage: Stage, *jobs: int) -> list[int]:
    return sorted(arrival.job for arrival in await stage.store.find_replaced(jobs))


# --- keys that last --------------------------------------------------------------------------------------
@pytest.mark.parametrize("by_leader", [True, False])
async def test_a_key_outlives_its_job_until_its_time_is_over(stage: Stage, by_leader: bool) -> None:
    if by_leader:
        await stage.commit(Submission([keyed(1)]))
    else:
        await stage.submit(keyed(1))
    await stage.begin(1)
    await stage.end(1, unique="k")
    assert await submit_at(stage, NOW + HOUR - 1, new_job(2, unique="k")) == Accepted([1], [True])
    assert await stage.store.find_claim("acme/emails", "k", NOW + HOUR - 1) == 1
    assert await stage.store.find_claim("acme/emails", "k", NOW + HOUR) is None
    assert await submit_at(stage, NOW + HOUR, new_job(3, unique="k")) == Accepted([3], [False])
    assert await submit_at(stage, NOW + HOUR, new_job(4, unique="k")) == Accepted([3], [True])


async def test_a_key_is_held_while_its_job_lives_however_long(stage: Stage) -> None:
    await stage.submit(keyed(1))
    assert (await submit_at(stage, NOW + 2 * HOUR, new_job(2, unique="k"))).ids == [1]
    await stage.begin(1)
    assert (await submit_at(stage, NOW + 2 * HOUR, new_job(3, unique="k"))).ids == [1]
    await stage.commit(ends=[an_end(1, unique="k")], now=NOW + 2 * HOUR)
    assert (await submit_at(stage, NOW + 2 * HOUR, new_job(4, unique="k"))).ids == [4]


async def test_the_key_of_a_job_that_is_dropped_lasts_as_well(stage: Stage) -> None:
    await stage.submit(keyed(1), new_job(2, unique="l"))
    await stage.commit(drops=[Drop(job, "cancelled", None, NOW) for job in (1, 2)])
    accepted = await stage.submit(new_job(3, unique="k"), new_job(4, unique="l"))
    assert accepted == Accepted([1, 4], [True, False])


async def test_an_ended_job_gets_its_own_key_back(stage: Stage) -> None:
    await stage.run(keyed(1))
    receipt = await stage.commit(revives=[Revive(1, NOW, NOW)])
    assert [job.id for job in receipt.revived] == [1]
    # Not over any more: a time that has passed does not free it.
    assert (await submit_at(stage, NOW + 2 * HOUR, new_job(2, unique="k"))).ids == [1]
    await stage.begin(1)
    await stage.end(1, 2, unique="k")
    assert (await submit_at(stage, NOW + HOUR - 1, new_job(3, unique="k"))).ids == [1]


async def test_an_ended_job_is_not_revived_while_another_has_its_key(stage: Stage) -> None:
    await stage.run(new_job(1, unique="k"))
    await stage.run(keyed(2))
    assert (await stage.commit(revives=[Revive(1, NOW, NOW)])).revived == []
    receipt = await stage.commit(revives=[Revive(1, NOW, NOW)], now=NOW + HOUR)
    assert [job.id for job in receipt.revived] == [1]
    assert await stage.store.find_claim("acme/emails", "k", NOW + HOUR) == 1


async def test_a_key_that_lasts_moves_with_its_job(stage: Stage) -> None:
    await stage.submit(keyed(1))
    await move(stage, 1, "other")
    assert (await stage.submit(new_job(2, unique="k"))).ids == [2]
    await stage.begin(1)
    await stage.end(1, unique="k", queue="other")
    assert (await stage.submit(new_job(3, unique="k", queue="other"))).ids == [1]


async def test_a_job_moves_without_its_key_to_where_an_ended_job_has_it(stage: Stage) -> None:
    await stage.run(keyed(1, queue="other"))
    await stage.submit(new_job(2, unique="k"))
    await move(stage, 2, "other")
    assert (await stage.get(2)).unique is None
    await stage.submit(new_job(3, unique="k"))
    await stage.commit(edits=[Edit(3, "other", None, 0, (), NOW, NOW, DEFAULT_RULES)], now=NOW + HOUR)
    assert (await stage.get(3)).unique == "k"


async def test_tidying_forgets_keys_that_are_over_and_past_and_no_others(stage: Stage) -> None:
    await stage.run(keyed(1, "ended"))
    await stage.submit(keyed(2, "waits"))
    await stage.store.tidy(NOW + HOUR - 1, keep_ended_seconds=60)
    assert await stage.store.find_job(1) is None  # forgotten, but its key is taken still
    assert (await submit_at(stage, NOW + HOUR - 1, new_job(3, unique="ended"))).ids == [1]
    assert await stage.store.tidy(NOW + HOUR, keep_ended_seconds=60) == 1
    assert await stage.store.tidy(NOW + HOUR, keep_ended_seconds=60) == 0
    assert (await submit_at(stage, NOW + HOUR, new_job(4, unique="waits"))).ids == [2]


# --- the newest takes the key ----------------------------------------------------------------------------
async def test_a_newer_job_takes_the_key_and_says_from_whom(stage: Stage) -> None:
    await stage.submit(new_job(1, unique="k"))
    assert await stage.submit(newer(2, extras=FOR_AN_HOUR)) == Accepted([2], [False])
    assert (await stage.get(2)).extras == Extras(unique_for=3600.0, replaces=1)
    assert [
        taken.job.extras.replaces for taken in await stage.store.take_arrivals(0) if taken.job.extras
    ] == [1]
    assert await stage.waiting() == [1, 2]  # what to do with the old one is the leader's
    assert await replaced(stage, 1, 2) == [1]
    assert (await stage.submit(new_job(3, unique="k"))).ids == [2]


async def test_a_newer_job_that_finds_the_key_free_replaces_nothing(stage: Stage) -> None:
    assert (await stage.submit(newer(1))).ids == [1]
    assert (await stage.get(1)).extras is None
    assert await replaced(stage, 1) == []


async def test_the_end_of_a_replaced_job_leaves_the_key_to_the_newer_one(stage: Stage) -> None:
    await stage.submit(new_job(1, unique="k"))
    await stage.begin(1)
    await stage.submit(newer(2))
    assert await replaced(stage, 1, 2) == [1]
    await stage.end(1, unique="k")
    assert await replaced(stage, 1, 2) == []
    assert (await stage.submit(new_job(3, unique="k"))).ids == [2]
    await stage.commit(drops=[Drop(2, "cancelled", None, NOW)])
    assert (await stage.submit(new_job(4, unique="k"))).ids == [4]


async def test_a_running_job_stays_replaced_when_the_newer_one_has_ended(stage: Stage) -> None:
    await stage.submit(new_job(1, unique="k"))
    await stage.begin(1)
    await stage.submit(newer(2))
    await stage.begin(2)
    await stage.end(2, unique="k")
    assert await replaced(stage, 1, 2) == [1]
    await stage.commit(returns=[Return(1, 1, "w1-a", NOW, NOW, 1, 0, (), None)])
    assert await replaced(stage, 1, 2) == [1]


async def test_a_dropped_job_that_was_replaced_leaves_the_key_alone(stage: Stage) -> None:
    await stage.submit(keyed(1))
    await stage.submit(newer(2))
    await stage.commit(drops=[Drop(1, "cancelled", None, NOW)])
    assert await stage.store.find_claim("acme/emails", "k", NOW) == 2
    assert (await stage.commit(revives=[Revive(1, NOW, NOW)])).revived == []


async def test_a_newer_job_takes_a_key_that_outlived_its_job(stage: Stage) -> None:
    await stage.run(keyed(1))
    assert await stage.submit(newer(2)) == Accepted([2], [False])
    assert await replaced(stage, 1, 2) == []


async def test_in_a_bulk_each_newer_job_replaces_the_one_before_it(stage: Stage) -> None:
    await stage.submit(new_job(1, unique="k"))
    bulk = [new_job(2, unique="k"), newer(3), newer(4), new_job(5, unique="k"), newer(6, "l"), new_job(7)]
    assert await stage.submit(*bulk) == Accepted([1, 3, 4, 4, 6, 7], [True, False, False, True, False, False])
    assert await replaced(stage, *range(1, 8)) == [1, 3]
    extras = {job.id: job.extras for job in await stage.store.find_jobs(range(1, 8))}
    assert {job: found.replaces for job, found in extras.items() if found} == {3: 1, 4: 3}


async def test_in_a_bulk_the_first_job_of_a_free_key_may_be_replaced_at_once(stage: Stage) -> None:
    assert (await stage.submit(new_job(1, unique="k"), newer(2))).ids == [1, 2]
    assert await replaced(stage, 1, 2) == [1]
    assert (await stage.get(2)).extras == Extras(replaces=1)


async def test_a_request_that_is_made_again_replaces_once(stage: Stage) -> None:
    await stage.submit(new_job(1, unique="k"))
    assert (await stage.submit(newer(2), key="r")).ids == [2]
    assert await stage.submit(newer(3), key="r") == Accepted([2], [True])
    assert await stage.waiting() == [1, 2]


async def test_a_moved_job_holds_its_key_where_it_is_now(stage: Stage) -> None:
    await stage.submit(new_job(1, unique="k"))
    await stage.submit(newer(2))
    await move(stage, 1, "other")  # before the leader looked at the newer one
    assert await replaced(stage, 1, 2) == []
    assert (await stage.submit(new_job(3, unique="k"))).ids == [2]
    assert (await stage.submit(new_job(4, unique="k", queue="other"))).ids == [1]


async def test_a_branch_takes_keys_along_as_long_as_they_last(stage: Stage) -> None:
    await stage.run(keyed(1, "old"))
    await stage.submit(keyed(2), keyed(3, "l"))
    await stage.begin(2)
    await stage.commit(moves=[Move([2, 3], "other")])
    await stage.commit(ends=[an_end(2, unique="k", queue="other")])
    await stage.commit(drops=[Drop(3, "cancelled", None, NOW)])
    for key, holder in (("k", 2), ("l", 3)):
        assert await stage.store.find_claim("acme/emails", key, NOW) is None
        assert await stage.store.find_claim("other", key, NOW + HOUR - 1) == holder
        assert await stage.store.find_claim("other", key, NOW + HOUR) is None
    assert await stage.store.find_claim("acme/emails", "old", NOW) == 1


@pytest.mark.parametrize("order", [[1, 2], [2, 1]])
async def test_a_replaced_job_of_a_branch_that_moves_gets_no_other_key(
    stage: Stage, order: list[int]
) -> None:
    await stage.submit(new_job(1, unique="k"))
    await stage.begin(1)
    await stage.submit(newer(2))
    for job in order:
        await stage.commit(moves=[Move([job], "other")])
    assert await replaced(stage, 1, 2) == [1]
    assert await stage.store.find_claim("other", "k", NOW) == 2


async def test_replaced_jobs_are_shown_where_they_stand(stage: Stage) -> None:
    await stage.submit(new_job(1, unique="k", flow="u", priority=3, tags=("gpu",), run_at=NOW + 5))
    await stage.submit(newer(2))
    [arrival] = await stage.store.find_replaced([1])
    assert (arrival.queue, arrival.flow, arrival.priority, arrival.place) == ("acme/emails", "u", 3, NOW + 5)
    assert arrival.shape.tags == ("gpu",)
    await stage.commit(drops=[Drop(1, "cancelled", None, NOW)], begins=[Begin([2], "w1-a", "w1", NOW)])
    assert await stage.states(1, 2) == [State.CANCELLED, State.RUNNING]


async def test_many_keys_at_once(stage: Stage) -> None:
    first = [keyed(number, f"k{number}") for number in range(1, 3001)]
    assert not any((await stage.submit(*first)).existed)
    again = [newer(number + 3000, f"k{number}") for number in range(1, 3001)]
    assert (await stage.submit(*again)).ids == list(range(3001, 6001))
    assert await replaced(stage, *range(1, 6001)) == list(range(1, 3001))
    equal = [new_job(number + 6000, unique=f"k{number}") for number in range(1, 3001)]
    assert (await stage.submit(*equal)).ids == list(range(3001, 6001))


async def test_many_keys_that_outlived_their_jobs_are_taken_at_once(stage: Stage) -> None:
    await stage.submit(*(keyed(number, f"k{number}") for number in range(1, 3001)))
    await stage.commit(drops=[Drop(number, "cancelled", None, NOW) for number in range(1, 3001)])
    again = [new_job(number + 3000, unique=f"k{number}") for number in range(1, 3001)]
    assert all((await stage.submit(*again)).existed)
    assert (await submit_at(stage, NOW + HOUR, *again)).ids == list(range(3001, 6001))


async def test_queues_are_found_by_path(stage: Stage) -> None:
    rows = {"acme": b'{"unique":true}', "acme/emails": b"{}", "beta": b"{}"}
    await stage.commit(queues=[SaveQueue(path, settings, NOW) for path, settings in rows.items()])
    assert await stage.store.find_queues(["acme", "acme/emails", "acme/none"]) == {
        "acme": b'{"unique":true}',
        "acme/emails": b"{}",
    }
