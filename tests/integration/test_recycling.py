"""Children that are replaced after so many jobs, so long or so much memory; no job notices."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from itertools import count
from pathlib import Path

import psutil
import pytest

from fairway.adapters.python.adapter import PythonAdapter
from fairway.adapters.python.recycling import Bounds, Wear, resident_bytes
from fairway.wire.messages import Assignment
from fairway.worker.warden import Warden
from tests.integration.worker_world import Recorder, call, eventually

ROOT = Path(__file__).parent.parent.parent
APP = "tests.integration.speaking_tasks:app"
MEGABYTE = 1 << 20


class World:
    """An adapter whose children wear out, and what it reported."""

    def __init__(self, warden: Warden, bounds: Bounds, slots: int = 2) -> None:
        self.warden, self.recorder = warden, Recorder()
        self.adapter = PythonAdapter(warden, [APP], slots, bounds=bounds)
        self.slots = slots
        self.most_memory = 0

    async def run(self, make: Callable[[int], Assignment], many: int, at_once: int = 2) -> list[int]:
        """Run so many jobs, a few at a time; return the processes they ran in."""
        for job in range(1, many + 1):
            self.adapter.begin([make(job)])
            await self.recorder.until(lambda job=job: len(self.recorder.results) > job - at_once)
            self.most_memory = max([self.most_memory, *map(resident_bytes, self.children())])
        await self.recorder.until_ended(many)
        assert not self.recorder.returned
        assert {result.kind for result in self.recorder.results.values()} == {"ok"}
        return [self.recorder.value(job) for job in range(1, many + 1)]

    def children(self) -> list[int]:
        assert self.warden.pid is not None
        return [process.pid for process in psutil.Process(self.warden.pid).children()]


@pytest.fixture
async def warden(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Warden]:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("PYTHONPATH", f"{ROOT / 'src'}:{ROOT}")
    warden = Warden()
    yield warden
    await warden.close()


@pytest.mark.parametrize(
    ("used", "wear"),
    [
        ((0, 0.0, 0), Wear.FRESH),
        ((8, 0.0, 0), Wear.NEAR),
        ((10, 0.0, 0), Wear.SPENT),
        ((0, 48.0, 0), Wear.NEAR),
        ((0, 60.0, 0), Wear.WORN),
        ((0, 0.0, 80), Wear.NEAR),
        ((0, 60.0, 100), Wear.SPENT),
    ],
)
def test_how_used_up_a_child_is(used: tuple[int, float, int], wear: Wear) -> None:
    assert Bounds(10, 60.0, 100).judge(*used) is wear
    assert Bounds().judge(*used) is Wear.FRESH and not Bounds()


async def test_a_child_serves_so_many_jobs_and_no_more(warden: Warden) -> None:
    world = World(warden, Bounds(jobs=5))
    await world.adapter.start(world.recorder)
    ran_in = await world.run(lambda job: call(job, "nothing"), 60)
    assert max(ran_in.count(pid) for pid in ran_in) == 5
    await eventually(lambda: len(world.children()) <= world.slots + 1)


async def test_a_bundle_that_was_begun_is_finished(warden: Warden) -> None:
    world = World(warden, Bounds(jobs=5))
    await world.adapter.start(world.recorder)
    world.adapter.begin([call(job, "nothing", bundle=1) for job in range(1, 21)])
    await world.recorder.until_ended(20)
    assert len({world.recorder.value(job) for job in range(1, 21)}) == 1
    world.adapter.begin([call(21, "nothing")])
    await world.recorder.until_ended(21)
    assert world.recorder.value(21) != world.recorder.value(1)


async def test_an_old_child_serves_on_until_its_heir_is_ready(warden: Warden) -> None:
    world = World(warden, Bounds(age_seconds=1.0), slots=1)
    await world.adapter.start(world.recorder)
    first = await world.run(lambda job: call(job, "nothing"), 1)
    async with asyncio.timeout(20):
        for job in count(2):
            world.adapter.begin([call(job, "nothing")])
            await world.recorder.until_ended(job)
            if world.recorder.value(job) not in first:
                break
            await asyncio.sleep(0.05)
    await eventually(lambda: first[0] not in world.children())


@pytest.mark.parametrize("runs", [300, pytest.param(2000, marks=pytest.mark.long)])
@pytest.mark.parametrize("task", ["leak", "aleak"])
async def test_a_leak_fails_no_job_and_memory_stays_bounded(warden: Warden, task: str, runs: int) -> None:
    bound = 100 * MEGABYTE
    world = World(warden, Bounds(memory_bytes=bound))
    await world.adapter.start(world.recorder)
    ran_in = await world.run(lambda job: call(job, task, 1024), runs)
    assert len(set(ran_in)) > runs // 100
    assert world.most_memory < bound + 20 * MEGABYTE
    await eventually(lambda: len(world.children()) <= world.slots + 3)


async def test_an_async_child_that_goes_finishes_what_it_has(warden: Warden, tmp_path: Path) -> None:
    world = World(warden, Bounds(jobs=3))
    await world.adapter.start(world.recorder)
    world.adapter.begin([call(1, "await_file", str(tmp_path / "go"))])
    await eventually(lambda: world.adapter.started(1, 1))
    ran_in: list[int] = []
    for job in range(2, 10):
        world.adapter.begin([call(job, "aleak", 1)])
        await world.recorder.until(lambda job=job: (job, 1) in world.recorder.results)
        ran_in.append(world.recorder.value(job))
    assert (1, 1) not in world.recorder.results and ran_in[0] in world.children()
    (tmp_path / "go").touch()
    await world.recorder.until_ended(9)
    assert world.recorder.result(1).kind == "ok" and len(set(ran_in)) == 3
    await eventually(lambda: ran_in[0] not in world.children())


def test_memory_of_a_process_that_is_not_there_is_nothing() -> None:
    assert resident_bytes(os.getpid()) > MEGABYTE
    assert resident_bytes(None) == resident_bytes(2**22 + 1) == 0
