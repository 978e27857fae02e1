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
