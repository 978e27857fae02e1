"""One plan on its way: written, then acted upon and told."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

from fairway.core.plan import Plan
from fairway.node.inbox import Submit
from fairway.store import Receipt, Submission


class Work:
    """A plan, the submissions that go with it, and its commit once that has begun. Owned by the engine."""

    def __init__(self, plan: Plan, submits: Sequence[Submit], wall: int) -> None:
        self.plan, self.submits, self.wall = plan, submits, wall
        self.submissions: list[Submission] = [one for submit in submits for one in submit.submissions]
        self.commit: asyncio.Task[Receipt] | None = None

    @property
    def overlaps(self) -> bool:
        """Whether it may be written beside another of its kind."""
        plan = self.plan
        # What is sent again is read after the commit: nothing may have been planned for it meanwhile.
        return bool(plan.batch) and plan.batch.is_simple and not plan.resends and not self.submissions

    @property
    def is_done(self) -> bool:
        """Whether its commit is over, or there is none."""
        return self.commit is None or self.commit.done()

    def begin(self, commit: Coroutine[Any, Any, Receipt]) -> None:
        """Begin its commit, if there is anything to write and it was not begun before."""
        if self.commit is None and (self.submissions or self.plan.batch):
            self.commit = asyncio.create_task(commit)
        else:
            commit.close()

    async def or_until(self, news: Coroutine[Any, Any, None]) -> None:
        """Wait until the commit is over, or something new has come."""
        assert self.commit is not None
        other = asyncio.create_task(news)
        try:
            await asyncio.wait([self.commit, other], return_when=asyncio.FIRST_COMPLETED)
        finally:
            other.cancel()

    async def receipt(self) -> Receipt | None:
        """Return what the commit found; None if there was nothing to write."""
        if self.commit is None:
            return None
        try:
            return await self.commit
        except asyncio.CancelledError:
            await self.abandon()
            raise

    async def abandon(self) -> None:
        """Let the commit go: the one before it failed, or the leader ends."""
        if self.commit is not None:
            self.commit.cancel()
            await asyncio.gather(self.commit, return_exceptions=True)
