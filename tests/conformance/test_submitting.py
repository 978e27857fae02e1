"""Jobs come in once: whole, with their keys, and the leader hears of them."""

from __future__ import annotations

from typing import Any

import pytest

from fairway.core.lifecycle import State
from fairway.core.model import Alike, Arrival, Delivery, Extras, Rules, Shape
from fairway.core.plan import Begin
from fairway.store import Accepted, Request, Submission, WaitingPage
from tests.conformance.stage import NOW, SECOND, Stage, arrivals_of, new_job

DAY = 86_400 * SECOND


async def test_a_job_is_stored_as_it_was_submitted(stage: Stage) -> None:
    rules = Rules(max_attempts=None, timeout=2.5, retry_first=0.5)
    job = new_job(
        7, flow="u7", priority=-3, tags=("gpu", "eu-*"), delivery=Delivery.AT_MOST_ONCE, rules=rules,
        payload='{"args":["ö"],"kwargs":{}}'.encode(), unique="k",
    )  # fmt: skip
    accepted = await stage.submit(job)
    assert accepted == Accepted([7], [False])
    stored = await stage.get(7)
    for name in set(job._fields) - {"concurrency", "replace"}:
        assert getattr(stored, name) == getattr(job, name), name
    assert (stored.state, stored.place, stored.attempt) == (State.QUEUED, NOW, 0)
    assert (stored.started_at, stored.ended_at, stored.outcome, stored.cancelling) == (
        None,
        None,
        None,
        False,
    )


async def test_many_jobs_are_stored_as_they_were_submitted(stage: Stage) -> None:
    """So many that a store may take a way of its own for them; neighbours differ in one thing at a time."""
    different = [
        {"queue": "größe"}, {"flow": "u"}, {"priority": -32768}, {"priority": 32767}, {"adapter": "command"},
        {"task": ""}, {"tags": ("gpu", "é")}, {"delivery": Delivery.AT_MOST_ONCE}, {"run_at": NOW - DAY},
        {"created_at": NOW - 5}, {"rules": Rules(timeout=2.5)}, {"payload": b""}, {"unique": "k ö"}, {},
    ]  # fmt: skip
    jobs = [new_job(number, **different[number % len(different)]) for number in range(1, 1201)]
    jobs = [job._replace(unique=job.unique and f"{job.unique}{job.id}") for job in jobs]
    await stage.submit(*jobs)
    stored = {job.id: job for job in await stage.store.find_jobs([job.id for job in jobs])}
    for job in jobs:
        found = stored[job.id]
        assert (found.place, found.state) == (job.run_at, State.QUEUED)
        for name in set(job._fields) - {"concurrency", "replace"}:
            assert getattr(found, name) == getattr(job, name), (job.id, name)


async def test_a_job_for_later_is_scheduled(stage: Stage) -> None:
    await stage.submit(new_job(1, run_at=NOW + 10_000 * DAY))
    assert (await stage.get(1)).state is State.SCHEDULED


async def test_an_unknown_job_is_not_found(stage: Stage) -> None:
    await stage.submit(new_job(1))
    assert await stage.store.find_job(2) is None
    assert [job.id for job in await stage.store.find_jobs([2, 1, 1])] == [1]


async def test_arrivals_are_numbered_in_order_and_carry_where_the_job_stands(stage: Stage) -> None:
    await stage.submit(
        new_job(3, flow="u", priority=2, tags=("gpu",), concurrency=4),
        new_job(5, delivery=Delivery.AT_MOST_ONCE),
    )
    first, second = await stage.store.take_arrivals(0)
    assert first.job == Arrival(3, "acme/emails", "u", 2, Shape("python", "app.send", ("gpu",)), NOW, 4)
    assert second.job.shape.once and second.number >= first.number
    assert second.job.concurrency is None
    assert await stage.store.take_arrivals(second.number) == []
    await stage.submit(new_job(4))
    assert [taken.job.job for taken in await stage.store.take_arrivals(second.number)] == [4]
    assert (await stage.store.take_arrivals(0, most=1))[0] == first  # whole submissions, about so many jobs


@pytest.mark.parametrize("sizes", [[1] * 20, [1] * 21, [20] * 3, [21], [1, 30, 1], [1] * 50, [3] * 20])
async def test_all_that_came_since_is_taken_in_in_its_order(stage: Stage, sizes: list[int]) -> None:
    await stage.submit(new_job(1))
    [first] = await stage.store.take_arrivals(0)
    await stage.commit(taken=[first.number])
    numbers = iter(range(2, 1000))
    came = [[next(numbers) for _ in range(size)] for size in sizes]
    for jobs in came:
        await stage.submit(*(new_job(job, concurrency=job % 3 or None) for job in jobs))
    taken = await stage.store.take_arrivals(first.number)
    assert [one.job.job for one in taken] == [job for jobs in came for job in jobs]
    assert [one.job.concurrency for one in taken] == [one.job.job % 3 or None for one in taken]
    assert [one.number for one in taken] == sorted(one.number for one in taken)
    await stage.commit(taken=sorted({one.number for one in taken}))
    assert await stage.store.take_arrivals(taken[-1].number) == []


