"""Procrastinate: async tasks, its async connector with psycopg's pool, batch_defer for bulk."""

from __future__ import annotations

import asyncio
import contextlib
import os

import procrastinate
import verbs

CONCURRENCY = int(os.environ.get("BENCH_CONCURRENCY", "10"))


class Peer:
    @contextlib.asynccontextmanager
    async def connected(self, callers):
        connections = CONCURRENCY + 2 if callers is None else callers
        connector = procrastinate.PsycopgConnector(
            conninfo=verbs.ADDRESS, min_size=connections, max_size=connections
        )
        self.app = procrastinate.App(connector=connector)
        self.nothing = self.app.task(name="nothing")(nothing)
        self.stamp = self.app.task(name="stamp")(stamp)
        self.rest = self.app.task(name="rest", queue="flood")(rest)
        async with self.app.open_async():
            yield

    async def prepare(self):
        async with self.connected(1):
            await self.app.schema_manager.apply_schema_async()

    async def submit_many(self, count):
        await self.nothing.batch_defer_async(*({} for _ in range(count)))

    async def submit(self):
        await self.nothing.defer_async()

    async def submit_stamp(self):
        await self.stamp.defer_async()

    async def submit_flood(self, count, seconds):
        await self.rest.batch_defer_async(*({"seconds": seconds} for _ in range(count)))

    async def submit_small(self):
        await self.stamp.configure(queue="small").defer_async()

    async def work(self, stop):
        worker = asyncio.create_task(
            self.app.run_worker_async(concurrency=CONCURRENCY, install_signal_handlers=False)
        )
        stopped = asyncio.create_task(stop.wait())
        await asyncio.wait((worker, stopped), return_when=asyncio.FIRST_COMPLETED)
        worker.cancel()
        await asyncio.gather(worker, return_exceptions=True)


async def nothing():
    verbs.count_one()


async def stamp():
    verbs.write_stamp()


async def rest(seconds):
    await asyncio.sleep(seconds)
    verbs.write_stamp()


if __name__ == "__main__":
    verbs.main(Peer())
