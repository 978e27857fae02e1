"""Fairway's half of the benchmark: the same tasks as bench/huey_tasks.py."""

from __future__ import annotations

import time

import fairway

app = fairway.App()


@app.task(name="nothing", queue="bench")
def nothing() -> None:
    """Do nothing: what is left is the queue's own cost."""


@app.task(name="stamp", queue="bench")
def stamp() -> int:
    """Return when the first line ran; CLOCK_MONOTONIC is one clock for all processes of a machine."""
    return time.monotonic_ns()


@app.task(name="rest", queue="bench")
def rest(seconds: float) -> None:
    """Take so long."""
    time.sleep(seconds)
