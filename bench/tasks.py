"""Fairway's half of the benchmark: the same tasks as bench/huey_tasks.py."""

from __future__ import annotations

import os
import time

import fairway

app = fairway.App()

WITNESS = os.environ.get("BENCH_WITNESS", os.devnull)


@app.task(name="nothing", queue="bench")
def nothing() -> None:
    """Do nothing: what is left is the queue's own cost."""


@app.task(name="stamp", queue="bench")
def stamp() -> int:
    """Return when the first line ran; CLOCK_MONOTONIC is one clock for all processes of a machine."""
    return time.monotonic_ns()


@app.task(name="rest", queue="bench")
def rest(seconds: float) -> None:
    """Take so long, and say when it was over."""
    time.sleep(seconds)
    with open(WITNESS, "ab", buffering=0) as file:  # noqa: PTH123 (the same as in peers/programs/verbs.py)
        file.write(time.monotonic_ns().to_bytes(8, "big"))
