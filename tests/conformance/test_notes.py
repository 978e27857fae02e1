"""What attempts say of themselves: kept for the attempt that may say it, and gone with its job."""

from __future__ import annotations

from typing import Any

import pytest

from fairway.core.plan import Return, Revive
from fairway.store import NoteRow, StoredNote
from tests.conformance.stage import NOW, SECOND, Stage, new_job


def note(attempt: int = 1, incarnation: str = "w1-a", job: int = 1, **said: Any) -> NoteRow:
    """Make a note of job 1's first attempt, but for what a test wants different."""
    return NoteRow(job, attempt, incarnation, **said)


async def running(stage: Stage) -> Stage:
    """Let job 1 run on its first attempt."""
    await stage.submit(new_job(1))
    await stage.begin(1)
    return stage


async def returned(stage: Stage) -> None:
    """Let job 1 come back and begin its second attempt on another worker."""
    await stage.commit(returns=[Return(1, 1, "w1-a", NOW, NOW, 1, 0, (), b"{}")])
    await stage.begin(1, incarnation="w2-b", worker="w2")


async def found(stage: Stage) -> StoredNote | None:
    return (await stage.store.find_notes([1])).get(1)


async def test_the_last_word_on_each_thing_stays(stage: Stage) -> None:
    store = (await running(stage)).store
    await store.save_notes([note(progress=0.25, text="a quarter")], NOW)
    await store.save_notes([note(checkpoint=b'{"at":1}')], NOW + 1)
    await store.save_notes([note(progress=0.5)], NOW + 2)
    await store.save_notes([note(cpu_seconds=1.5, memory_bytes=1 << 40)], NOW + 3)
    assert await found(stage) == StoredNote(1, 1, 0.5, "", 1.5, 1 << 40, 0.25, NOW, NOW + 2, NOW + 1)
    assert await store.checkpoints([1, 2]) == {1: b'{"at":1}'}
    await store.save_notes([note(checkpoint=b'{"at":2}')], NOW + 4)
    assert await store.checkpoints([1]) == {1: b'{"at":2}'}


async def test_several_attempts_are_noted_at_once(stage: Stage) -> None:
    store = stage.store
    await stage.submit(new_job(1), new_job(2), new_job(3))
    await stage.begin(1, 2)
    said = [note(job=job, progress=job / 10) for job in (1, 2, 3, 4)]
    await store.save_notes(said, NOW)
    await store.save_notes([], NOW)
    notes = await store.find_notes([1, 2, 3, 4])
    assert {job: one.progress for job, one in notes.items()} == {1: 0.1, 2: 0.2}  # 3 waits, 4 is not there


@pytest.mark.parametrize("stale", [note(2), note(1, "w2-b"), note(0), note(2, "w2-b")])
async def test_only_the_running_attempt_under_its_incarnation_is_noted(stage: Stage, stale: NoteRow) -> None:
    store = (await running(stage)).store
    await store.save_notes([stale._replace(progress=0.9, checkpoint=b"9")], NOW)
    assert await found(stage) is None
    assert await store.checkpoints([1]) == {}


async def test_an_attempt_that_another_took_over_from_changes_nothing(stage: Stage) -> None:
    store = (await running(stage)).store
    await store.save_notes([note(progress=0.2, checkpoint=b"1")], NOW)
    await returned(stage)
    await store.save_notes([note(2, "w2-b", progress=0.3, checkpoint=b"2")], NOW + 1)
    await store.save_notes([note(progress=0.9, checkpoint=b"9", cpu_seconds=9.0)], NOW + 2)
    assert await store.checkpoints([1]) == {1: b"2"}
    assert [(one.attempt, one.progress, one.cpu_seconds) for one in await store.attempt_notes(1)] == [
        (2, 0.3, None),
        (1, 0.2, None),
    ]


