"""Calls and jobs on which leaders ended are counted, for a day, and no more than so many of them."""

from __future__ import annotations

import pytest

from fairway.store import CULPRIT_SECONDS, MOST_CULPRITS, Culprit, Store
from fairway.stores.memory import MemoryStore
from fairway.times import MICRO
from tests.conformance.stage import NOW

DAY = CULPRIT_SECONDS * MICRO


async def note(store: Store, digest: str, at: int = NOW, error: str = "E: e", job: int | None = None) -> None:
    await store.note_culprit(digest, f"what {digest} is", error, job, at)


async def test_each_leader_that_ended_on_a_call_is_counted(store: Store) -> None:
    assert await store.culprits(NOW) == []
    await note(store, "a:1")
    await note(store, "b:2", NOW + 1, job=7)
    await note(store, "a:1", NOW + 2, "F: \N{SNOWMAN}")
    assert await store.culprits(NOW + 2) == [
        Culprit("a:1", "what a:1 is", "F: \N{SNOWMAN}", None, 2, NOW, NOW + 2),
        Culprit("b:2", "what b:2 is", "E: e", 7, 1, NOW + 1, NOW + 1),
    ]


async def test_after_a_day_it_counts_no_more(store: Store) -> None:
    await note(store, "a:1")
    await note(store, "b:2", NOW + 5)
    assert [one.digest for one in await store.culprits(NOW + DAY - 1)] == ["b:2", "a:1"]
    assert [one.digest for one in await store.culprits(NOW + DAY)] == ["b:2"]
    await note(store, "a:1", NOW + DAY)  # counted anew
    [first, second] = await store.culprits(NOW + DAY)
    assert (first.digest, first.leaders, first.first_at) == ("a:1", 1, NOW + DAY)
    assert second.digest == "b:2"
    await note(store, "c:3", NOW + 3 * DAY)
    assert [one.digest for one in await store.culprits(0)] == ["c:3"]  # the others are gone for good


async def test_the_oldest_go_when_there_are_too_many(store: Store) -> None:
    for number in range(MOST_CULPRITS + 3):
        await note(store, f"x:{number:04}", NOW + number)
    kept = [one.digest for one in await store.culprits(NOW)]
    assert kept == [f"x:{number:04}" for number in reversed(range(3, MOST_CULPRITS + 3))]
    await note(store, "x:0003", NOW + 5000)  # one that is known takes nobody's place
    assert len(await store.culprits(NOW)) == MOST_CULPRITS


@pytest.mark.parametrize("store", ["sqlite", "postgres"], indirect=True)
async def test_it_outlasts_the_process(store: Store) -> None:
    assert not isinstance(store, MemoryStore)
    await note(store, "a:1")
    await store.close()
    await store.open()
    assert [one.leaders for one in await store.culprits(NOW)] == [1]
