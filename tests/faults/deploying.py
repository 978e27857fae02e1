"""Tasks for deploys: what they do is written down outside; some go on where an earlier attempt was."""

from __future__ import annotations

import time

import fairway
from tests.witness import say

app = fairway.App()
STEP_SECONDS = 0.05


@app.task
def work(seconds: float) -> float:
    """Say when it begins and when all of it is done."""
    say("start")
    time.sleep(seconds)
    say("end")
    return seconds


@app.task
def count(steps: int) -> list[int]:
    """Go step by step, and on from the last one that an earlier attempt has done."""
    me = fairway.current()
    say("start")
    first = me.resumed or 0
    for step in range(first, steps):
        time.sleep(STEP_SECONDS)
        me.checkpoint(step + 1)
        say("step")
    say("end")
    return [first, steps]
