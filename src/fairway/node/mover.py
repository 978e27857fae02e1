"""Drives the moves of branches: reads what still waits there, page by page, and lets the core take it over.

As long as this node leads. What a move is, and why it may be broken off at any point, is said in
`fairway.core.moving`; a leader that is new finds the moves of its predecessor and goes on with them.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

from fairway.core import events as happened
from fairway.core.look import WorldLook
from fairway.core.model import Arrival
from fairway.core.moving import left_in
from fairway.errors import FairwayError
from fairway.node.engine import Engine
from fairway.store import Store

log = logging.getLogger("fairway.mover")

PAGE = 250  # jobs in one commit: a few milliseconds
PAUSE_SECONDS = 0.25  # while something still runs in a branch, or the backlog is being loaded
IDLE_SECONDS = 5.0
ASK_SECONDS = 30.0


class Mover:
    """Moves branches, one after the other. Owned by one reign."""

    def __init__(self, store: Store, engine: Engine) -> None:
        self._store, self._engine = store, engine
        self._stirred = asyncio.Event()

    def stir(self) -> None:
        """A move has begun."""
        self._stirred.set()

    async def run(self) -> None:
        """Go on until cancelled."""
        while True:
            self._stirred.clear()
            try:
                left = await self._move_all()
            except (FairwayError, TimeoutError) as error:
                log.warning("a move was put off", extra={"why": str(error)})
                left = True
            with suppress(TimeoutError):
                async with asyncio.timeout(PAUSE_SECONDS if left else IDLE_SECONDS):
                    await self._stirred.wait()

    async def _move_all(self) -> bool:
        """Move all that is to be moved; say whether something is left for later."""
        if not self._engine.core.world.tree.moving:
            return False
        if self._engine.loading:
            # A page of the backlog may have been read before one of ours was written.
            return True
        left = False
        for path, waiting in (await self._engine.look(_waiting)).items():
            left |= not await self._move(path, waiting)
        return left

    async def _move(self, path: str, waiting: int) -> bool:
        """Move what waits in a branch; say whether it is gone now."""
        after: int | None = -1 if waiting else None  # else it is only kept by what still runs there
        while after is not None:
            jobs, after = await self._store.waiting_below(path, after)
            for first in range(0, len(jobs), PAGE):
                await self._ask_page(path, jobs[first : first + PAGE])
        async with asyncio.timeout(ASK_SECONDS):
            over = await self._engine.ask(lambda ticket: happened.MoveOverAsked(ticket, path))
        return bool(over.value)

    async def _ask_page(self, path: str, jobs: list[Arrival]) -> None:
        async with asyncio.timeout(ASK_SECONDS):
            await self._engine.ask(lambda ticket: happened.PageAsked(ticket, path, jobs))


def _waiting(world: WorldLook) -> dict[str, int]:
    """Return the branches that are being moved, with how many jobs still wait there."""
    return {path: left_in(world, world.tree.queues[path]) for path in world.tree.moving}
