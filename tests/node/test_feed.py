"""Events for those who listen, and ends for those who wait."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from fairway.core.lifecycle import State
from fairway.core.plan import Batch, News
from fairway.errors import InvalidRequest, NotFound
from fairway.node.feed import Feed, parse_event_id
from fairway.store import NumberedEvent
from fairway.stores.memory import MemoryStore
from fairway.wire.messages import Held

from .stage import Gate, Hand, HeldStore, Shell, new_job
from .virtual_time import in_time, in_virtual_time, until


class Listener:
    """Follows a feed and keeps what it is told."""

    def __init__(self, feed: Feed, after: str | None) -> None:
        self.told: list[str] = []
        self.quiet = 0
        self.batches: list[list[NumberedEvent]] = []
        self._following = asyncio.create_task(self._follow(feed, after))

    async def _follow(self, feed: Feed, after: str | None) -> None:
        async for batch in feed.follow(after):
            if batch is None:
                self.quiet += 1
            else:
                self.batches.append(batch)
                self.told += [f"{one.number}.{one.offset} {one.event.kind}" for one in batch]


class Story:
    """A store in which things happen when the test says so."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.feed = Feed(self.store)

    async def begin(self, live: bool = True) -> Story:
        assert await self.store.elect(0, "leader", "node", "", 1)
        self.feed.live = live
        return self

    async def happens(self, *kinds: str, heard: bool = True) -> None:
        """Commit events; *heard*: by an engine of this node."""
        events = [News(kind, 1, [7]) for kind in kinds]
        receipt = await self.store.commit(1, "leader", Batch(news=events), [], 1)
        if heard:
            self.feed.tell(receipt.told)


@in_virtual_time
async def test_a_listener_from_now_on_hears_only_what_comes() -> None:
    story = await Story().begin()
    await story.happens("a", "b")
    listener = Listener(story.feed, None)
    await asyncio.sleep(0.01)
    await story.happens("c", "d")
    await until(lambda: listener.told == ["2.0 c", "2.1 d"])


@pytest.mark.parametrize(
    ("after", "told"),
    [
        ("0", ["1.0 a", "1.1 b", "2.0 c"]),
        ("1.0", ["1.1 b", "2.0 c"]),
        ("1", ["1.1 b", "2.0 c"]),
        ("1.1", ["2.0 c"]),
        ("2.0", []),
        ("9.9", []),
    ],
)
@in_virtual_time
async def test_a_listener_goes_on_behind_what_it_has_heard(after: str, told: list[str]) -> None:
    story = await Story().begin()
    await story.happens("a", "b")
    await story.happens("c")
    listener = Listener(story.feed, after)
    await asyncio.sleep(1)
    assert listener.told == told


@in_virtual_time
async def test_a_listener_that_was_away_too_long_is_told_of_the_gap() -> None:
    story = await Story().begin()
    for kind in "abcd":
        await story.happens(kind)
    del story.store.tables.events[1], story.store.tables.events[2]
    listener = Listener(story.feed, "1.0")
    await until(lambda: listener.told == ["2.0 gap", "3.0 c", "4.0 d"])
    assert listener.batches[0][0].event.detail == {"after": "1.0"}
    just = Listener(story.feed, "2.0")
    await until(lambda: just.told == ["3.0 c", "4.0 d"])  # nothing is missing between 2 and 3


@in_virtual_time
async def test_a_listener_is_woken_at_once_by_its_own_leader() -> None:
    story = await Story().begin()
    listener = Listener(story.feed, None)
    await asyncio.sleep(3)
    before = asyncio.get_running_loop().time()
    await story.happens("a")
    await until(lambda: listener.told)
    assert asyncio.get_running_loop().time() - before < 0.01


@in_virtual_time
async def test_a_listener_notices_that_another_node_leads_now() -> None:
    story = await Story().begin()
    listener = Listener(story.feed, None)
    await asyncio.sleep(1)
    story.feed.live = False
    await story.happens("a", heard=False)
    await until(lambda: listener.told == ["1.0 a"], 1)
    await story.happens("b", heard=False)
    await until(lambda: listener.told == ["1.0 a", "2.0 b"], 1)
    story.feed.live = True
    await story.happens("c")
    await until(lambda: listener.told == ["1.0 a", "2.0 b", "3.0 c"], 0.01)


