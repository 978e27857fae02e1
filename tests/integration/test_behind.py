"""A bundle that stands in a child's pipe behind the one that runs: it goes on by itself, or never began."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

from fairway.adapters.python.adapter import PythonAdapter
from fairway.adapters.python.recycling import Bounds
from fairway.wire.messages import Assignment
from fairway.worker.guardian import read_clock
from fairway.worker.warden import Warden
from tests.integration.worker_world import Recorder, call, eventually, is_gone, wait_behind_others

ROOT = Path(__file__).parent.parent.parent
APPS = ["tests.integration.adapter_tasks:app", "tests.integration.speaking_tasks:app"]


class World:
    """An adapter with one child, and what it reported."""

    def __init__(self, warden: Warden, bounds: Bounds | None = None) -> None:
        self.warden = warden
        self.recorder = Recorder()
        self.adapter = PythonAdapter(warden, APPS, slots=1, bounds=bounds)

    def run(self, *assignments: Assignment, behind: bool = False) -> bool:
        """Begin a bundle, on an idle child or behind what runs."""
        if behind:
            return self.adapter.begin_behind(assignments)
        self.adapter.begin(assignments)
        return True

    async def begin(self, *assignments: Assignment) -> None:
        """Begin a bundle, and wait until the first of it runs."""
        self.run(*assignments)
        await eventually(lambda: self.adapter.started(assignments[0].job, 1))

    def child(self) -> int:
        """Return the pid of the one child."""
        assert self.warden.pid is not None
        [process] = psutil.Process(self.warden.pid).children()
        return process.pid


@pytest.fixture
async def warden(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Warden]:
    wait_behind_others(monkeypatch)
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("PYTHONPATH", f"{ROOT / 'src'}:{ROOT}")
    warden = Warden()
    yield warden
    await warden.close()


@pytest.fixture
def hasty(warden: Warden, monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits is handed back as soon as anywhere."""
    wait_behind_others(monkeypatch, 0.1)


@pytest.fixture
async def world(warden: Warden) -> World:
    world = World(warden)
    await world.adapter.start(world.recorder)
    return world


async def test_a_child_goes_on_with_what_stands_behind_in_their_order(world: World) -> None:
    await world.begin(call(1, "sleep", 0.25, bundle=1), call(2, "add", 1, 1, bundle=1))
    assert world.run(call(3, "add", 1, 2, bundle=2), call(4, "add", 1, 3, bundle=2), behind=True)
    await world.recorder.until_ended(4)
    assert world.recorder.order == [1, 2, 3, 4]
    assert [world.recorder.value(job) for job in (2, 3, 4)] == [2, 3, 4]
    assert world.recorder.behind == [(3, 1), (4, 1)]
    for job in range(5, 40):  # and so on, for as long as there is work
        world.run(call(job, "add", 1, job), behind=job % 2 == 0)
        if job % 2 == 0:
            await world.recorder.until_ended(job)
    await world.recorder.until_ended(39)
    assert world.recorder.value(39) == 40 and not world.recorder.returned


async def test_it_has_not_started_while_another_runs(world: World) -> None:
    await world.begin(call(1, "sleep", 0.25))
    assert world.run(call(2, "add", 1, 1), behind=True)
    assert world.adapter.started(1, 1) and not world.adapter.started(2, 1)
    await world.recorder.until_ended(2)
    assert world.recorder.behind == [(2, 1)]


async def test_one_bundle_can_stand_behind_and_none_behind_nothing(world: World) -> None:
    assert not world.run(call(9, "add", 1, 1), behind=True)
    await world.begin(call(1, "sleep", 0.25))
    assert world.run(call(2, "add", 1, 1), behind=True)
    assert not world.run(call(3, "add", 1, 1), behind=True)
    await world.recorder.until_ended(2)
    assert set(world.recorder.results) == {(1, 1), (2, 1)}


@pytest.mark.parametrize("kind", ["kill", "once"])
async def test_none_stands_behind_one_that_must_not_share(world: World, kind: str) -> None:
    world.warden.renew(read_clock() + 600)
    await world.begin(call(1, "sleep", 0.25)._replace(**{kind: True}))
    assert not world.run(call(2, "add", 1, 1), behind=True)
    await world.recorder.until_ended(1)


async def test_none_stands_behind_where_children_are_replaced(warden: Warden) -> None:
    world = World(warden, Bounds(jobs=100))
    await world.adapter.start(world.recorder)
    await world.begin(call(1, "sleep", 0.25))
    assert not world.run(call(2, "add", 1, 1), behind=True)
    await world.recorder.until_ended(1)


async def test_none_stands_behind_asynchronous_tasks(world: World) -> None:
    await world.begin(call(1, "sleep", 0.25))
    assert not world.run(call(2, "nap", 0.0), behind=True)
    await world.recorder.until_ended(1)


