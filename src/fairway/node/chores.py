"""The leader's housework: forget what is old, a little at a time, so that nobody waits for it."""

from __future__ import annotations

import asyncio
import logging

from fairway.clock import wall
from fairway.core.look import WorldLook
from fairway.errors import Deposed, WorldError
from fairway.node.engine import Engine
from fairway.node.retention import Retention
from fairway.store import Store

log = logging.getLogger("fairway.chores")

PERIOD_SECONDS = 60.0
PAUSE_SECONDS = 0.05
ROUNDS_MOST = 1000
KEEP_ENDED_SECONDS = 7 * 86_400.0


async def tidy_forever(store: Store, engine: Engine) -> None:
    """Forget old ended jobs, events, logs and idempotency keys as long as this node leads."""
    retention = Retention(store, KEEP_ENDED_SECONDS)
    while True:
        await asyncio.sleep(PERIOD_SECONDS)
        try:
            retention.set(await engine.look(retentions))
            await tidy(store, retention, PAUSE_SECONDS)
        except (WorldError, Deposed) as error:
            log.warning("housework was put off", extra={"why": str(error)})


def retentions(world: WorldLook) -> dict[str, float]:
    """Return the queues that say how long their ended jobs stay, with the seconds."""
    return {queue.path: queue.settings.retention or 0.0 for queue in world.tree.retaining}


async def tidy(store: Store, retention: Retention, pause: float) -> None:
    """Forget what is old: first by time alone, then queue by queue."""
    rounds = 0
    while rounds < ROUNDS_MOST and await store.tidy(wall(), retention.longest):
        rounds += 1
        await asyncio.sleep(pause)
    async for _ in retention.steps(wall()):
        rounds += 1
        if rounds >= ROUNDS_MOST:
            return
        await asyncio.sleep(pause)
