"""The doorbell of a leader on PostgreSQL: who is woken, who is called, and when it is time to look anyway."""

from __future__ import annotations

import asyncio

from fairway.stores.postgres.bell import Bell


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
