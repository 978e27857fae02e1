"""Newer jobs replace older ones on real stores, while jobs begin, fail, come back, and leaders change.

Several submitters hand in the newest job of a few keys, again and again; a worker runs what it is told and
fails every third; the leader is thrown away in the middle of its work. Whatever met whatever: of each key one
job waits, the newest, and none that was replaced is ever begun again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from random import Random

import pytest

from fairway.clock import moment, wall
from fairway.core.lifecycle import ENDED, WAITING, State
from fairway.core.model import Rules, Timers
from fairway.leadership.term import begin_reign
from fairway.node.engine import Engine
from fairway.node.feed import Feed
from fairway.store import Store, StoredJob, Submission
from fairway.stores.memory import MemoryStore
from fairway.stores.postgres import PostgresStore
from fairway.stores.sqlite import SqliteStore
from tests.postgres import shared_server

from .stage import Hand, new_job

KEYS = ("a", "b")
SUBMITTERS, EACH = 3, 20
RULES = Rules(max_attempts=4, retry_first=0.02, retry_max=0.02)


class World:
    """One scheduler's database, reached by many."""

    def __init__(self, place: str | Path | MemoryStore) -> None:
        self.place = place
        self.submitted: list[int] = []
        self._opened: list[Store] = []

    async def open(self) -> Store:
        """Open the database once more, as another process would."""
        store: Store
        if isinstance(self.place, MemoryStore):
            return self.place
        store = SqliteStore(self.place) if isinstance(self.place, Path) else PostgresStore(self.place)
        await store.open()
        self._opened.append(store)
        return store

    async def close(self) -> None:
        for store in self._opened:
            await store.close()

    async def submit(self, store: Store, number: int, key: str) -> None:
        now = wall()
        job = new_job(
            number, unique=key, replace=True, rules=RULES, created_at=now, run_at=now, payload=b"{}"
        )
        [accepted] = await store.submit([Submission([job])], now)
        assert accepted.ids == [number] and accepted.existed == [False]
        self.submitted.append(number)


class Leader:
    """An engine at work with one worker that does what it is told, and fails every third attempt."""

    def __init__(self, store: Store, engine: Engine, term: int, slots: int) -> None:
        self.store, self.engine, self.term = store, engine, term
        self.tasks = [asyncio.create_task(engine.run()), asyncio.create_task(self._work(slots))]

    async def _work(self, slots: int) -> None:
        if not slots:
            return
        hand = await Hand(self.engine.open_port(), f"w-{self.term}", "w").hello(slots=slots)
        done = 0
        while True:
            begun = hand.begun()
            for job, attempt in begun[done:]:
                done += 1
                kind = "error" if done % 3 == 0 else "ok"
                await hand.report(job, attempt, kind, b'{"message":"no"}' if kind == "error" else b"1")
            await asyncio.sleep(0.005)

    async def throw_away(self) -> None:
        """End it without a word."""
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


async def lead(store: Store, slots: int = 2) -> Leader:
    before = await store.find_leadership()
    elected = await store.elect(before.term if before else 0, "node", "node", "", wall())
    assert elected is not None
    engine = Engine(store, Feed(store), begin_reign(elected, moment().mono, 600.0), "node", Timers())
    await engine.recover()
    leader = Leader(store, engine, elected.term, slots)
    for live in await store.live_attempts():
        engine.bury(live.incarnation)
    return leader


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    if request.param == "postgres":
        dsn = await shared_server().make_database()
        made = World(dsn)
    else:
        made = World(MemoryStore() if request.param == "memory" else tmp_path / "f.db")
    yield made
    await made.close()
    if request.param == "postgres":
        await shared_server().drop_database(dsn)


@pytest.mark.parametrize("seed", [1, 2])
async def test_of_each_key_the_newest_job_is_left(world: World, seed: int) -> None:
    random = Random(seed)
    store = await world.open()
    leader = await lead(store)
    outsiders = [await world.open() for _ in range(SUBMITTERS)]

    async def submit_often(outsider: Store, first: int) -> None:
        for number in range(first, first + EACH):
            await world.submit(outsider, number, random.choice(KEYS))
            leader.engine.look_again()
            await asyncio.sleep(random.random() * 0.03)

    submitting = asyncio.gather(*(submit_often(one, 1000 * index) for index, one in enumerate(outsiders, 1)))
    while not submitting.done():
        await asyncio.wait([submitting], timeout=0.15)
        await leader.throw_away()
        leader = await lead(store)
    await submitting
    # Nobody works from here on: what waits, waits.
    await leader.throw_away()
    leader = await lead(store, slots=0)
    for number in range(10):
        await world.submit(outsiders[0], 9000 + number, KEYS[number % 2])
    jobs = await settled(world, leader)
    check_one_waits(jobs)
    await leader.throw_away()
    leader = await lead(store)
    jobs = await drained(world, leader)
    check_the_newest_ran(jobs)
    await leader.throw_away()


async def settled(world: World, leader: Leader) -> list[StoredJob]:
    """Return all jobs when the leader has taken in what there is, and nothing runs."""

    def is_settled(jobs: list[StoredJob]) -> bool:
        waiting = sum(job.state in WAITING for job in jobs)
        return leader.engine.core.world.tree.root.waiting == waiting and not any(
            job.state is State.RUNNING for job in jobs
        )

    return await look_until(world, leader, is_settled)


async def drained(world: World, leader: Leader) -> list[StoredJob]:
    """Return all jobs when they have ended."""
    return await look_until(world, leader, lambda jobs: all(job.state in ENDED for job in jobs))


async def look_until(
    world: World, leader: Leader, enough: Callable[[list[StoredJob]], bool]
) -> list[StoredJob]:
    async with asyncio.timeout(60):
        for _ in range(6000):
            leader.engine.look_again()
            await asyncio.sleep(0.01)
            jobs = await leader.store.find_jobs(world.submitted)
            if enough(jobs):
                return jobs
    raise TimeoutError("it never came")


def check_one_waits(jobs: list[StoredJob]) -> None:
    waiting = sorted((job.unique or "", job.id) for job in jobs if job.state in WAITING)
    assert waiting == [("a", 9008), ("b", 9009)]


def check_the_newest_ran(jobs: list[StoredJob]) -> None:
    before = {job.extras.replaces for job in jobs if job.extras is not None}
    assert len(jobs) == SUBMITTERS * EACH + 10
    for job in jobs:
        replaced = job.state is State.CANCELLED
        assert job.id in before or not replaced, f"{job.id} was dropped, but nothing replaced it"
        assert not replaced or b'"reason":"replaced"' in (job.outcome or b""), job
    assert {job.id for job in jobs if job.state is State.CANCELLED}, "nothing was ever replaced"
