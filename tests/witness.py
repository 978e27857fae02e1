"""Witnesses outside the system: each attempt's body appends lines to a file, which nobody else writes.

A line is `start|end job attempt queue pid nanoseconds`. Appends of one short line are atomic, and a line
that was written before kill -9 is there after it.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import fairway

#: A new node needs longer than this to start; whoever speaks before belongs to the one that was killed.
DYING_NANOSECONDS = 200_000_000


class Line(NamedTuple):
    """What one attempt said."""

    verb: str
    job: str
    attempt: int
    queue: str
    pid: int
    at: int


def say(verb: str) -> None:
    """Write a line about the attempt that runs here."""
    me = fairway.current()
    text = f"{verb} {me.job_id} {me.attempt} {me.queue} {os.getpid()} {time.monotonic_ns()}\n"
    file = os.open(os.environ["FAIRWAY_TEST_WITNESS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(file, text.encode())
    finally:
        os.close(file)


def read(path: Path) -> list[Line]:
    """Read all lines, in order of time."""
    if not path.exists():
        return []
    lines = [line.split() for line in path.read_text().splitlines()]
    return sorted((Line(v, j, int(a), q, int(p), int(t)) for v, j, a, q, p, t in lines), key=lambda x: x.at)


def starts(lines: list[Line]) -> dict[str, list[int]]:
    """Return the attempts that started, by job."""
    found: dict[str, list[int]] = defaultdict(list)
    for line in lines:
        if line.verb == "start":
            found[line.job].append(line.attempt)
    return found


def most_at_once(lines: list[Line], queue: str, kills: list[int]) -> int:
    """Return how many attempts of a queue ran at once. *kills*: times at which everything running died.

    A child may begin one more job of its bundle between the death of its node and its own, which comes some
    milliseconds later: what processes of an earlier life begin does not count.
    """
    first_seen: dict[int, int] = {}
    for line in lines:
        first_seen.setdefault(line.pid, line.at)
    moments = [(line.at, line.verb, line) for line in lines if line.queue == queue]
    running: set[tuple[str, int]] = set()
    most, life = 0, 0
    for at, verb, line in sorted([*moments, *((at, "kill", None) for at in kills)], key=lambda one: one[0]):
        if line is None:
            running.clear()
            life = at
        elif verb == "end":
            running.discard((line.job, line.attempt))
        elif life == 0 or first_seen[line.pid] > life + DYING_NANOSECONDS:
            running.add((line.job, line.attempt))
            most = max(most, len(running))
    return most
