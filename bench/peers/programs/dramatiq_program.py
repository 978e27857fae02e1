"""Dramatiq on Redis: its own command with two processes."""

from __future__ import annotations

import contextlib
import os
import sys
import time

import dramatiq
import verbs
from dramatiq.brokers.redis import RedisBroker

THREADS = os.environ.get("BENCH_CONCURRENCY", "8")


class SayExecuted(dramatiq.Middleware):
    def after_worker_shutdown(self, broker, worker):
        verbs.say_executed()


broker = RedisBroker(url=verbs.ADDRESS)
broker.add_middleware(SayExecuted())
dramatiq.set_broker(broker)


@dramatiq.actor
def nothing():
    verbs.count_one()


@dramatiq.actor
def stamp():
    verbs.write_stamp()


@dramatiq.actor
def rest(seconds):
    time.sleep(seconds)
    verbs.write_stamp()


class Peer:
    @contextlib.asynccontextmanager
    async def connected(self, callers):
        yield

    async def submit_many(self, count):
        # It has no bulk call.
        for _ in range(count):
            nothing.send()

    async def submit(self):
        nothing.send()

    async def submit_stamp(self):
        stamp.send()

    async def submit_flood(self, count, seconds):
        for _ in range(count):
            rest.send(seconds)


def work():
    print("ready", flush=True)
    sys.stdin.readline()
    os.execvp("dramatiq", ["dramatiq", "dramatiq_program", "--processes", "2", "--threads", THREADS])


if __name__ == "__main__":
    work() if sys.argv[1] == "work" else verbs.main(Peer())
