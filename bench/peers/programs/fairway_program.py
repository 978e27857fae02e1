"""Fairway's Python client, on FAIRWAY_URL or FAIRWAY_DATABASE, with the verbs of the others."""

from __future__ import annotations

import asyncio
import contextlib
import random
import sys
import time

import uvloop
import verbs
from bench.tasks import app, nothing, rest, stamp

from fairway.errors import NotFound

WARM_UP = 30


class Peer:
    @contextlib.asynccontextmanager
    async def connected(self, callers):
        # The channel opens with its first call; the others' pools are open before the clock starts, too.
        with contextlib.suppress(NotFound):
            await app.aget("0" * 13)
        yield
        app.close()

    async def submit_many(self, count):
        await app.asubmit_many((nothing.job() for _ in range(count)), batch=count)

    async def submit_flood(self, count, seconds):
        await app.asubmit_many((rest.job(seconds) for _ in range(count)), batch=count)

    async def submit(self):
        await nothing.asubmit()


async def latency(samples):
    """Submit stamps one after the other; the task itself returns when its first line ran."""
    spacing, taken = random.Random(7), []
    for _ in range(samples + WARM_UP):
        sent = time.monotonic_ns()
        handle = await stamp.asubmit()
        taken.append((await handle.aresult(timeout=10) - sent) / 1e6)
        await asyncio.sleep(spacing.uniform(0.010, 0.020))
    verbs.answer(taken[WARM_UP:])


if __name__ == "__main__":
    if sys.argv[1] == "latency":
        uvloop.run(latency(int(sys.argv[2])))
    else:
        verbs.main(Peer())