async def test_the_next_attempt_goes_on_from_the_newest_checkpoint_there_is(stage: Stage) -> None:
    store = (await running(stage)).store
    await store.save_notes([note(checkpoint=b"1")], NOW)
    await returned(stage)
    await store.save_notes([note(2, "w2-b", progress=0.5)], NOW + 1)  # it left none of its own
    assert await store.checkpoints([1]) == {1: b"1"}
    last = await found(stage)
    assert last is not None and (last.attempt, last.checkpoint_at) == (2, NOW)


async def test_a_note_may_come_just_behind_the_end_or_the_return(stage: Stage) -> None:
    store = (await running(stage)).store
    await stage.commit(returns=[Return(1, 1, "w1-a", NOW, NOW, 1, 0, (), b"{}")])
    await store.save_notes([note(checkpoint=b"1")], NOW)
    assert await store.checkpoints([1]) == {1: b"1"}
    await stage.begin(1)
    await stage.end(1, attempt=2)
    await store.save_notes([note(2, cpu_seconds=0.5, memory_bytes=7)], NOW)
    last = await found(stage)
    assert last is not None and (last.attempt, last.cpu_seconds, last.memory_bytes) == (2, 0.5, 7)


async def test_a_persons_retry_starts_anew(stage: Stage) -> None:
    store = (await running(stage)).store
    await store.save_notes([note(progress=0.5, checkpoint=b"1")], NOW)
    await stage.end(1, state="failed", outcome=b"{}")
    await stage.commit(revives=[Revive(1, NOW, NOW)])
    assert await store.checkpoints([1]) == {}
    await store.save_notes([note(checkpoint=b"late")], NOW)
    assert await store.checkpoints([1]) == {}
    last = await found(stage)
    assert last is not None and (last.progress, last.checkpoint_at) == (0.5, None)  # what was is still told
    [old] = await store.attempt_notes(1)
    assert old.checkpoint_at == NOW


async def test_notes_of_attempts_come_a_bounded_number_at_a_time(stage: Stage) -> None:
    store = (await running(stage)).store
    await store.save_notes([note(progress=0.1)], NOW)
    await returned(stage)
    await store.save_notes([note(2, "w2-b", progress=0.2)], NOW)
    assert [one.attempt for one in await store.attempt_notes(1, most=1)] == [2]
    assert await store.attempt_notes(2) == []


async def test_of_many_attempts_the_last_hundred_stay_and_the_checkpoint_that_counts(stage: Stage) -> None:
    store = (await running(stage)).store
    await store.save_notes([note(checkpoint=b"1")], NOW)
    for attempt in range(2, 104):
        await stage.commit(returns=[Return(1, attempt - 1, "w1-a", NOW, NOW, 1, 0, (), b"{}")])
        await stage.begin(1)
        await store.save_notes([note(attempt, progress=0.5)], NOW)
    kept = [one.attempt for one in await store.attempt_notes(1, most=1000)]
    assert kept == [*range(103, 3, -1), 1]
    assert await store.checkpoints([1]) == {1: b"1"}
    await store.save_notes([note(103, checkpoint=b"2")], NOW)
    await store.save_notes([note(103, progress=0.6)], NOW)
    kept = [one.attempt for one in await store.attempt_notes(1, most=1000)]
    assert kept == [*range(103, 3, -1)]
    assert await store.checkpoints([1]) == {1: b"2"}


@pytest.mark.parametrize("by", ["time", "queue"])
async def test_notes_go_with_their_job(stage: Stage, by: str) -> None:
    store = stage.store
    await stage.submit(new_job(1), new_job(2))
    await stage.begin(1, 2)
    await store.save_notes([note(job=job, progress=0.5, checkpoint=b"1") for job in (1, 2)], NOW)
    await stage.end(1, ended_at=NOW + 1)
    await stage.end(2, ended_at=NOW + 9 * SECOND)
    if by == "time":
        await store.tidy(NOW + 5 * SECOND, 1.0)
    else:
        await store.forget_ended(["acme/emails"], NOW, NOW + SECOND)
    assert list(await store.find_notes([1, 2])) == [2]
    assert list(await store.checkpoints([1, 2])) == [2]