@pytest.mark.usefixtures("hasty")
async def test_what_has_to_wait_too_long_is_handed_back(world: World) -> None:
    await world.begin(call(1, "sleep", 0.6))
    world.run(call(2, "add", 1, 1, bundle=1), call(3, "add", 1, 1, bundle=1), behind=True)
    await world.recorder.until(lambda: len(world.recorder.returned) == 2)
    assert world.recorder.returned == [(2, 1), (3, 1)] and not world.recorder.results
    await world.recorder.until_ended(1)
    await eventually(lambda: len(world.adapter._idle) == 1)
    world.run(call(4, "add", 2, 2))  # the child has passed over them, and takes what comes
    await world.recorder.until(lambda: (4, 1) in world.recorder.results)
    assert set(world.recorder.results) == {(1, 1), (4, 1)}


@pytest.mark.usefixtures("hasty")
async def test_many_that_are_each_not_too_long_are_too_long_together(world: World) -> None:
    await world.begin(*(call(job, "sleep", 0.06, bundle=1) for job in range(1, 6)))
    world.run(call(9, "add", 1, 1), behind=True)
    await world.recorder.until(lambda: (9, 1) in world.recorder.returned)
    assert (9, 1) not in world.recorder.results


async def test_a_stop_takes_what_stands_behind_back_first(world: World, tmp_path: Path) -> None:
    await world.begin(call(1, "spawn_and_sleep", str(tmp_path / "pid")))
    await eventually(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
    world.run(call(2, "add", 1, 1), behind=True)
    world.adapter.stop(1, 1, force=False)
    await world.recorder.until(lambda: world.recorder.results and world.recorder.returned)
    assert world.recorder.result(1).kind == "cancelled" and world.recorder.returned == [(2, 1)]
    await eventually(lambda: is_gone(int((tmp_path / "pid").read_text())))
    await eventually(lambda: len(world.adapter._idle) == 1)
    world.run(call(3, "add", 1, 1))
    await world.recorder.until(lambda: (3, 1) in world.recorder.results)


@pytest.mark.parametrize("kind", ["cancelled", "stopped"])
async def test_what_stands_behind_can_be_stopped_alone(world: World, kind: str) -> None:
    await world.begin(call(1, "sleep", 0.25))
    world.run(call(2, "add", 1, 1), behind=True)
    world.adapter.stop(2, 1, force=True, kind=kind)
    await world.recorder.until(lambda: (1, 1) in world.recorder.results)
    assert world.recorder.result(1).kind == "ok"
    if kind == "cancelled":
        assert world.recorder.result(2).kind == "cancelled"
    else:
        assert world.recorder.returned == [(2, 1)]


async def test_time_is_over_for_the_one_that_runs(world: World) -> None:
    await world.begin(call(1, "sleep", 30, timeout=0.05))
    world.run(call(2, "add", 1, 1), behind=True)
    await world.recorder.until(lambda: (1, 1) in world.recorder.results)
    assert world.recorder.result(1).kind == "timeout"
    await world.recorder.until(lambda: (2, 1) in world.recorder.results or world.recorder.returned)


async def test_time_is_over_for_one_that_stood_behind(world: World) -> None:
    await world.begin(call(1, "sleep", 0.25))
    world.run(call(2, "sleep", 30, timeout=0.1), behind=True)
    await world.recorder.until_ended(2)
    assert (world.recorder.result(1).kind, world.recorder.result(2).kind) == ("ok", "timeout")


async def test_a_child_that_dies_is_charged_to_the_one_that_ran(world: World) -> None:
    await world.begin(call(1, "sleep", 30))
    world.run(call(2, "add", 1, 1, bundle=1), call(3, "add", 1, 1, bundle=1), behind=True)
    os.kill(world.child(), signal.SIGKILL)
    await world.recorder.until(lambda: world.recorder.results and len(world.recorder.returned) == 2)
    assert world.recorder.result(1).kind == "crashed"
    assert world.recorder.returned == [(2, 1), (3, 1)]


async def test_a_death_of_the_one_behind_is_its_own(world: World) -> None:
    await world.begin(call(1, "sleep", 0.25))
    world.run(call(2, "die", "kill", bundle=1), call(3, "add", 1, 1, bundle=1), behind=True)
    await world.recorder.until(lambda: (2, 1) in world.recorder.results)
    assert (world.recorder.result(1).kind, world.recorder.result(2).kind) == ("ok", "crashed")
    assert world.recorder.returned == [(3, 1)]


async def test_each_has_its_own_output(world: World) -> None:
    await world.begin(call(1, "say_then_sleep", "one", 0.2))
    world.run(call(2, "run_program", "two"), behind=True)
    await world.recorder.until_ended(2)
    world.run(call(3, "run_program", "three"))
    world.run(call(4, "say", "four"), behind=True)
    await world.recorder.until_ended(4)
    for job, word in enumerate(("one", "two", "three", "four"), 1):
        text = "".join(piece.text for piece in world.recorder.pieces if piece.job == job)
        assert word in text and not {"one", "two", "three", "four"} - {word} & set(text.split())


async def test_a_worker_that_closes_hands_back_what_stands_behind(world: World) -> None:
    await world.begin(call(1, "sleep", 0.3))
    world.run(call(2, "add", 1, 1), behind=True)
    await world.adapter.close(grace_seconds=5)
    assert set(world.recorder.results) == {(1, 1)} and world.recorder.returned == [(2, 1)]
