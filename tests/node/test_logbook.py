"""Output of jobs: written in batches, dropped and counted when there is too much."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from fairway.errors import StoreUnavailable
from fairway.node import logbook
from fairway.node.feed import Feed
from fairway.node.logbook import Logbook
from fairway.store import LogLine
from fairway.stores.memory import MemoryStore
from fairway.wire import messages as wire

from .stage import Hand, HeldStore, Shell, new_job
from .virtual_time import in_virtual_time, until

#: Sixteen of these fill the book.
LONG = "x" * (logbook.MOST_CHARACTERS // 16)


def lines(first: int, count: int, text: str = "hello") -> list[LogLine]:
    """Make pieces of output of one attempt."""
    return [LogLine(1, 1, number, 1, "stdout", text) for number in range(first, first + count)]


class SlowStore(MemoryStore):
    """Writes when it is let, or fails."""

    def __init__(self) -> None:
        super().__init__()
        self.ready = asyncio.Event()
        self.writes = 0
        self.fails = False

    async def add_log(self, lines: Sequence[LogLine]) -> None:
        await self.ready.wait()
        self.writes += 1
        if self.fails:
            raise StoreUnavailable("busy")
        await super().add_log(lines)


@in_virtual_time
async def test_output_that_gathers_while_one_batch_is_written_is_the_next_batch() -> None:
    store = SlowStore()
    book = Logbook(store)
    writing = asyncio.create_task(book.write_forever())
    for number in range(100):
        book.keep(lines(number, 1))
        await asyncio.sleep(0)
    store.ready.set()
    await until(lambda: len(store.tables.log) == 100)
    assert store.writes == 2
    writing.cancel()


@in_virtual_time
async def test_what_does_not_fit_is_dropped_and_counted_and_later_output_is_kept_again() -> None:
    store = SlowStore()
    book = Logbook(store)
    book.keep(lines(0, 20, LONG))
    assert book.dropped == 4
    book.keep(lines(20, 3, LONG))
    assert book.dropped == 7
    store.ready.set()
    await book.flush()
    assert [line.number for line in await store.read_log(1, 1)] == list(range(16))
    book.keep(lines(23, 1, LONG))
    await book.flush()
    assert (await store.read_log(1, 1))[-1].number == 23 and book.dropped == 7


@in_virtual_time
async def test_output_that_the_store_will_not_take_is_counted_and_ends_nothing() -> None:
    store = SlowStore()
    store.ready.set()
    store.fails = True
    book = Logbook(store)
    writing = asyncio.create_task(book.write_forever())
    book.keep(lines(0, 5))
    await until(lambda: book.dropped == 5)
    store.fails = False
    book.keep(lines(5, 1))
    await until(lambda: len(store.tables.log) == 1)
    writing.cancel()


@in_virtual_time
async def test_whoever_asks_for_a_log_can_wait_until_all_that_has_come_is_written() -> None:
    store = SlowStore()
    book = Logbook(store)
    writing = asyncio.create_task(book.write_forever())
    book.keep(lines(0, 1))
    await asyncio.sleep(0)
    book.keep(lines(1, 1))  # while the first is written
    asyncio.get_running_loop().call_later(1, store.ready.set)
    await book.settle(30)
    assert len(store.tables.log) == 2
    store.ready.clear()
    book.keep(lines(2, 1))
    await book.settle(30)  # not for ever
    assert len(store.tables.log) == 2
    writing.cancel()


@in_virtual_time
async def test_followers_of_a_job_are_woken_when_its_output_is_in_the_store() -> None:
    store = MemoryStore()
    feed = Feed(store)
    book = Logbook(store, feed.wrote)
    with feed.follow_log(1) as mine, feed.follow_log(2) as others:
        book.keep(lines(0, 1))
        assert not mine.is_set()
        await book.flush()
        assert mine.is_set() and not others.is_set()
    book.keep(lines(1, 1))
    await book.flush()  # nobody follows


class SlowLogStore(HeldStore):
    """Has written output long before it says so."""

    async def add_log(self, lines: Sequence[LogLine]) -> None:
        await super().add_log(lines)
        await asyncio.sleep(1)


@in_virtual_time
async def test_a_worker_s_output_is_in_the_store_when_the_leader_has_stopped(tmp_path: Path) -> None:
    async with Shell(tmp_path, SlowLogStore()) as shell:
        hand = await Hand(shell.leader.open_port()).hello()
        await shell.submit(new_job(1))
        await until(hand.begun)
        for number, text in enumerate(("first", "second")):  # the second comes while the first is written
            await hand.port.receive(wire.Logs([wire.LogPiece(1, 1, number, 1, "stdout", text)]))
            await asyncio.sleep(0.1)
        shell.leader.stop()
        await until(lambda: hand.hung_up)
    assert [line.text for line in await shell.memory.read_log(1, None)] == ["first", "second"]