async def test_taken_arrivals_are_gone_and_their_numbers_never_come_back(stage: Stage) -> None:
    await stage.submit(new_job(1))
    [taken] = await stage.store.take_arrivals(0)
    await stage.commit(taken=[taken.number])
    assert await stage.store.take_arrivals(0) == []
    await stage.submit(new_job(2))
    [later] = await stage.store.take_arrivals(0)
    assert later.number > taken.number


async def test_what_the_leader_submits_leaves_no_arrival(stage: Stage) -> None:
    receipt = await stage.commit(Submission([new_job(1)]), begins=[Begin([1], "w1-a", "w1", NOW)])
    assert receipt.accepted == [Accepted([1], [False])]
    assert [begun.attempt for begun in receipt.begun] == [1]
    assert await stage.arrived() == []
    assert await stage.states(1) == [State.RUNNING]


async def test_waiting_jobs_come_in_pages_by_id(stage: Stage) -> None:
    await stage.submit(*(new_job(number) for number in (4, 2, 9, 7, 5)))
    await stage.begin(9)
    pages = [page async for page in stage.store.waiting_jobs(page=2)]
    assert [[job.job for job in arrivals_of(page)] for page in pages] == [[2, 4], [5, 7]]
    assert [page.last for page in pages] == [4, 7]


async def test_waiting_jobs_come_to_an_end_although_others_come_all_the_time(stage: Stage) -> None:
    await stage.submit(new_job(1), new_job(2), new_job(3))
    pages: list[list[int]] = []
    async for page in stage.store.waiting_jobs(page=2):
        pages.append([one.job for one in arrivals_of(page)])
        await stage.submit(new_job(3 + len(pages)))
        assert len(pages) < 20
    assert pages == [[1, 2], [3, 4], [5]]


async def test_waiting_jobs_that_are_alike_come_together(stage: Stage) -> None:
    plain, once = Shape("python", "app.send"), Shape("python", "app.send", ("gpu",), True)
    odd: dict[str, Any] = {"flow": "u", "tags": ("gpu",), "delivery": Delivery.AT_MOST_ONCE}
    lines = {
        7: {}, 2: odd, 5: {"run_at": NOW + 9}, 8: {"run_at": NOW + 3}, 4: {**odd, "run_at": NOW - 1},
        6: {"priority": 1}, 3: {"queue": "b"}, 1: {"task": "app.read"}, 9: {"adapter": "http"},
        11: {"extras": Extras(deadline=NOW + 99)}, 10: {"extras": Extras(after=(1,))},
    }  # fmt: skip
    await stage.submit(*(new_job(number, **changes) for number, changes in lines.items()))
    [page] = [page async for page in stage.store.waiting_jobs()]
    assert page == WaitingPage(
        [
            Alike("acme/emails", None, 0, Shape("python", "app.read"), [1], [NOW]),
            Alike("acme/emails", "u", 0, once, [2, 4], [NOW, NOW - 1]),
            Alike("b", None, 0, plain, [3], [NOW]),
            Alike("acme/emails", None, 0, plain, [5, 7, 8], [NOW + 9, NOW, NOW + 3]),
            Alike("acme/emails", None, 1, plain, [6], [NOW]),
            Alike("acme/emails", None, 0, Shape("http", "app.send"), [9], [NOW]),
        ],
        [
            Arrival(10, "acme/emails", None, 0, plain, NOW, None, Extras(after=(1,)), True),
            Arrival(11, "acme/emails", None, 0, plain, NOW, None, Extras(deadline=NOW + 99)),
        ],
        11,
    )


async def test_many_waiting_jobs_of_many_lines_come_once_and_by_id(stage: Stage) -> None:
    places = {number: NOW + number * 7 % 40 for number in range(1, 601)}
    jobs = [new_job(number, queue=f"q{number * number % 11}", run_at=at) for number, at in places.items()]
    await stage.submit(*jobs)
    pages = [page async for page in stage.store.waiting_jobs(page=250)]
    assert [page.last for page in pages] == [250, 500, 600]
    groups = [group for page in pages for group in page.alike]
    assert all(list(group.jobs) == sorted(group.jobs) for group in groups)
    assert sorted(job for group in groups for job in group.jobs) == list(places)
    found = {job.job: (job.queue, job.place) for page in pages for job in arrivals_of(page)}
    assert found == {job.id: (job.queue, job.run_at) for job in jobs}
    for page in pages:
        assert [group.jobs[0] for group in page.alike] == sorted(group.jobs[0] for group in page.alike)


