"""PgQueuer: asyncpg and uvloop as its own command runs it, list enqueue for bulk."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time

import asyncpg
import verbs
from pgqueuer import AsyncpgPoolDriver, PgQueuer, Queries

BATCH = int(os.environ.get("BENCH_BATCH", "500"))


class Peer:
    @contextlib.asynccontextmanager
    async def connected(self, callers):
        connections = 4 if callers is None else callers
        async with asyncpg.create_pool(verbs.ADDRESS, min_size=connections, max_size=connections) as pool:
            self.driver = AsyncpgPoolDriver(pool)
            self.queries = Queries(self.driver)
            yield

    async def prepare(self):
        async with self.connected(1):
            await self.queries.install()

    async def submit_many(self, count):
        await self.queries.enqueue(["nothing"] * count, [None] * count, [0] * count)

    async def submit(self):
        await self.queries.enqueue("nothing", None)

    async def submit_stamp(self):
        await self.queries.enqueue("stamp", None)

    async def submit_flood(self, count, seconds):
        await self.queries.enqueue(["rest"] * count, [str(seconds).encode()] * count, [0] * count)

    async def work(self, stop):
        queuer = PgQueuer(self.driver)
        queuer.entrypoint("nothing")(nothing)
        queuer.entrypoint("stamp")(stamp)
        queuer.entrypoint("rest")(rest)
        running = asyncio.create_task(queuer.run(batch_size=BATCH))
        stopped = asyncio.create_task(stop.wait())
        await asyncio.wait((running, stopped), return_when=asyncio.FIRST_COMPLETED)
        queuer.shutdown.set()
        await asyncio.wait_for(running, 10)


async def nothing(job):
    verbs.count_one()


async def stamp(job):
    verbs.write_stamp()


async def rest(job):
    time.sleep(float(job.payload))  # noqa: ASYNC251 (it holds its process: there are two slots)
    verbs.write_stamp()


if __name__ == "__main__":
    verbs.main(Peer())
