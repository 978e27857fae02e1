"""The real node around the core, in seeded worlds of trouble: nothing is lost, doubled or left unanswered.

The desk, the engine, the feed, the election and the agents are the ones that run; the store is in memory and
makes trouble, code is a span of time, and time is virtual. A world is some seconds of faults, then healing;
then everything has to drain. To look at one: `pytest tests/node/test_engine.py -k 'world[7]'`.
"""

from __future__ import annotations

import asyncio
import random as global_random
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random

import msgspec
import pytest

from fairway.store import NumberedEvent

from .crowd import Crowd
from .stage import Shell
from .trouble import TroubledStore
from .virtual_time import run, until
from .workshop import Books, Fate, Worker

SEEDS = 30
TROUBLED_SECONDS = 40.0
DRAIN_SECONDS = 300.0
LIMITS = {"tight": 1, "wide": 3, "wide/b": 2}


class World:
    """One node, its workers and its clients, by one seed."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.random = Random(seed)
        global_random.seed(seed)  # ports and agents draw from it
        self.store = TroubledStore(self.random)
        self.shell = Shell(folder, self.store)
        self.books = Books(self.store, LIMITS)
        self.crowd = Crowd(self.shell.desk, self.store, self.books, self.random)
        self.workers = [Worker(self.shell.desk, self.books, self.random, name) for name in ("w1", "w2")]
        self.heard: list[NumberedEvent] = []

    async def live(self) -> None:
        """Trouble, healing, and then peace."""
        async with self.shell:
            for path, limit in LIMITS.items():
                await self.crowd.insist(path, limit=limit)
            listening = asyncio.create_task(self._listen())
            for worker in self.workers:
                await worker.start()
            await self._trouble()
            await self._heal()
            await self._check()
            listening.cancel()
            for worker in self.workers:
                await worker.leave()

    async def _trouble(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for client in range(3):
                tasks.create_task(self._submit_often(client))
            tasks.create_task(self._again_and_again(0.3, self.crowd.meddle))
            tasks.create_task(self._again_and_again(0.3, self.crowd.meddle))
            tasks.create_task(self._again_and_again(self.random.uniform(2, 20), self._fault))

    async def _submit_often(self, client: int) -> None:
        count = 0

        async def submit() -> None:
            nonlocal count
            count += 1
            await self.crowd.submit(f"{client}.{count}")

        await self._again_and_again(self.random.uniform(0.2, 1.5), submit)

    async def _again_and_again(self, seconds: float, act: Callable[[], Awaitable[None]]) -> None:
        clock = asyncio.get_running_loop().time
        over = clock() + TROUBLED_SECONDS
        while clock() < over:
            await asyncio.sleep(self.random.uniform(0, 2 * seconds))
            await act()

    async def _fault(self) -> None:
        worker = self.random.choice(self.workers)
        match self.random.randint(0, 4):
            case 0 | 1:
                worker.cut()
            case 2:
                await worker.die()
            case 3:
                await worker.leave()
            case 4:
                await self.crowd.ask(self.shell.desk.step_down())

    async def _listen(self) -> None:
        async for batch in self.shell.desk.events("0"):
            self.heard += batch or ()

    async def _heal(self) -> None:
        self.store.healed = True
        for path in ("loose", "other", "new/one"):
            await self.crowd.insist(path)
        try:
            await until(self.crowd.all_ended, DRAIN_SECONDS, every=0.1)
        except TimeoutError:
            left = [job for job in self.store.tables.jobs.values() if job.ended_at is None]
            raise AssertionError(f"not ended: {left}") from None

    async def _check(self) -> None:
        tables = self.store.tables
        assert self.books.wrong == []
        for key, tokens in self.crowd.tokens.items():  # every call was answered, and has one job a wish
            assert len(self.crowd.answers[key]) == len(tokens)
        stored = Counter(msgspec.json.decode(job.payload, type=Fate).token for job in tables.jobs.values())
        assert set(stored.values()) <= {1}
        assert tables.claims == {} and tables.arrivals == {}
        await until(lambda: self.heard == self.store.read_events(0, -1, 1_000_000), every=0.1)
        ended = Counter(one.event.job for one in self.heard if one.event.kind == "job.ended")
        assert all(ended[job] >= 1 for job in tables.jobs)
        waiting, live = await self.shell.leader.look(lambda world: (world.tree.root.waiting, len(world.live)))
        assert (waiting, live) == (0, 0)
        assert not self.shell.ended


@pytest.mark.parametrize("seed", range(SEEDS))
def test_world(seed: int, tmp_path: Path) -> None:
    world = World(seed, tmp_path)
    run(world.live())
    assert world.books.starts and world.crowd.calls > 50