@pytest.mark.parametrize("many", [3, 200])
async def test_ids_need_not_rise_in_the_order_of_their_jobs(stage: Stage, many: int) -> None:
    ids = [*range(2, many + 1), 1]
    jobs = [new_job(number, queue=f"q{number % 3}", payload=b"%d" % number) for number in ids]
    assert await stage.submit(*jobs, key="r") == Accepted(ids, [False] * many)
    assert await stage.submit(*jobs, key="r") == Accepted(ids, [True] * many)
    found = {job.id: (job.queue, job.payload) for job in await stage.store.find_jobs(ids)}
    assert found == {job.id: (job.queue, job.payload) for job in jobs}
    assert sorted(taken.job.job for taken in await stage.store.take_arrivals(0)) == sorted(ids)


async def test_the_same_request_gets_the_same_ids(stage: Stage) -> None:
    assert (await stage.submit(new_job(1), new_job(2), key="r")).existed == [False, False]
    again = await stage.submit(new_job(3), new_job(4), key="r")
    assert again == Accepted([1, 2], [True, True])
    assert await stage.store.find_jobs([3, 4]) == []


async def test_a_request_sent_again_with_its_ids_gets_the_same_ids(stage: Stage) -> None:
    await stage.submit(new_job(1), key="r")
    assert await stage.submit(new_job(1), key="r") == Accepted([1], [True])
    assert await stage.waiting() == [1]


async def test_a_key_used_for_another_payload_is_a_conflict(stage: Stage) -> None:
    await stage.submit(new_job(1), key="r", digest=b"one")
    refused = await stage.submit(new_job(2), key="r", digest=b"two")
    assert refused.problem == "idempotency_conflict"
    assert await stage.store.find_job(2) is None


async def test_a_key_may_be_used_again_after_a_day(stage: Stage) -> None:
    submission = Submission([new_job(1)], Request("r", b"d"))
    await stage.store.submit([submission], NOW)
    later = Submission([new_job(2)], Request("r", b"other"))
    [accepted] = await stage.store.submit([later], NOW + DAY)
    assert accepted == Accepted([2], [False])


async def test_a_unique_key_belongs_to_one_job_of_a_queue(stage: Stage) -> None:
    await stage.submit(new_job(1, unique="k"))
    assert await stage.submit(new_job(2, unique="k"), new_job(3)) == Accepted([1, 3], [True, False])
    assert await stage.submit(new_job(4, unique="k", queue="other")) == Accepted([4], [False])
    assert await stage.waiting() == [1, 3, 4]


async def test_equal_keys_in_one_bulk_share_the_first_job(stage: Stage) -> None:
    bulk = [new_job(1, unique="k"), new_job(2, unique="k"), new_job(3, unique="l")]
    assert await stage.submit(*bulk) == Accepted([1, 1, 3], [False, True, False])
    assert await stage.waiting() == [1, 3]


async def test_a_unique_key_is_free_again_when_its_job_has_ended(stage: Stage) -> None:
    await stage.run(new_job(1, unique="k"))
    assert (await stage.submit(new_job(2, unique="k"))).ids == [2]


async def test_the_second_of_two_submissions_in_one_commit_sees_the_first(stage: Stage) -> None:
    first = Submission([new_job(1, unique="k")], Request("r", b"d"))
    same_key = Submission([new_job(2, unique="k")])
    same_request = Submission([new_job(3)], Request("r", b"d"))
    receipt = await stage.commit(first, same_key, same_request)
    assert [accepted.ids for accepted in receipt.accepted] == [[1], [1], [1]]
    assert receipt.refused == [2, 3]


async def test_an_id_that_is_taken_is_drawn_again(stage: Stage) -> None:
    await stage.submit(new_job(1, task="first"))
    await stage.run(new_job(2, task="second"))
    accepted = await stage.submit(new_job(1), new_job(2), new_job(3))
    assert accepted.existed == [False] * 3 and accepted.ids[2] == 3
    assert len({1, 2, *accepted.ids}) == 5
    assert [(await stage.get(job)).task for job in (1, 2)] == ["first", "second"]
    assert len(await stage.store.find_jobs(accepted.ids)) == 3


async def test_an_id_that_is_taken_counts_as_refused_in_a_commit_and_arrives(stage: Stage) -> None:
    await stage.submit(new_job(1, task="first"))
    [known] = await stage.store.take_arrivals(0)
    receipt = await stage.commit(
        Submission([new_job(1)]), taken=[known.number], begins=[Begin([1], "w1-a", "w1", NOW)]
    )
    [new] = receipt.accepted[0].ids
    assert (receipt.refused, receipt.begun, receipt.accepted[0].existed) == ([1], [], [False])
    assert await stage.arrived() == [new] and new != 1
    assert await stage.states(1, new) == [State.QUEUED, State.QUEUED]
