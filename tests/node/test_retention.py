"""Ended jobs stay as long as their queue says, and every window of time is looked at once."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from fairway.clock import wall
from fairway.core.scheduler import Core
from fairway.core.settings import read_settings
from fairway.node.chores import retentions, tidy
from fairway.node.retention import Retention
from fairway.store import Submission
from fairway.stores.memory import MemoryStore
from fairway.times import MICRO
from tests.conformance.stage import Stage, new_job

HOUR, DAY = 3600, 86_400


class Counting(MemoryStore):
    """A store that remembers which windows were looked at."""

    def __init__(self) -> None:
        super().__init__()
        self.windows: list[tuple[int, int]] = []

    async def ended_queues(self, since: int, until: int) -> list[str]:
        self.windows.append((since, until))
        return await super().ended_queues(since, until)


async def ended(store: MemoryStore, now: int, jobs: Sequence[tuple[str, float]]) -> None:
    """Let jobs 1, 2... of these queues have ended so many seconds before *now*."""
    stage = await Stage(store).lead()
    for number, (queue, seconds) in enumerate(jobs, start=1):
        await stage.commit(Submission([new_job(number, queue=queue)]))
        await stage.begin(number)
        await stage.end(number, queue=queue, ended_at=now - int(seconds * MICRO))


def left(store: MemoryStore) -> list[int]:
    return sorted(store.tables.jobs)


JOBS = [
    ("a", 2 * HOUR), ("a/b", 2 * HOUR), ("a/b/c", 20 * DAY), ("ab", 2 * HOUR), ("ab", 8 * DAY),
    ("x", 20 * DAY), ("x", 40 * DAY), ("a", HOUR / 2), ("x/y", 8 * DAY), ("x/y", 6 * DAY),
]  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "stay"),
    [
        ({}, [1, 2, 4, 8, 10]),
        ({"a": HOUR}, [4, 8, 10]),
        ({"a": HOUR, "a/b": 30 * DAY}, [2, 3, 4, 8, 10]),
        ({"x": 30 * DAY}, [1, 2, 4, 6, 8, 9, 10]),
        ({"x": 30 * DAY, "x/y": 7 * DAY, "ab": 60.0}, [1, 2, 6, 8, 10]),
    ],
)
async def test_each_queue_keeps_its_ended_jobs_as_long_as_it_says(
    settings: dict[str, float], stay: list[int]
) -> None:
    store, now = MemoryStore(), wall()
    await ended(store, now, JOBS)
    retention = Retention(store, 7 * DAY)
    retention.set(settings)
    for _ in range(3):  # a round has a bounded number of steps
        await tidy(store, retention, 0)
    assert left(store) == stay


async def test_a_step_takes_a_bounded_number() -> None:
    store, now = MemoryStore(), wall()
    await ended(store, now, [("a", 2 * HOUR + number) for number in range(10)])
    retention = Retention(store, DAY, most=3)
    retention.set({"a": HOUR})
    gone = [count async for count in retention.steps(now) if count]
    assert gone == [3, 3, 3, 1] and left(store) == []


async def test_a_window_is_looked_at_once_and_a_pause_in_between_loses_nothing() -> None:
    store, now = Counting(), wall()
    retention = Retention(store, DAY)
    retention.set({"a": HOUR})
    async for _ in retention.steps(now):
        if len(store.windows) == 3:
            break
    async for _ in retention.steps(now):
        pass
    edges = [edge for window in store.windows for edge in window]
    assert edges[0] == now - DAY * MICRO and edges[-1] == now - HOUR * MICRO
    assert edges[1:-1:2] == edges[2::2]  # each begins where the one before it ended
    assert len(store.windows) < 60  # much of it at a time where nothing is found
    store.windows.clear()
    async for _ in retention.steps(now + 60 * MICRO):
        pass
    assert store.windows == [(now - HOUR * MICRO, now + (60 - HOUR) * MICRO)]


async def test_what_is_kept_late_for_a_short_retention_is_still_found() -> None:
    store, now = MemoryStore(), wall()
    retention = Retention(store, DAY)
    retention.set({"a": 1.0})
    assert [count async for count in retention.steps(now)][-1] == 0
    await ended(store, now, [("a", 30.0)])  # its commit took half a minute
    assert 1 in [count async for count in retention.steps(now + MICRO)]


async def test_a_changed_setting_lets_all_be_looked_through_again() -> None:
    store, now = MemoryStore(), wall()
    await ended(store, now, [("a", 20 * HOUR)])
    retention = Retention(store, DAY)
    for seconds, stay in ((22 * HOUR, [1]), (10 * HOUR, [])):
        retention.set({"a": seconds})
        async for _ in retention.steps(now):
            pass
        assert left(store) == stay


def test_the_settings_are_those_of_the_tree() -> None:
    world = Core().world
    for path, seconds in (("a", 60.0), ("a/b", None), ("b/c", 3.0)):
        world.tree.set(world.tree.grow(path), read_settings({"retention": seconds}), 0)
    assert retentions(world) == {"a": 60.0, "b/c": 3.0}
