"""When a child has served long enough: by jobs, by age, by memory. No job fails for it.

A child is looked at between its jobs. When it comes near a bound, an heir is started, so that there is a warm
one when it goes. Over its bound of jobs or memory it takes no more; one that is too old serves on until its
heir is ready. A bundle that was begun is finished, `async def` tasks that run are waited for.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

import psutil

from fairway.adapters.python.link import Link

log = logging.getLogger(__name__)

#: From this part of a bound on an heir is wanted.
NEAR = 0.8
#: An heir that cannot be started, or whose import fails, is tried again only after so long.
HEIR_SECONDS = 5.0


class Wear(IntEnum):
    """How used up a child is."""

    FRESH = 0
    NEAR = 1  # it needs an heir
    WORN = 2  # it goes when its heir is ready
    SPENT = 3  # it takes no more


@dataclass(frozen=True, slots=True)
class Bounds:
    """How long children may serve; None: for ever."""

    jobs: int | None = None
    age_seconds: float | None = None
    memory_bytes: int | None = None

    def __bool__(self) -> bool:
        return (self.jobs, self.age_seconds, self.memory_bytes) != (None, None, None)

    def judge(self, jobs: int, age_seconds: float, memory_bytes: int) -> Wear:
        """Say how used up a child is that has done so much."""
        hard = max(part(jobs, self.jobs), part(memory_bytes, self.memory_bytes))
        age = part(age_seconds, self.age_seconds)
        if hard >= 1:
            return Wear.SPENT
        if age >= 1:
            return Wear.WORN
        return Wear.NEAR if max(hard, age) >= NEAR else Wear.FRESH


class Recycler:
    """Judges the children of one adapter, and sees to their heirs."""

    def __init__(self, bounds: Bounds, start_heir: Callable[[Link], Link | None]) -> None:
        self._bounds, self._start_heir = bounds, start_heir
        self._warned = False

    def prepare(self, link: Link, coming: int) -> None:
        """See to the heir of a child that will be over its bound when it has done so many more."""
        if self._bounds.jobs is not None and link.done + coming >= NEAR * self._bounds.jobs:
            self._see_to_heir(link)

    def is_over(self, link: Link) -> bool:
        """Whether a child shall go now; one that comes near gets an heir."""
        age = asyncio.get_running_loop().time() - link.born_at
        memory = 0 if self._bounds.memory_bytes is None else resident_bytes(link.process.pid)
        wear = self._bounds.judge(link.done, age, memory)
        if wear is not Wear.FRESH:
            self._see_to_heir(link)
        has_heir = link.heir is not None and link.heir.is_ready
        return wear is Wear.SPENT or (wear is Wear.WORN and has_heir)

    def look_at_new(self, link: Link) -> None:
        """Warn, once, if a child is over its bound before its first job: each would run one job or bundle."""
        memory = 0 if self._bounds.memory_bytes is None else resident_bytes(link.process.pid)
        if part(memory, self._bounds.memory_bytes) >= 1 and not self._warned:
            self._warned = True
            log.warning("a child has %d MB at its start: --max-child-memory is too small", memory >> 20)

    def _see_to_heir(self, link: Link) -> None:
        now = asyncio.get_running_loop().time()
        has_heir = link.heir is not None and not link.heir.gone
        if not has_heir and now - link.heir_at > HEIR_SECONDS:
            link.heir_at = now
            link.heir = self._start_heir(link)


def part(used: float, bound: float | None) -> float:
    """Return how much of a bound is used."""
    return 0.0 if bound is None else used / bound


def resident_bytes(pid: int | None) -> int:
    """Return the memory a process has now; 0 if that cannot be known."""
    if pid is None:
        return 0
    try:
        return int(Path(f"/proc/{pid}/statm").read_bytes().split()[1]) * _PAGE
    except OSError:
        try:
            return int(psutil.Process(pid).memory_info().rss)
        except psutil.Error:
            return 0


_PAGE = os.sysconf("SC_PAGE_SIZE")
