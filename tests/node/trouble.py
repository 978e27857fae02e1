"""A store that makes trouble by a seed: slow, unreachable, deaf, and never wrong about what it keeps.

A commit may fail before anything is written (StoreUnavailable: try again), after it was written (its answer
is lost, and nobody knows), or find that another took the term. Every call takes a moment, before and after,
so that the tasks of a node meet in ever other orders.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine, Sequence
from random import Random
from typing import Any, TypeVar

from fairway.clock import wall
from fairway.core.plan import Batch, Begun
from fairway.errors import Busy, StoreUnavailable, WorldError
from fairway.store import Accepted, Leadership, LogLine, Receipt, StoredJob, Submission, Taken

from .stage import HeldStore

T = TypeVar("T")


class AnswerLost(WorldError):
    """It was written, but nobody heard so."""


class TroubledStore(HeldStore):
    """Draws its own mix of troubles: one fixed mix misses bugs."""

    def __init__(self, random: Random) -> None:
        super().__init__()
        self.random = random
        self.healed = False
        self.refuses = random.choice((0.0, 0.02, 0.1))
        self.loses = random.choice((0.0, 0.01, 0.04))
        self.deposes = random.choice((0.0, 0.005, 0.02))
        self.slow = random.choice((0.0, 0.02, 0.1))
        self.fails_to_read = random.choice((0.0, 0.005, 0.02))
        self.overlaps = random.choice((True, False))
        self.troubles = 0

    # --- writing ---------------------------------------------------------------------------------
    async def commit(
        self,
        term: int,
        holder: str,
        batch: Batch,
        submissions: Sequence[Submission],
        now: int,
        after: Awaitable[object] | None = None,
    ) -> Receipt:
        await self._pass()
        self._may_refuse(self.refuses)
        if self._happens(self.deposes):
            self._depose(term)
        receipt = await super().commit(term, holder, batch, submissions, now, after)
        self._may_lose()
        await self._pass()
        return receipt

    async def submit(self, submissions: Sequence[Submission], now: int) -> list[Accepted]:
        await self._pass()
        self._may_refuse(self.refuses)
        accepted = await super().submit(submissions, now)
        self._may_lose()
        await self._pass()
        return accepted

    async def elect(self, seen_term: int, holder: str, name: str, url: str, now: int) -> Leadership | None:
        return await self._read(super().elect(seen_term, holder, name, url, now))

    async def renew(self, term: int, holder: str, asleep: bool) -> bool:
        return await self._read(super().renew(term, holder, asleep))

    async def resign(self, term: int, holder: str) -> None:
        await self._read(super().resign(term, holder))

    async def add_log(self, lines: Sequence[LogLine]) -> None:
        await self._read(super().add_log(lines))

    # --- reading ---------------------------------------------------------------------------------
    async def find_job(self, job: int) -> StoredJob | None:
        return await self._read(super().find_job(job))

    async def take_arrivals(self, after: int, most: int = 10_000, *, by_words: bool = False) -> list[Taken]:
        return await self._read(super().take_arrivals(after, most))

    async def begun_again(self, jobs: Sequence[int]) -> list[Begun]:
        return await self._read(super().begun_again(jobs))

    async def queue_rows(self) -> dict[str, bytes]:
        return await self._read(super().queue_rows())

    # --- trouble ---------------------------------------------------------------------------------
    async def _read(self, work: Coroutine[Any, Any, T]) -> T:
        """Do what a call does, at its own time, unless the store cannot be reached."""
        try:
            await self._pass()
            self._may_refuse(self.fails_to_read)
            found = await work
        finally:
            work.close()  # also if it never came to it
        await self._pass()
        return found

    async def _pass(self) -> None:
        if self._happens(self.slow):
            await asyncio.sleep(self.random.uniform(0.1, 2.0))
        elif self.random.random() < 0.7:
            await asyncio.sleep(self.random.uniform(0.0, 0.003))

    def _happens(self, rate: float) -> bool:
        happens = not self.healed and self.random.random() < rate
        self.troubles += happens
        return happens

    def _may_refuse(self, rate: float) -> None:
        if self._happens(rate):
            raise self.random.choice((StoreUnavailable("busy"), Busy("too many calls")))

    def _may_lose(self) -> None:
        if self._happens(self.loses):
            raise AnswerLost("the answer was lost")

    def _depose(self, term: int) -> None:
        """Another node takes the term; it goes at once, or falls silent for good."""
        self.apply_elect(term, "ghost", "ghost", "", wall())
        if self.random.random() < 0.5:
            self.apply_resign(term + 1, "ghost")
