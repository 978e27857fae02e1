"""The doorbell of a leader on PostgreSQL: who is woken, who is called, and when it is time to look anyway."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from fairway.clock import wall
from fairway.store import Submission, Taken, WaitingPage
from fairway.stores.postgres import bell as postgres_bell
from fairway.stores.postgres.bell import Bell

from .stage import HeldStore, Shell, new_job
from .virtual_time import in_virtual_time, until


class Rung(HeldStore):
    """A store whose bell only the test rings."""

    answer: Callable[[], None] | None = None

    def __init__(self) -> None:
        super().__init__()
        self.by_words: list[bool] = []
        self.loaded: list[int] = []  # how often arrivals were taken before each page of the backlog

    async def take_arrivals(self, after: int, most: int = 10_000, *, by_words: bool = False) -> list[Taken]:
        self.by_words.append(by_words)
        return await super().take_arrivals(after, most, by_words=by_words)

    async def waiting_jobs(self, page: int = 10_000) -> AsyncIterator[WaitingPage]:
        async for found in super().waiting_jobs(1):
            self.loaded.append(len(self.by_words))
            yield found

    async def wait_for_ring(self, timeout: float, answer: Callable[[], None] | None = None) -> bool:
        self.answer = answer
        await asyncio.sleep(3600)
        return False


@in_virtual_time
async def test_a_leader_is_called_as_it_rings_and_looks_who_came(tmp_path: Path) -> None:
    store = Rung()
    async with Shell(tmp_path, store):
        await until(lambda: store.answer is not None)
        await asyncio.sleep(10)  # what it looks at by itself as it begins is over
        await store.submit([Submission([new_job(1)])], wall())
        await asyncio.sleep(10)
        assert store.tables.arrivals
        assert store.answer is not None
        store.answer()
        await until(lambda: not store.tables.arrivals)


@in_virtual_time
async def test_while_the_backlog_is_loaded_a_leader_reads_whatever_it_is_told(tmp_path: Path) -> None:
    """A job it was told of may be in a page that it read before, without the limit that came with another."""
    store = Rung()
    await store.submit([Submission([new_job(number) for number in (1, 2, 3)])], wall())
    async with Shell(tmp_path, store):
        await until(lambda: store.answer is not None)
        await asyncio.sleep(10)
        assert store.loaded == [0, 1, 2]
        assert store.by_words[:3] == [False] * 3
        assert store.answer is not None
        store.answer()
        await asyncio.sleep(10)
        assert store.by_words[-1]


async def test_a_ring_wakes_who_waits() -> None:
    bell = Bell("fairway")
    await bell.wait(0)
    waiting = asyncio.create_task(bell.wait(60))
    await asyncio.sleep(0)
    bell.ring()
    assert await asyncio.wait_for(waiting, 10)


async def test_a_ring_is_answered_by_a_call_and_the_wait_goes_on() -> None:
    bell, calls = Bell("fairway"), list[str]()
    await bell.wait(0)
    waiting = asyncio.create_task(bell.wait(60, lambda: calls.append("look")))
    await asyncio.sleep(0)
    bell.ring()
    bell.ring()
    assert calls == ["look", "look"]
    await asyncio.sleep(0.05)
    assert not waiting.done()
    waiting.cancel()


async def test_a_ring_between_two_waits_is_not_lost() -> None:
    bell, calls = Bell("fairway"), list[str]()
    await bell.wait(0)
    await bell.wait(0.01, lambda: calls.append("look"))
    bell.ring()
    assert calls == []
    assert await bell.wait(60, lambda: calls.append("look"))


async def test_whoever_is_called_looks_by_itself_all_the_same() -> None:
    """A ring may be lost: deaf, the bell says every half second that it is time to look."""
    bell = Bell("fairway")
    await bell.wait(0)
    assert await asyncio.wait_for(bell.wait(60, lambda: None), 10)


async def test_who_waits_for_rings_that_will_not_come_is_woken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rung at hundreds of times a second the leader looks by itself, and nobody rings any more."""
    monkeypatch.setattr(postgres_bell, "DEAF_SECONDS", 60.0)
    bell = Bell("fairway")
    bell.judge()
    await bell.wait(0)
    waiting = asyncio.create_task(bell.wait(60, lambda: None))
    await asyncio.sleep(0.01)
    for _ in range(10_000):
        bell.ring()
    assert not bell.judge()
    assert await asyncio.wait_for(waiting, 10)
