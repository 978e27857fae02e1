"""A schedule's row and its jobs are written together, by the leader of the term, from the revision it saw."""

from __future__ import annotations

import pytest

from fairway.errors import Deposed
from fairway.store import Accepted, NewJob, ScheduleChange, ScheduleRow, Submission
from tests.conformance.stage import NOW, Stage, new_job


def a_row(revision: int, name: str = "night", progress: bytes = b'{"seen":1}') -> ScheduleRow:
    return ScheduleRow(name, revision, b'{"every":60}', progress, NOW, NOW + 1)


async def write(
    stage: Stage, before: int, row: ScheduleRow | None, *jobs: NewJob, name: str = "night", term: int = 0
) -> list[Accepted] | None:
    change = ScheduleChange(name, before, row, [Submission([job]) for job in jobs])
    return await stage.store.write_schedule(term or stage.term, "leader", change, NOW)


async def test_a_schedule_is_made_changed_and_deleted(stage: Stage) -> None:
    assert await stage.store.find_schedule("night") is None
    assert await write(stage, 0, a_row(5)) == []
    assert await stage.store.find_schedule("night") == a_row(5)
    assert await write(stage, 5, a_row(6, progress=b"{}")) == []
    assert await stage.store.find_schedule("night") == a_row(6, progress=b"{}")
    assert await write(stage, 6, None) == []
    assert await stage.store.schedule_rows() == []


async def test_schedules_are_listed_by_name(stage: Stage) -> None:
    for name in ("b", "a", "c"):
        await write(stage, 0, a_row(1, name), name=name)
    assert [row.name for row in await stage.store.schedule_rows()] == ["a", "b", "c"]


async def test_the_jobs_of_a_fire_are_inserted_with_its_row_and_the_leader_is_told(stage: Stage) -> None:
    await write(stage, 0, a_row(1))
    assert await write(stage, 1, a_row(2), new_job(7), new_job(8)) == [
        Accepted([7], [False]),
        Accepted([8], [False]),
    ]
    assert await stage.arrived() == [7, 8]
    assert await stage.waiting() == [7, 8]


@pytest.mark.parametrize(("before", "row"), [(2, a_row(3)), (2, None), (0, a_row(3))])
async def test_who_saw_another_revision_writes_nothing(
    stage: Stage, before: int, row: ScheduleRow | None
) -> None:
    await write(stage, 0, a_row(1))
    assert await write(stage, before, row, new_job(7)) is None
    assert await stage.store.schedule_rows() == [a_row(1)]
    assert await stage.store.find_job(7) is None


async def test_a_schedule_that_is_gone_is_not_written(stage: Stage) -> None:
    assert await write(stage, 1, a_row(2), new_job(7)) is None
    assert await stage.store.schedule_rows() == [] and await stage.waiting() == []


async def test_a_leader_whose_term_is_over_fires_nothing(stage: Stage) -> None:
    await write(stage, 0, a_row(1))
    old = stage.term
    await stage.lead()
    with pytest.raises(Deposed):
        await write(stage, 1, a_row(2), new_job(7), term=old)
    assert await stage.store.schedule_rows() == [a_row(1)]
    assert await stage.store.find_job(7) is None


async def test_a_unique_key_that_has_a_job_answers_with_it(stage: Stage) -> None:
    await write(stage, 0, a_row(1))
    await stage.submit(new_job(5, unique="k"))
    assert await write(stage, 1, a_row(2), new_job(7, unique="k")) == [Accepted([5], [True])]
    assert await stage.store.find_schedule("night") == a_row(2)