@pytest.mark.parametrize("live", [True, False])
@in_virtual_time
async def test_a_quiet_listener_gets_a_sign_of_life_every_fifteen_seconds(live: bool) -> None:
    story = await Story().begin(live)
    listener = Listener(story.feed, None)
    await asyncio.sleep(50)
    assert (listener.quiet, listener.told) == (3, [])


@pytest.mark.parametrize(
    "junk", ["x", "1.x", "-1", "1.-1", "1.2.3", "²", "1" * 19, "1." + "1" * 10, " 1", "."]
)
def test_junk_is_no_event_id(junk: str) -> None:
    with pytest.raises(InvalidRequest):
        parse_event_id(junk)


@pytest.mark.parametrize(("text", "read"), [("0", (0, 0)), ("12.3", (12, 3)), ("12.", (12, 0))])
def test_an_event_id_is_read(text: str, read: tuple[int, int]) -> None:
    assert parse_event_id(text) == read


# --- waiting for an end ----------------------------------------------------------------------------------
@in_virtual_time
async def test_who_waits_for_a_job_is_answered_when_it_ends(tmp_path: Path) -> None:
    async with Shell(tmp_path, HeldStore()) as shell:
        hand = await Hand(shell.leader.open_port()).hello()
        await shell.submit(new_job(1))
        waiting = [asyncio.create_task(shell.desk.wait_job(1, 30)) for _ in range(5)]
        await until(hand.begun)
        await asyncio.sleep(3)
        before = asyncio.get_running_loop().time()
        await hand.report(1)
        for job in await in_time(asyncio.gather(*waiting)):
            assert job.state is State.SUCCEEDED
        assert asyncio.get_running_loop().time() - before < 0.1
        assert (await in_time(shell.desk.wait_job(1, 30))).state is State.SUCCEEDED  # at once
        await until(lambda: not shell.feed._waiters)  # nothing is kept for who was answered


@in_virtual_time
async def test_who_waits_hears_of_an_end_that_is_told_in_the_same_moment(tmp_path: Path) -> None:
    async with Shell(tmp_path, HeldStore()) as shell:
        hand = await Hand(shell.leader.open_port()).hello()
        await shell.submit(new_job(1))
        await until(hand.begun)
        before = asyncio.get_running_loop().time()
        await hand.report(1)
        assert (await shell.desk.wait_job(1, 30)).state is State.SUCCEEDED
        assert asyncio.get_running_loop().time() - before < 0.1


@in_virtual_time
async def test_who_waits_for_a_job_too_long_sees_it_as_it_is(tmp_path: Path) -> None:
    async with Shell(tmp_path, HeldStore()) as shell:
        await shell.submit(new_job(1))
        before = asyncio.get_running_loop().time()
        assert (await in_time(shell.desk.wait_job(1, 7))).state is State.QUEUED
        assert 7 <= asyncio.get_running_loop().time() - before < 7.5
        with pytest.raises(NotFound):
            await in_time(shell.desk.wait_job(2, 7))


@in_virtual_time
async def test_who_waits_is_answered_although_the_leader_changes(tmp_path: Path) -> None:
    async with Shell(tmp_path, HeldStore()) as shell:
        hand, engine = await Hand(shell.leader.open_port()).hello(), shell.leader
        await shell.submit(new_job(1))
        waiting = asyncio.create_task(shell.desk.wait_job(1, 30))
        await until(hand.begun)
        shell.step_down()
        await shell.leads_again(engine)
        again = await Hand(shell.leader.open_port()).hello(holds=[Held(1, 1)])
        await again.report(1)
        assert (await in_time(waiting)).state is State.SUCCEEDED


@in_virtual_time
async def test_who_waits_is_not_told_of_an_end_before_its_commit(tmp_path: Path) -> None:
    async with Shell(tmp_path, HeldStore()) as shell:
        hand = await Hand(shell.leader.open_port()).hello()
        await shell.submit(new_job(1))
        await until(hand.begun)
        gate = Gate(shell.memory)
        waiting = asyncio.create_task(shell.desk.wait_job(1, 30))
        await hand.report(1)
        await gate.reached()
        await asyncio.sleep(5)
        assert not waiting.done()
        gate.open()
        assert (await in_time(waiting)).state is State.SUCCEEDED
