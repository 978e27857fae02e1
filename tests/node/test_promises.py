"""Promises: each answer is given in time or given up, and none is kept longer than somebody waits for it."""

from __future__ import annotations

import asyncio

import pytest

from fairway.errors import Deposed
from fairway.node.promises import LOOK_SECONDS, Promises

from .virtual_time import in_virtual_time


@in_virtual_time
async def test_an_answer_that_nobody_gives_is_given_up_in_time() -> None:
    loop, promises = asyncio.get_running_loop(), Promises()
    early, late = promises.make(10.0), promises.make(20.0)
    started = loop.time()
    with pytest.raises(TimeoutError):
        await early
    assert 10.0 <= loop.time() - started <= 10.0 + 2 * LOOK_SECONDS
    assert not late.done() and len(promises) == 1


@in_virtual_time
async def test_one_without_a_time_is_waited_for_as_long_as_it_takes() -> None:
    promises = Promises()
    answer = promises.make()
    await asyncio.sleep(3600)
    assert not answer.done()
    answer.set_result("x")
    assert await answer == "x"


@in_virtual_time
async def test_what_was_given_is_forgotten_and_nothing_ticks_for_it() -> None:
    promises = Promises()
    for _ in range(100):
        promises.make(10.0).set_result(None)
    assert len(promises) == 0
    await asyncio.sleep(2 * LOOK_SECONDS)
    assert promises._open == [] and promises._timer is None
    promises.make(10.0)
    assert promises._timer is not None


@in_virtual_time
async def test_at_the_end_of_a_reign_all_are_broken() -> None:
    promises = Promises()
    answers = [promises.make(10.0), promises.make()]
    given = promises.make()
    given.set_result(1)
    promises.break_all(Deposed("it is over"))
    for answer in answers:
        with pytest.raises(Deposed):
            await answer
    assert await given == 1 and promises._timer is None
