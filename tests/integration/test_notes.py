"""What attempts say of themselves reaches the worker's agent: progress, checkpoints, what they used."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from fairway.adapters.command import CommandAdapter
from fairway.wire.messages import Note, Result
from fairway.worker import outbox as outboxes
from fairway.worker.outbox import MOST_UNACKNOWLEDGED, Outbox
from fairway.worker.warden import Warden
from tests.integration.test_adapters_python import World
from tests.integration.worker_world import Recorder, call, command


@pytest.fixture
async def warden(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Warden]:
    """A guardian whose children find the tests' app."""
    monkeypatch.chdir(Path(__file__).parent)
    warden = Warden()
    yield warden
    await warden.close()


@pytest.fixture
async def world(warden: Warden) -> World:
    """An adapter that has started."""
    world = World(warden)
    await world.adapter.start(world.recorder)
    return world


def told(recorder: Recorder, job: int = 1) -> list[float]:
    """Return the progress that came, in its order."""
    return [note.progress for note in recorder.notes if note.job == job and note.progress is not None]


def left(recorder: Recorder, job: int = 1) -> list[Any]:
    """Return the checkpoints that came, in their order."""
    bodies = [note.checkpoint for note in recorder.notes if note.job == job]
    return [json.loads(body) for body in bodies if body is not None]


# --- progress ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize("task", ["tell_progress", "nap_and_tell"])
async def test_however_often_a_task_tells_only_a_little_is_sent_and_the_last_word_always(
    world: World, task: str
) -> None:
    recorder = await world.run(call(1, task, 5_000))
    progress = told(recorder)
    assert progress == sorted(progress) and progress[-1] == 1.0
    assert [note.text for note in recorder.notes if note.progress == 1.0] == ["step 5000"]
    assert len(progress) < 200  # of 5,000: five a second, on the slowest of machines


async def test_the_last_word_comes_although_nothing_follows_it(world: World, tmp_path: Path) -> None:
    path = tmp_path / "go"
    world.begin(call(1, "tell_and_wait", str(path)))
    await world.recorder.until(lambda: told(world.recorder)[-1:] == [0.2])
    path.touch()
    await world.recorder.until_ended(1)


async def test_tasks_of_a_bundle_tell_too(world: World) -> None:
    recorder = await world.run(*(call(job, "tell_progress", 3, bundle=1) for job in range(1, 51)))
    assert [told(recorder, job)[-1] for job in range(1, 51)] == [1.0] * 50


# --- checkpoints ------------------------------------------------------------------------------------------
@pytest.mark.parametrize("task", ["go_on", "nap_and_tell"])
async def test_an_attempt_gets_what_an_earlier_one_left(world: World, task: str) -> None:
    args = () if task == "go_on" else (1,)
    again = call(1, task, *args)._replace(checkpoint=b'{"row":[7,null]}')
    recorder = await world.run(again, call(2, task, *args))
    assert recorder.value(1) == {"row": [7, None]}
    assert recorder.value(2) is None


async def test_a_checkpoint_is_away_when_the_call_returns(world: World) -> None:
    recorder = await world.run(call(1, "checkpoint_and_die"))
    assert recorder.result(1).kind == "crashed"
    assert left(recorder) == [[1, 2]]


async def test_checkpoints_may_come_from_threads(world: World) -> None:
    recorder = await world.run(call(1, "checkpoint_in_threads", 5), call(2, "nap_and_tell", 3))
    assert left(recorder) == [0, 1, 2, 3, 4]
    assert left(recorder, 2) == ["in a thread", {"done": 3}]


@pytest.mark.parametrize(
    ("how", "kind", "says"),
    [
        ("large", "ValueError", "a checkpoint of 70002 bytes is too large, the most is 65536"),
        ("object", "TypeError", "a checkpoint must be JSON"),
        ("surrogate", "TypeError", "a checkpoint must be JSON"),
        ("more", "ValueError", "progress 1.5 is not between 0 and 1"),
        ("nan", "ValueError", "progress nan is not between 0 and 1"),
    ],
)
async def test_what_cannot_be_kept_is_an_error_of_the_task(
    world: World, how: str, kind: str, says: str
) -> None:
    recorder = await world.run(call(1, "checkpoint_wrongly", how))
    found = recorder.value(1)
    assert found[0] == kind and says in found[1]
    assert (told(recorder), left(recorder)) == ([], [])


async def test_a_stop_in_the_middle_of_checkpoints_leaves_the_child_whole(world: World) -> None:
    world.begin(call(1, "checkpoint_for_ever"))
    await world.recorder.until(lambda: len(left(world.recorder)) > 20)
    world.adapter.stop(1, 1, force=False)
    await world.recorder.until_ended(1)
    assert world.recorder.result(1).kind == "cancelled"
    recorder = await world.run(call(2, "go_on"))
    await recorder.until_ended(2)
    assert recorder.result(2).kind == "ok" and left(recorder, 2) == [{"seen": None, "attempt": 1}]


async def test_a_fork_of_a_task_is_told_that_it_cannot_speak_for_it(world: World) -> None:
    recorder = await world.run(call(1, "checkpoint_in_a_fork"))
    assert recorder.value(1) == ["RuntimeError"]
    assert (told(recorder), left(recorder)) == ([], [])


