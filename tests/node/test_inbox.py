"""The inbox is bounded: those who can wait do, and are told when it takes too long."""

from __future__ import annotations

import asyncio

import pytest

from fairway.core.events import Gone, HandedBack
from fairway.core.model import Arrival, shape_of
from fairway.errors import Busy
from fairway.node.inbox import Inbox, Submit

from .virtual_time import in_time, in_virtual_time


def a_submit(count: int) -> Submit:
    """Make a call of so many jobs."""
    arrival = Arrival(1, "q", None, 0, shape_of("python", "t", (), False), 0)
    return Submit([], [arrival] * count, asyncio.get_running_loop().create_future())


def jobs_in(inbox: Inbox) -> int:
    """Take everything, and count the jobs."""
    return sum(len(submit.arrivals) for submit in inbox.take()[1])


@in_virtual_time
async def test_what_was_put_in_is_taken_whole_and_in_order() -> None:
    inbox = Inbox()
    inbox.put(Gone("a"))
    inbox.put(Gone("b"))
    await inbox.submit(a_submit(2), 1.0)
    events, submits = inbox.take()
    assert events == [Gone("a"), Gone("b")] and [len(submit.arrivals) for submit in submits] == [2]
    assert inbox.take() == ([], [])


@in_virtual_time
async def test_a_full_inbox_makes_a_submit_wait_until_it_is_emptied() -> None:
    inbox = Inbox(10)
    await inbox.submit(a_submit(10), 1.0)
    waiting = asyncio.create_task(inbox.submit(a_submit(1), 5.0))
    await asyncio.sleep(1)
    assert not waiting.done()
    assert jobs_in(inbox) == 10
    await in_time(waiting)
    assert jobs_in(inbox) == 1


@in_virtual_time
async def test_a_submit_that_waits_too_long_is_busy_and_leaves_nothing() -> None:
    inbox = Inbox(10)
    await inbox.submit(a_submit(10), 1.0)
    with pytest.raises(Busy, match="send more slowly"):
        await in_time(inbox.submit(a_submit(1), 5.0))
    assert jobs_in(inbox) == 10


@in_virtual_time
async def test_those_who_waited_for_room_do_not_all_come_in_at_once() -> None:
    inbox = Inbox(10)
    await inbox.submit(a_submit(10), 1.0)
    waiting = [asyncio.create_task(inbox.submit(a_submit(6), 60.0)) for _ in range(9)]
    taken = []
    for _ in range(20):
        await asyncio.sleep(1)
        taken.append(jobs_in(inbox))
    await in_time(asyncio.gather(*waiting))
    assert max(taken) < 10 + 6  # the one that fills it may stand over
    assert sum(taken) == 10 + 9 * 6


@in_virtual_time
async def test_a_worker_s_stream_waits_for_room_but_a_beat_does_not() -> None:
    inbox = Inbox(10)
    await inbox.put_patiently(HandedBack("w", []), 10)
    waiting = [asyncio.create_task(inbox.put_patiently(HandedBack("w", []), 10)) for _ in range(3)]
    inbox.put(Gone("w"))
    await asyncio.sleep(100)
    assert [len(inbox.take()[0])] == [2]
    for _ in waiting:
        await asyncio.sleep(1)
        assert len(inbox.take()[0]) == 1
    await in_time(asyncio.gather(*waiting))


@in_virtual_time
async def test_a_closed_inbox_lets_everybody_go_and_keeps_nothing() -> None:
    inbox = Inbox(10)
    await inbox.submit(a_submit(10), 1.0)
    waiting = [
        asyncio.create_task(inbox.submit(a_submit(10), 60.0)),
        asyncio.create_task(inbox.put_patiently(HandedBack("w", []), 10)),
        asyncio.create_task(inbox.submit(a_submit(10), 60.0)),
    ]
    await asyncio.sleep(1)
    inbox.close()
    await in_time(asyncio.gather(*waiting), 0.1)
    inbox.put(Gone("w"))
    assert inbox.take() == ([], [])


@in_virtual_time
async def test_the_engine_wakes_for_what_comes_for_a_ring_and_when_time_is_over() -> None:
    inbox, clock = Inbox(), asyncio.get_running_loop().time
    before = clock()
    await inbox.wait(5.0)
    assert clock() - before >= 5
    inbox.take()
    before = clock()
    asyncio.get_running_loop().call_later(1, inbox.ring)
    await in_time(inbox.wait(5.0), 1.1)
    inbox.take()
    asyncio.get_running_loop().call_later(1, inbox.put, Gone("w"))
    await in_time(inbox.wait(5.0), 1.1)
    assert clock() - before >= 2
