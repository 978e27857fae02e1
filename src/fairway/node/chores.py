"""The leader's housework: forget what is old, a little at a time, so that nobody waits for it."""

from __future__ import annotations

import asyncio
import logging

from fairway.clock import wall
from fairway.errors import WorldError
from fairway.store import Store

log = logging.getLogger("fairway.chores")

PERIOD_SECONDS = 60.0
PAUSE_SECONDS = 0.05
ROUNDS_MOST = 1000
KEEP_ENDED_SECONDS = 7 * 86_400.0


async def tidy_forever(store: Store) -> None:
    """Forget old ended jobs, events, logs and idempotency keys as long as this node leads."""
    while True:
        await asyncio.sleep(PERIOD_SECONDS)
        try:
            await _tidy(store)
        except WorldError as error:
            log.warning("housework was put off", extra={"why": str(error)})


async def _tidy(store: Store) -> None:
    for _ in range(ROUNDS_MOST):
        if not await store.tidy(wall(), KEEP_ENDED_SECONDS):
            return
        await asyncio.sleep(PAUSE_SECONDS)
