"""Celery on Redis: prefork, two processes, no results, prefetching as its guide advises for short tasks."""

from __future__ import annotations

import contextlib
import sys

import celery
import verbs

app = celery.Celery("bench", broker=verbs.ADDRESS)
app.conf.update(
    task_ignore_result=True,
    worker_prefetch_multiplier=64,
    worker_redirect_stdouts=False,
    broker_connection_retry_on_startup=True,
)


@app.task(name="nothing")
def nothing():
    verbs.say_one()


@app.task(name="stamp")
def stamp():
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


def work():
    print("ready", flush=True)
    sys.stdin.readline()
    app.worker_main(["worker", "--concurrency", "2", "--loglevel", "WARNING"])


if __name__ == "__main__":
    work() if sys.argv[1] == "work" else verbs.main(Peer())
