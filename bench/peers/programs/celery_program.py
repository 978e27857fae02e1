"""Celery on Redis: prefork, two processes, no results, prefetching as its guide advises for short tasks.

For the flood as many processes as slots, its own prefetching and, if asked for, a queue for each tenant.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time

import celery
import verbs

PROCESSES = os.environ.get("BENCH_CONCURRENCY", "2")
QUEUES = os.environ.get("BENCH_QUEUES", "")

app = celery.Celery("bench", broker=verbs.ADDRESS)
app.conf.update(
    task_ignore_result=True,
    worker_prefetch_multiplier=int(os.environ.get("BENCH_PREFETCH", "64")),
    worker_redirect_stdouts=False,
    broker_connection_retry_on_startup=True,
)


@app.task(name="nothing")
def nothing():
    verbs.say_one()


@app.task(name="stamp")
def stamp():
    verbs.write_stamp()


@app.task(name="rest")
def rest(seconds):
    time.sleep(seconds)
    verbs.write_stamp()


class Peer:
    @contextlib.asynccontextmanager
    async def connected(self, callers):
        with app.producer_pool.acquire(block=True) as self.producer:
            yield

    async def submit_many(self, count):
        # It has no bulk call; one producer for all is what its guide offers.
        for _ in range(count):
            nothing.apply_async(producer=self.producer)

    async def submit(self):
        nothing.delay()

    async def submit_stamp(self):
        stamp.delay()

    async def submit_flood(self, count, seconds):
        for _ in range(count):
            rest.apply_async((seconds,), producer=self.producer, queue="flood" if QUEUES else None)

    async def submit_small(self):
        stamp.apply_async(queue="small" if QUEUES else None)


def work():
    print("ready", flush=True)
    sys.stdin.readline()
    served = ["--queues", QUEUES] if QUEUES else []
    app.worker_main(["worker", "--concurrency", PROCESSES, "--loglevel", "WARNING", *served])


if __name__ == "__main__":
    work() if sys.argv[1] == "work" else verbs.main(Peer())