# --- what was used ----------------------------------------------------------------------------------------
def used(recorder: Recorder, job: int) -> Note | None:
    """Return what an attempt used; at most one note says so."""
    notes = [note for note in recorder.notes if note.job == job and note.memory_bytes is not None]
    assert len(notes) <= 1
    return notes[0] if notes else None


async def test_what_a_task_used_is_its_own_and_not_that_of_the_one_before(warden: Warden) -> None:
    world = World(warden)
    await world.adapter.start(world.recorder)
    for job, megabytes in ((1, 300), (2, 1)):
        world.begin(call(job, "use", 0.1, megabytes))
        await world.recorder.until_ended(job)
    large, small = used(world.recorder, 1), used(world.recorder, 2)
    assert large is not None and large.memory_bytes is not None and large.cpu_seconds is not None
    assert 0.1 <= large.cpu_seconds < 5 and large.memory_bytes > 300 << 20
    assert small is not None and small.memory_bytes is not None and small.memory_bytes < 300 << 20


async def test_short_ones_bundles_and_async_tasks_are_not_measured(world: World) -> None:
    bundle = [call(job, "sleep", 0.02, bundle=1) for job in (2, 3)]
    recorder = await world.run(call(4, "nap", 0.02))
    world.begin(*bundle)
    await recorder.until_ended(3)
    assert [used(recorder, job) for job in (2, 3, 4)] == [None] * 3


async def test_of_a_child_that_died_its_memory_is_told(world: World) -> None:
    recorder = await world.run(call(1, "die", "kill"))
    note = used(recorder, 1)
    assert note is not None and (note.memory_bytes or 0) > 1 << 20 and note.cpu_seconds is None


async def test_of_a_command_cpu_adds_up_and_the_most_memory_counts(warden: Warden) -> None:
    recorder = Recorder()
    adapter = CommandAdapter(warden)
    await adapter.start(recorder)
    spin = ["sh", "-c", "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done"]
    adapter.begin([command(1, spin), command(2, spin, spin, ["true"]), command(3, ["false"])])
    await recorder.until_ended(3)
    one, two, three = used(recorder, 1), used(recorder, 2), used(recorder, 3)
    assert one is not None and two is not None and three is not None
    assert one.cpu_seconds and two.cpu_seconds and two.cpu_seconds > 1.2 * one.cpu_seconds
    assert one.memory_bytes and one.memory_bytes > 100_000


# --- on its way to the node -------------------------------------------------------------------------------


async def test_notes_are_merged_until_they_are_sent_and_go_before_the_results() -> None:
    outbox = Outbox()
    outbox.add_notes([Note(1, 1, 0.1, "a"), Note(1, 1, checkpoint=b"1")])
    outbox.add_results([Result(1, 1, "ok", b"1", 0.1)])
    outbox.add_notes([Note(1, 1, 0.2, "b"), Note(1, 1, cpu_seconds=1.0)])
    notes, results = outbox.take()
    assert notes.notes == [Note(1, 1, 0.2, "b", b"1", 1.0)]  # type: ignore[union-attr]
    assert results.results[0].job == 1  # type: ignore[union-attr]
    assert list(outbox.take()) == []


async def test_a_new_connection_hears_again_what_was_said_of_attempts_that_are_still_held() -> None:
    outbox = Outbox()
    outbox.add_notes([Note(1, 1, 0.1, checkpoint=b"1"), Note(2, 1, 0.5)])
    list(outbox.take())
    outbox.acknowledge([(2, 1)])
    outbox.add_notes([Note(1, 1, 0.3)])
    list(outbox.take())
    outbox.start_again()
    [again] = outbox.take()
    assert again.notes == [Note(1, 1, 0.3, "", b"1")]  # type: ignore[union-attr]


async def test_what_is_remembered_is_bounded() -> None:
    outbox = Outbox()
    outbox.add_notes(Note(job, 1, 0.1) for job in range(MOST_UNACKNOWLEDGED + 10))
    list(outbox.take())
    outbox.start_again()
    again = [note.job for message in outbox.take() for note in message.notes]  # type: ignore[union-attr]
    assert again == list(range(10, MOST_UNACKNOWLEDGED + 10))


async def test_checkpoints_are_bounded_in_bytes_and_the_oldest_give_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(outboxes, "MOST_CHECKPOINT_BYTES", 100)
    outbox = Outbox()
    outbox.add_notes([Note(job, 1, 0.1, checkpoint=b"x" * 40) for job in (1, 2)])
    outbox.add_notes([Note(1, 1, checkpoint=b"y" * 40)])  # in place of its first: now the newest
    outbox.add_notes([Note(3, 1, checkpoint=b"z" * 40)])
    kept = [
        Note(1, 1, 0.1, checkpoint=b"y" * 40),
        Note(2, 1, 0.1),
        Note(3, 1, checkpoint=b"z" * 40),
    ]
    [first] = outbox.take()
    assert first.notes == kept  # type: ignore[union-attr]
    outbox.start_again()
    [again] = outbox.take()
    assert again.notes == kept  # type: ignore[union-attr]
    outbox.acknowledge([(1, 1), (2, 1), (3, 1)])
    outbox.add_notes([Note(job, 1, checkpoint=b"x" * 50) for job in (4, 5)])  # there is room again
    outbox.start_again()
    [anew] = outbox.take()
    assert [len(note.checkpoint or b"") for note in anew.notes] == [50, 50]  # type: ignore[union-attr]
