"""Events, output, tidying and the doorbell."""

from __future__ import annotations

import asyncio

from fairway.core.plan import Drop, News
from fairway.store import LogLine, NodeRow, NumberedEvent
from tests.conformance.stage import NOW, SECOND, Stage, events_of, new_job, told

DAY = 86_400 * SECOND


async def test_events_are_numbered_by_commit_and_read_from_any_point(stage: Stage) -> None:
    detailed = News("queue.changed", NOW, queue="acme", detail={"limit": 3, "by": ["me"]})
    first = await stage.commit(news=[told("a", 1), detailed])
    silent = await stage.commit(queues=[])
    second = await stage.commit(news=[told("b", 2)])
    one, two, three = events_of([told("a", 1), detailed, told("b", 2)])
    assert silent.number is None
    assert first.number and second.number == first.number + 1
    expected = [
        NumberedEvent(first.number, 0, one),
        NumberedEvent(first.number, 1, two),
        NumberedEvent(second.number, 0, three),
    ]
    assert await stage.store.events_after(0, -1) == expected
    assert await stage.store.events_after(first.number, 0) == expected[1:]
    assert await stage.store.events_after(first.number, 1) == expected[2:]
    assert await stage.store.events_after(0, -1, most=2) == expected[:2]
    assert await stage.store.events_after(second.number, 0) == []
    assert await stage.store.event_span() == (first.number, second.number)


async def test_event_numbers_go_on_after_old_events_were_forgotten(stage: Stage) -> None:
    first = await stage.commit(news=[told("a")])
    await stage.store.tidy(NOW + 2 * DAY, 0)
    later = await stage.commit(news=[told("b")])
    assert later.number == (first.number or 0) + 1


def line(number: int, attempt: int = 1, job: int = 1, text: str = "x") -> LogLine:
    return LogLine(job, attempt, number, NOW, "stdout", text)


async def test_output_is_read_back_by_attempt(stage: Stage) -> None:
    await stage.store.add_log([line(0), line(1, text="ö\n"), line(0, attempt=2), line(0, job=2)])
    assert await stage.store.read_log(1, 1) == [line(0), line(1, text="ö\n")]
    assert await stage.store.read_log(1, None) == [line(0, attempt=2)]
    assert await stage.store.read_log(1, 1, after=0) == [line(1, text="ö\n")]
    assert await stage.store.read_log(1, 1, most=1) == [line(0)]
    assert await stage.store.read_log(3, None) == []


async def test_output_sent_twice_is_kept_once(stage: Stage) -> None:
    await stage.store.add_log([line(0), line(1)])
    await stage.store.add_log([line(1, text="again"), line(2)])
    assert await stage.store.read_log(1, 1) == [line(0), line(1), line(2)]


async def test_tidy_forgets_what_is_old_and_only_that(stage: Stage) -> None:
    await stage.run(new_job(1), ended_at=NOW)
    await stage.run(new_job(2), ended_at=NOW + 100 * SECOND)
    await stage.submit(new_job(3))
    await stage.store.add_log([line(0), line(0, job=2)])
    assert await stage.store.tidy(NOW + 110 * SECOND, keep_ended_seconds=50) >= 2
    assert sorted(job.id for job in await stage.store.find_jobs([1, 2, 3])) == [2, 3]
    assert await stage.store.read_log(1, None) == []
    assert await stage.store.read_log(2, None) == [line(0, job=2)]


async def test_tidy_takes_a_bounded_number_at_a_time(stage: Stage) -> None:
    for number in (3, 1, 2):
        await stage.run(new_job(number), ended_at=NOW - number * SECOND)
    left = []
    for _ in range(3):
        await stage.store.tidy(NOW + SECOND, 0, most=1)
        left.append(sorted(job.id for job in await stage.store.find_jobs([1, 2, 3])))
    assert [len(some) for some in left] == [2, 1, 0]


async def test_tidy_forgets_keys_and_nodes_after_their_time(stage: Stage) -> None:
    await stage.submit(new_job(1), key="r")
    await stage.store.save_node(NodeRow("n", "n-1", "", "1", NOW, NOW))
    await stage.store.tidy(NOW + 60 * SECOND, 0)
    assert (await stage.submit(new_job(2), key="r")).ids == [1]
    assert len(await stage.store.nodes()) == 1
    assert await stage.store.tidy(NOW + DAY, 0) == 2
    assert await stage.store.nodes() == []
    assert (await stage.submit(new_job(3), key="r")).ids == [3]


async def test_an_arrival_whose_job_ended_is_neither_given_out_nor_kept(stage: Stage) -> None:
    await stage.submit(new_job(1))
    await stage.submit(new_job(2))
    await stage.commit(drops=[Drop(1, "cancelled", None, NOW)])
    assert await stage.arrived() == [2]
    assert await stage.store.tidy(NOW, 3600) == 1
    assert await stage.arrived() == [2]


async def test_a_submit_rings(stage: Stage) -> None:
    await stage.store.wait_for_ring(0)
    assert not await stage.store.wait_for_ring(0.01)
    waiting = asyncio.create_task(stage.store.wait_for_ring(30))
    await stage.submit(new_job(1))
    assert await waiting
    assert not await stage.store.wait_for_ring(0.01)
