"""Notes of running attempts: written in batches, given to the next attempt, told as events."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from fairway.core.plan import Event
from fairway.errors import StoreUnavailable
from fairway.node import notebook
from fairway.node.dispatch import MOST_CHECKPOINT_BYTES, in_parts
from fairway.node.notebook import Notebook
from fairway.store import NoteRow
from fairway.stores.memory import MemoryStore
from fairway.wire import messages as wire

from .stage import Hand, HeldStore, Shell, new_job
from .virtual_time import in_virtual_time, until


class SlowStore(MemoryStore):
    """Remembers what it was asked to write, when it is let, or fails so many times."""

    def __init__(self) -> None:
        super().__init__()
        self.ready = asyncio.Event()
        self.written: list[list[NoteRow]] = []
        self.failures = 0
        self.seconds = 0.0

    async def save_notes(self, notes: Sequence[NoteRow], now: int) -> None:
        await self.ready.wait()
        await asyncio.sleep(self.seconds)
        if self.failures:
            self.failures -= 1
            raise StoreUnavailable("busy")
        self.written.append(list(notes))


def open_book(store: SlowStore) -> tuple[Notebook, list[NoteRow]]:
    """Open a notebook, and a list of what it says was kept."""
    kept: list[NoteRow] = []
    return Notebook(store, kept.extend), kept


@in_virtual_time
async def test_of_each_attempt_the_newest_word_is_written_and_no_more() -> None:
    store = SlowStore()
    store.ready.set()
    book, kept = open_book(store)
    writing = asyncio.create_task(book.write_forever())
    for step in range(100):
        book.keep([NoteRow(1, 1, "w", step / 100, str(step)), NoteRow(2, 1, "w", memory_bytes=step)])
    book.keep([NoteRow(1, 1, "w", cpu_seconds=1.0), NoteRow(1, 1, "other", 0.5)])
    await until(lambda: kept)
    assert store.written == [
        [
            NoteRow(1, 1, "w", 0.99, "99", cpu_seconds=1.0),
            NoteRow(2, 1, "w", memory_bytes=99),
            NoteRow(1, 1, "other", 0.5),
        ]
    ]
    writing.cancel()


@in_virtual_time
async def test_whoever_flushes_waits_for_a_batch_that_is_under_way_as_well() -> None:
    store = SlowStore()
    book, _ = open_book(store)
    book.keep([NoteRow(1, 1, "w", 0.1)])
    first = asyncio.create_task(book.flush())
    await asyncio.sleep(0.1)
    book.keep([NoteRow(1, 1, "w", 0.2)])
    second, third = asyncio.create_task(book.flush()), asyncio.create_task(book.flush())
    await asyncio.sleep(0.1)
    assert not first.done() and not second.done() and not third.done()
    first.cancel()  # its batch is written all the same
    store.ready.set()
    await asyncio.gather(second, third)
    assert [[note.progress for note in notes] for notes in store.written] == [[0.1], [0.2]]
    await book.flush()
    assert len(store.written) == 2


@in_virtual_time
async def test_what_comes_during_a_flush_does_not_prolong_it() -> None:
    store = SlowStore()
    book, _ = open_book(store)
    book.keep([NoteRow(1, 1, "w", 0.1)])
    writing = asyncio.create_task(book.write_forever())
    await asyncio.sleep(1)
    book.keep([NoteRow(2, 1, "w", 0.2)])  # behind the batch under way
    store.seconds = 0.2
    store.ready.set()
    stream = asyncio.create_task(checkpoint_for_ever(book))
    await asyncio.wait_for(book.flush(), 60)
    assert 1 <= len(store.written) <= 3 and NoteRow(2, 1, "w", 0.2) in store.written[1]
    stream.cancel()
    writing.cancel()


async def checkpoint_for_ever(book: Notebook) -> None:
    """Leave checkpoints so fast that there always is another batch to write."""
    while True:
        book.keep([NoteRow(3, 1, "w", checkpoint=b"1")])
        await asyncio.sleep(0.05)


@in_virtual_time
async def test_nobody_waits_for_ever_for_a_store_that_does_not_answer() -> None:
    store = SlowStore()
    book, _ = open_book(store)
    book.keep([NoteRow(1, 1, "w", 0.1)])
    await asyncio.wait_for(book.flush(), 60)
    assert store.written == []
    store.ready.set()
    await book.flush()  # the batch went on
    assert store.written == [[NoteRow(1, 1, "w", 0.1)]]


@in_virtual_time
async def test_a_store_that_fails_for_a_moment_gets_them_again_then_they_are_dropped_and_counted() -> None:
    store = SlowStore()
    store.ready.set()
    book, kept = open_book(store)
    store.failures = 2
    book.keep([NoteRow(1, 1, "w", 0.1)])
    await book.flush()
    assert (len(kept), book.dropped) == (1, 0)
    store.failures = 3
    book.keep([NoteRow(1, 1, "w", 0.2), NoteRow(2, 1, "w", 0.2)])
    await book.flush()
    assert (len(kept), book.dropped) == (1, 2)


@in_virtual_time
async def test_there_is_room_for_so_many_and_so_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notebook, "MOST_NOTES", 10)
    monkeypatch.setattr(notebook, "MOST_CHECKPOINT_BYTES", 100)
    store = SlowStore()
    store.ready.set()
    book, kept = open_book(store)
    book.keep(NoteRow(job, 1, "w", 0.1) for job in range(12))
    assert book.dropped == 2
    book.keep([NoteRow(job, 1, "w", 0.2, checkpoint=b"x" * 50) for job in (0, 1, 2)])
    assert book.dropped == 3
    book.keep([NoteRow(0, 1, "w", checkpoint=b"y" * 50)])  # takes the place of the one before
    await book.flush()
    assert [len(note.checkpoint or b"") for note in kept[:3]] == [50, 50, 0] and len(kept) == 10
    book.keep([NoteRow(2, 1, "w", checkpoint=b"z" * 100)])
    await book.flush()
    assert book.dropped == 3


# --- in a node --------------------------------------------------------------------------------------------
async def note(hand: Hand, job: int, attempt: int = 1, **said: Any) -> None:
    await hand.port.receive(wire.Notes([wire.Note(job, attempt, **said)]))


def resumed(hand: Hand) -> dict[tuple[int, int], bytes | None]:
    """Return what each attempt we were told to run goes on from."""
    begins = [message for message in hand.heard if isinstance(message, wire.Begin)]
    return {one[:2]: one.checkpoint for begin in begins for one in begin.assignments}


class Once(HeldStore):
    """Remembers whose checkpoints are read."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[int] = []

    async def checkpoints(self, jobs: Sequence[int]) -> dict[int, bytes]:
        self.asked += jobs
        return await super().checkpoints(jobs)


