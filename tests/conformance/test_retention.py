"""Ended jobs of some queues are forgotten, by the time they ended and with what they wrote."""

from __future__ import annotations

from fairway.store import LogLine
from tests.conformance.stage import NOW, SECOND, Stage, new_job


async def filled(stage: Stage) -> None:
    """Let jobs 1 to 6 end a second after each other, in turns in two queues; 7 still waits."""
    for job in range(1, 7):
        queue = "acme/a" if job % 2 else "beta"
        await stage.run(new_job(job, queue=queue), ended_at=NOW + job * SECOND)
    await stage.submit(new_job(7, queue="acme/a"))


async def left(stage: Stage) -> list[int]:
    return sorted(job.id for job in await stage.store.find_jobs(range(1, 8)))


async def test_the_queues_of_what_ended_in_a_time_are_named(stage: Stage) -> None:
    await filled(stage)
    store = stage.store
    assert sorted(await store.ended_queues(NOW, NOW + 9 * SECOND)) == ["acme/a", "beta"]
    assert await store.ended_queues(NOW + 2 * SECOND, NOW + 3 * SECOND) == ["beta"]
    assert await store.ended_queues(NOW + 7 * SECOND, NOW + 9 * SECOND) == []


async def test_only_jobs_of_these_queues_that_ended_in_that_time_go(stage: Stage) -> None:
    await filled(stage)
    gone = await stage.store.forget_ended(["acme/a", "nobody"], NOW + 2 * SECOND, NOW + 5 * SECOND)
    assert gone == 1
    assert await left(stage) == [1, 2, 4, 5, 6, 7]
    assert await stage.store.forget_ended(["acme"], NOW, NOW + 9 * SECOND) == 0  # a parent is another queue
    assert await stage.store.forget_ended(["acme/a"], NOW, NOW + 9 * SECOND) == 2
    assert await left(stage) == [2, 4, 6, 7]


async def test_a_bounded_number_goes_at_a_time(stage: Stage) -> None:
    await filled(stage)
    counts = [await stage.store.forget_ended(["beta"], NOW, NOW + 9 * SECOND, most=2) for _ in range(3)]
    assert counts == [2, 1, 0]
    assert await left(stage) == [1, 3, 5, 7]


async def test_what_they_wrote_goes_with_them(stage: Stage) -> None:
    await filled(stage)
    await stage.store.add_log([LogLine(job, 1, 0, NOW, "stdout", "hi") for job in (1, 2)])
    await stage.store.forget_ended(["beta"], NOW, NOW + 9 * SECOND)
    assert await stage.store.read_log(2, None) == []
    assert len(await stage.store.read_log(1, None)) == 1
