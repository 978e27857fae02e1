"""The verbs every Python peer's program understands, and how each is timed.

prepare                 make the tables
fill COUNT              submit no-ops by the peer's bulk call; answers [seconds, cpu seconds]
single COUNT CALLERS    submit no-ops one by one; answers the same
latency SAMPLES         submit stamps one after the other; answers milliseconds
flood COUNT MILLIS      submit jobs that take so long, for one tenant; answers [seconds, cpu seconds]
small PATIENCE          submit a stamp for another tenant; answers the seconds it waited, or null
work                    say `ready`, begin at `go`, end at SIGTERM with `executed COUNT`
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import uvloop

ADDRESS = os.environ["BENCH_ADDRESS"]
WITNESS = os.environ["BENCH_WITNESS"]
BULK = 5000  # jobs a bulk call
WARM_UP = 5
executed = 0


def count_one():
    """Count one no-op: the cheapest proof that it ran."""
    global executed
    executed += 1


def say_one():
    """Say of each no-op that it ran, for a peer whose processes may be killed before they can count."""
    os.write(1, b"executed 1\n")


def say_executed():
    """Say how many there were, in one write: two processes may share the output."""
    os.write(1, f"executed {executed}\n".encode())


def write_stamp():
    """Write down when the first line ran; CLOCK_MONOTONIC is one clock for all processes of a machine."""
    moment = time.monotonic_ns()
    with open(WITNESS, "ab", buffering=0) as file:  # noqa: PTH123 (the least between us and the disk)
        file.write(moment.to_bytes(8, "big"))


def main(peer):
    """Do the verb of the command line with a peer: an object with the methods used below."""
    verb, *numbers = sys.argv[1:]
    uvloop.run(VERBS[verb](peer, *map(int, numbers)))


async def prepare(peer):
    await peer.prepare()
    answer(None)


async def fill(peer, count):
    async with peer.connected(1), timed():
        for first in range(0, count, BULK):
            await peer.submit_many(min(BULK, count - first))


async def single(peer, count, callers):
    async def caller():
        for _ in range(count // callers):
            await peer.submit()

    async with peer.connected(callers), timed():
        await asyncio.gather(*(caller() for _ in range(callers)))


async def latency(peer, samples):
    spacing, taken, before = random.Random(7), [], stamped()
    async with peer.connected(1):
        for number in range(1, samples + WARM_UP + 1):
            sent = time.monotonic_ns()
            await peer.submit_stamp()
            taken.append((await stamp_after(before + number - 1) - sent) / 1e6)
            await asyncio.sleep(spacing.uniform(0.010, 0.020))
    answer(taken[WARM_UP:])


async def flood(peer, count, millis):
    async with peer.connected(1), timed():
        for first in range(0, count, BULK):
            await peer.submit_flood(min(BULK, count - first), millis / 1000)


async def small(peer, patience):
    async with peer.connected(1):
        sent, before = time.monotonic_ns(), stamped()
        await peer.submit_small()
        try:
            answer((await stamp_after(before, patience) - sent) / 1e9)
        except TimeoutError:
            answer(None)


async def work(peer):
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with peer.connected(None):
        print("ready", flush=True)
        await loop.run_in_executor(None, sys.stdin.readline)
        await peer.work(stop)
    say_executed()


def stamped():
    """Count the stamps that are there."""
    return Path(WITNESS).stat().st_size // 8


async def stamp_after(count, patience=60):
    """Wait until there are more than *count* stamps and return the last."""
    deadline = time.monotonic() + patience
    while stamped() <= count:
        if time.monotonic() > deadline:
            raise TimeoutError(f"a stamp did not come in {patience} s")
        await asyncio.sleep(0.001)
    return int.from_bytes(last_stamp(), "big")


def last_stamp():
    return Path(WITNESS).read_bytes()[-8:]


@contextlib.asynccontextmanager
async def timed():
    started, cpu = time.perf_counter(), time.process_time()
    yield
    answer([time.perf_counter() - started, time.process_time() - cpu])


def answer(value):
    print(json.dumps(value), flush=True)


VERBS = {
    "prepare": prepare,
    "fill": fill,
    "single": single,
    "latency": latency,
    "flood": flood,
    "small": small,
    "work": work,
}
