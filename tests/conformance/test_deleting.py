"""Jobs that have ended are deleted by their ids, with all they wrote, by whoever leads."""

from __future__ import annotations

import pytest

from fairway.errors import Deposed
from fairway.store import LogLine, NoteRow
from tests.conformance.stage import NOW, Stage, new_job


async def filled(stage: Stage) -> None:
    """Let jobs 1 to 4 end; 5 runs, 6 waits."""
    await stage.run(*(new_job(number) for number in range(1, 5)))
    await stage.submit(new_job(5), new_job(6))
    await stage.begin(5)


async def left(stage: Stage) -> list[int]:
    return sorted(job.id for job in await stage.store.find_jobs(range(1, 8)))


async def test_only_ended_jobs_go(stage: Stage) -> None:
    await filled(stage)
    gone = await stage.store.delete_jobs(stage.term, "leader", [1, 3, 5, 6, 7])
    assert sorted(gone) == [1, 3]
    assert await left(stage) == [2, 4, 5, 6]
    assert await stage.store.delete_jobs(stage.term, "leader", [1, 3]) == []


async def test_what_they_wrote_and_said_goes_with_them(stage: Stage) -> None:
    await filled(stage)
    await stage.store.add_log([LogLine(job, 1, 0, NOW, "stdout", "hi") for job in (1, 2)])
    await stage.store.save_notes([NoteRow(job, 1, "w1-a", 0.5, "half", b"{}") for job in (1, 2)], NOW)
    await stage.store.delete_jobs(stage.term, "leader", [1])
    assert await stage.store.read_log(1, None) == []
    assert len(await stage.store.read_log(2, None)) == 1
    assert set(await stage.store.find_notes([1, 2])) == {2}


@pytest.mark.parametrize(("later", "holder"), [(1, "leader"), (-1, "leader"), (0, "somebody")])
async def test_a_leader_whose_term_is_over_deletes_nothing(stage: Stage, later: int, holder: str) -> None:
    await filled(stage)
    with pytest.raises(Deposed):
        await stage.store.delete_jobs(stage.term + later, holder, [1])
    assert await left(stage) == [1, 2, 3, 4, 5, 6]
