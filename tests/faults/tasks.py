"""Tasks whose every attempt leaves a witness."""

from __future__ import annotations

import asyncio
import os
import time

import fairway
from tests.witness import say

app = fairway.App()


@app.task
def work(seconds: float) -> float:
    say("start")
    time.sleep(seconds)
    say("end")
    return seconds


@app.task
async def nap(seconds: float) -> float:
    say("start")
    await asyncio.sleep(seconds)
    say("end")
    return seconds


@app.task
def fail_at_first(times: int) -> int:
    """Fail the first *times* attempts."""
    say("start")
    try:
        if fairway.current().attempt <= times:
            raise RuntimeError("not yet")
        return fairway.current().attempt
    finally:
        say("end")


@app.task
def hold_the_gil(seconds: float) -> str:
    """Hold the interpreter's lock all the time: no other thread of this process runs."""
    import ctypes

    say("start")
    ctypes.PyDLL(None).usleep(int(seconds * 1_000_000))
    say("end")
    return "held"


@app.task
def die_at_first() -> int:
    """Kill the own process in the first attempt."""
    say("start")
    if fairway.current().attempt == 1:
        os.kill(os.getpid(), 9)
    return fairway.current().attempt


@app.task
def count_up(total: int, fail_at: int | None = None, wait_at: int | None = None, go: str = "") -> list[int]:
    """Count to *total* with a checkpoint at each step; go wrong, or wait for a file, when one is reached.

    Returns the steps that this attempt made.
    """
    say("start")
    me = fairway.current()
    first = (me.resumed or {"step": 0})["step"]
    for step in range(first, total):
        me.checkpoint({"step": step})
        me.progress(step / total, f"step {step}")
        if step == fail_at and me.attempt == 1:
            raise RuntimeError("not yet")
        while step == wait_at and not os.path.exists(go):  # noqa: PTH110
            time.sleep(0.01)
    say("end")
    return list(range(first, total))


@app.task
def need(path: str) -> str:
    """Fail unless there is such a file."""
    if not os.path.exists(path):  # noqa: PTH110
        raise LookupError(f"there is no {path}")
    return path