@in_virtual_time
async def test_a_first_attempt_costs_no_look_and_the_next_goes_on_from_the_checkpoint(
    tmp_path: Path,
) -> None:
    store = Once()
    async with Shell(tmp_path, store) as shell:
        hand = await Hand(shell.leader.open_port()).hello()
        await shell.submit(new_job(1), new_job(2))
        await until(lambda: len(hand.begun()) == 2)
        assert store.asked == [] and set(resumed(hand).values()) == {None}
        await note(hand, 1, progress=0.4, checkpoint=b'{"row":4}')
        await hand.report(1, kind="error", body=b"{}")  # the note is not even written when this comes
        await shell.submit(new_job(3))
        await hand.report(2, kind="error", body=b"{}")
        await until(lambda: (1, 2) in resumed(hand) and (2, 2) in resumed(hand))
        assert (resumed(hand)[1, 2], resumed(hand)[2, 2]) == (b'{"row":4}', None)
        assert sorted(store.asked) == [1, 2]  # not 3, which came beside them


@in_virtual_time
async def test_it_is_given_to_another_worker_after_a_hand_back_and_after_a_loss(tmp_path: Path) -> None:
    async with Shell(tmp_path, HeldStore()) as shell:
        first = await Hand(shell.leader.open_port()).hello()
        await shell.submit(new_job(1))
        await until(first.begun)
        await note(first, 1, checkpoint=b"1")
        second = await Hand(shell.leader.open_port(), "x-1", "x").hello()
        await first.port.receive(wire.Draining())
        await first.port.receive(wire.HandBack([wire.Held(1, 1)]))
        await until(lambda: resumed(second) == {(1, 2): b"1"})
        await note(first, 1, checkpoint=b"late")
        await note(second, 1, 2, checkpoint=b"2")
        third = await Hand(shell.leader.open_port(), "y-1", "y").hello()
        shell.leader.bury("x-1")
        await until(lambda: resumed(third) == {(1, 3): b"2"})


class SlowNotes(HeldStore):
    """Takes its time with notes, as a database does that is busy."""

    async def save_notes(self, notes: Sequence[NoteRow], now: int) -> None:
        await asyncio.sleep(1)
        await super().save_notes(notes, now)


@in_virtual_time
async def test_what_an_attempt_said_is_kept_before_the_next_one_begins(tmp_path: Path) -> None:
    async with Shell(tmp_path, SlowNotes()) as shell:
        first = await Hand(shell.leader.open_port()).hello()
        await shell.submit(new_job(1))
        await until(first.begun)
        second = await Hand(shell.leader.open_port(), "x-1", "x").hello()
        await first.port.receive(wire.Draining())
        await note(first, 1, progress=0.7, checkpoint=b"1")
        await first.port.receive(wire.HandBack([wire.Held(1, 1)]))
        await until(lambda: resumed(second))
        assert resumed(second) == {(1, 2): b"1"}
        assert (await shell.memory.find_notes([1]))[1].progress == 0.7


@in_virtual_time
async def test_a_begin_that_is_sent_again_has_it_too(tmp_path: Path) -> None:
    async with Shell(tmp_path, HeldStore()) as shell:
        first = await Hand(shell.leader.open_port()).hello()
        await shell.submit(new_job(1))
        await until(first.begun)
        await note(first, 1, checkpoint=b"1")
        await first.report(1, kind="error", body=b"{}")
        await until(lambda: (1, 2) in resumed(first))
        first.port.closed()
        again = await Hand(shell.leader.open_port()).hello()  # knows nothing of its second attempt
        await until(lambda: resumed(again) == {(1, 2): b"1"})


@in_virtual_time
async def test_a_persons_retry_starts_anew(tmp_path: Path) -> None:
    async with Shell(tmp_path, HeldStore()) as shell:
        hand = await Hand(shell.leader.open_port()).hello()
        await shell.submit(new_job(1))
        await until(hand.begun)
        await note(hand, 1, checkpoint=b"1")
        await hand.report(1, kind="permanent", body=b"{}")
        await until(lambda: hand.thanked() == [(1, 1)])
        await shell.desk.retry(1)
        await until(lambda: (1, 2) in resumed(hand))
        assert resumed(hand)[1, 2] is None


@in_virtual_time
async def test_what_was_said_before_the_end_is_seen_with_the_end(tmp_path: Path) -> None:
    async with Shell(tmp_path, HeldStore()) as shell:
        hand = await Hand(shell.leader.open_port()).hello()
        await shell.submit(new_job(1))
        await until(hand.begun)
        await note(hand, 1, progress=1.0, text="all \0 done", cpu_seconds=2.0, memory_bytes=5)
        await hand.report(1)
        ended = await shell.desk.wait_job(1, 10)
        found = (await shell.desk.notes([ended]))[1]
        assert (found.progress, found.text, found.cpu_seconds) == (1.0, "all \ufffd done", 2.0)


@in_virtual_time
async def test_notes_are_in_the_store_when_the_leader_has_stopped(tmp_path: Path) -> None:
    async with Shell(tmp_path, HeldStore()) as shell:
        hand = await Hand(shell.leader.open_port()).hello()
        await shell.submit(new_job(1))
        await until(hand.begun)
        await note(hand, 1, progress=0.5)
        shell.leader.stop()
        await until(lambda: hand.hung_up)
    assert (await shell.memory.find_notes([1]))[1].progress == 0.5


@in_virtual_time
async def test_progress_is_told_once_a_second_with_its_number_while_the_attempt_runs(tmp_path: Path) -> None:
    async with Shell(tmp_path, HeldStore()) as shell:
        hand = await Hand(shell.leader.open_port()).hello()
        await shell.submit(new_job(1))
        await until(hand.begun)
        await note(hand, 1, progress=0.0, text="0")
        await asyncio.sleep(0.5)
        for step in range(45):  # for 4.5 seconds
            await note(hand, 1, progress=step / 45, text=str(step))
            await asyncio.sleep(0.1)
        await note(hand, 1, progress=1.0)
        await hand.report(1)
        await until(hand.thanked)
        await asyncio.sleep(3)
        events = [one.event for one in await shell.memory.events_after(0, 0)]
        progress = [event for event in events if event.kind == "job.progress"]
        assert 4 <= len(progress) <= 6
        assert events[-1].kind == "job.ended"
        first = progress[0]
        assert first == Event(
            "job.progress", first.at, 1, "q", "running", 1, "w", "t", {"fraction": 0.0, "text": "0"}
        )


def test_begins_are_cut_into_messages_that_their_checkpoints_fit_into() -> None:
    begins = [
        wire.Assignment(job, 2, "python", "t", b"", None, "q", checkpoint=b"x" * 60_000)
        for job in range(1, 201)
    ]
    parts = list(in_parts([*begins, begins[0]._replace(job=201, checkpoint=None)]))
    assert [one.job for part in parts for one in part] == list(range(1, 202))
    sizes = [sum(len(one.checkpoint or b"") for one in part) for part in parts]
    assert len(parts) == 3 and max(sizes) <= MOST_CHECKPOINT_BYTES
