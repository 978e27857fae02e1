"""Who leads: a successor comes at once or after the TTL, never before, and a lost term is given up."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from fairway.errors import StoreUnavailable
from fairway.leadership.elector import Elector
from fairway.leadership.term import Reign, Watch, begin_reign
from fairway.node.link import Link
from fairway.store import Leadership
from fairway.stores.memory import MemoryStore
from fairway.stores.sqlite.locks import FileLock

from .stage import HeldStore, Shell, new_job
from .virtual_time import in_time, in_virtual_time, until

TTL = 5.0


# --- terms, pure -----------------------------------------------------------------------------------------
def seen(term: int, beat: int, holder: str = "a") -> Leadership:
    """A leader row as a candidate reads it."""
    return Leadership(term, holder, "", "", 0, beat)


@pytest.mark.parametrize(
    ("looks", "may"),
    [
        ([(0, None)], "y"),
        ([(0, seen(1, 1, ""))], "y"),
        ([(0, seen(1, 1))], "n"),
        ([(0, seen(1, 1)), (4.9, seen(1, 1))], "nn"),
        ([(0, seen(1, 1)), (5.0, seen(1, 1))], "ny"),
        ([(0, seen(1, 1)), (4, seen(1, 2)), (8.9, seen(1, 2)), (9, seen(1, 2))], "nnny"),
        ([(0, seen(1, 1)), (6, seen(1, 2))], "nn"),  # it did not look for long, but the beat came
        ([(0, seen(1, 1)), (6, seen(2, 1))], "nn"),  # another term
        ([(0, seen(1, 1)), (6, seen(1, 1, "b"))], "nn"),  # another holder
        ([(0, seen(1, 1)), (1, seen(1, 1, "")), (2, seen(2, 2, "b")), (6.9, seen(2, 2, "b"))], "nynn"),
    ],
)
def test_a_candidate_stands_when_the_seat_is_free_or_the_beat_stood_still_for_the_ttl(
    looks: list[tuple[float, Leadership | None]], may: str
) -> None:
    watch = Watch(TTL)
    assert "".join("ny"[watch.may_stand(row, 1000 + at)] for at, row in looks) == may


@pytest.mark.parametrize(
    ("renewed", "trusted_until"),
    [([], 4), ([1], 5), ([1, 2, 3], 7), ([3, 1], 7), ([-9], 4)],  # a late answer shortens nothing
)
def test_a_leader_trusts_itself_for_less_than_the_ttl_from_when_it_sent(
    renewed: list[float], trusted_until: float
) -> None:
    reign = begin_reign(seen(3, 1), sent=100.0, ttl=TTL)
    for sent in renewed:
        reign.renewed(100.0 + sent)
    assert (reign.term, reign.holder) == (3, "a")
    assert reign.trusts_itself(100 + trusted_until - 0.01)
    assert not reign.trusts_itself(100 + trusted_until)


# --- standing --------------------------------------------------------------------------------------------
class ShakyStore(MemoryStore):
    """A store that can be made busy, or deaf to one holder's beats (as if that process stood still)."""

    def __init__(self) -> None:
        super().__init__()
        self.busy = False
        self.why = "another process held the write lock"
        self.frozen = ""

    async def renew(self, term: int, holder: str, asleep: bool) -> bool:
        await until(lambda: self.frozen != holder, 1000, every=0.1)
        self._refuse()
        return await super().renew(term, holder, asleep)

    async def find_leadership(self) -> Leadership | None:
        self._refuse()
        return await super().find_leadership()

    async def resign(self, term: int, holder: str) -> None:
        self._refuse()
        await super().resign(term, holder)

    def _refuse(self) -> None:
        if self.busy:
            raise StoreUnavailable(self.why)


class BrokenLock:
    """A lock on a file system that does not know any."""

    def try_lock(self, patience: float = 0.0) -> bool:
        raise OSError("no locks available")

    def release(self) -> None:
        """Nothing was taken."""


class Candidate:
    """A node's candidacy: stands, and keeps what it won."""

    def __init__(self, store: MemoryStore, name: str, folder: Path | None) -> None:
        self.lock = None if folder is None else FileLock(folder / "leader.lock")
        self.elector = Elector(store, name, name, f"http://{name}", TTL, self.lock)
        self.reign: Reign | None = None
        self.over = False
        self._standing = asyncio.create_task(self._stand())

    async def _stand(self) -> None:
        self.reign = await self.elector.win()
        await self.elector.keep(self.reign)
        self.over = True

    async def leads(self, within: float) -> float:
        """Wait until it has won; return how long that took."""
        before = asyncio.get_running_loop().time()
        await until(lambda: self.reign, within)
        return asyncio.get_running_loop().time() - before

    def die(self) -> None:
        """As the system ends a process: no goodbye, but its lock is free."""
        self._standing.cancel()
        if self.lock is not None:
            self.lock.release()

    async def resign(self) -> None:
        """Leave as a node does that is told to stop."""
        self._standing.cancel()
        assert self.reign is not None
        await self.elector.resign(self.reign)


async def first_and_second(store: MemoryStore, folder: Path | None) -> tuple[Candidate, Candidate]:
    """Let one lead and another stand by."""
    first = Candidate(store, "first", folder)
    assert await first.leads(within=0.1) < 0.1
    second = Candidate(store, "second", folder)
    await asyncio.sleep(4 * TTL)
    assert second.reign is None and not first.over
    assert first.reign and first.reign.term == 1
    return first, second


@in_virtual_time
async def test_a_standby_takes_over_at_once_when_the_leader_s_process_is_gone(tmp_path: Path) -> None:
    first, second = await first_and_second(MemoryStore(), tmp_path)
    first.die()
    assert await second.leads(within=TTL) <= TTL / 10
    assert second.reign and second.reign.term == 2


@in_virtual_time
async def test_without_a_lock_a_standby_waits_for_the_ttl() -> None:
    first, second = await first_and_second(MemoryStore(), None)
    first.die()
    assert TTL * 0.7 <= await second.leads(within=2 * TTL) <= TTL * 1.1  # the last beat may be 1 s old


@in_virtual_time
async def test_a_frozen_leader_loses_its_term_after_the_ttl_though_it_holds_the_lock(tmp_path: Path) -> None:
    store = ShakyStore()
    first, second = await first_and_second(store, tmp_path)
    store.frozen = "first"
    assert TTL * 0.7 <= await second.leads(within=2 * TTL) <= TTL * 1.1
    assert first.lock and first.lock.descriptor is not None
    store.frozen = ""
    await until(lambda: first.over, TTL / 5)  # it learns of it with its next beat
    assert second.reign and second.reign.term == 2 and not second.over


@in_virtual_time
async def test_who_won_by_silence_takes_the_lock_as_soon_as_it_is_free(tmp_path: Path) -> None:
    store = ShakyStore()
    first, second = await first_and_second(store, tmp_path)
    store.frozen = "first"
    await second.leads(within=2 * TTL)
    assert second.lock and second.lock.descriptor is None
    first.die()
    await until(lambda: second.lock and second.lock.descriptor is not None, TTL / 4)
    third = Candidate(store, "third", tmp_path)
    await asyncio.sleep(2 * TTL)
    assert third.reign is None


@in_virtual_time
async def test_who_resigns_hands_over_at_once(tmp_path: Path) -> None:
    for folder in (tmp_path, None):
        first, second = await first_and_second(MemoryStore(), folder)
        await first.resign()
        assert await second.leads(within=TTL) <= TTL / 10


@in_virtual_time
async def test_who_cannot_say_that_it_resigns_at_least_frees_the_lock(tmp_path: Path) -> None:
    store = ShakyStore()
    first, second = await first_and_second(store, tmp_path)
    store.busy = True
    await first.resign()
    store.busy = False
    assert await second.leads(within=TTL) <= TTL / 10


@in_virtual_time
async def test_a_lock_that_cannot_be_taken_ends_no_reign(tmp_path: Path) -> None:
    store = MemoryStore()
    first = Candidate(store, "first", tmp_path)
    await first.leads(within=1)
    elector = first.elector
    elector._lock = BrokenLock()
    await asyncio.sleep(3 * TTL)
    assert not first.over and first.reign and first.reign.trusts_itself(asyncio.get_running_loop().time())


@in_virtual_time
async def test_a_candidate_whose_lock_cannot_be_taken_goes_on_standing_by() -> None:
    store = MemoryStore()
    elector = Elector(store, "a", "a", "", TTL, BrokenLock())
    standing = asyncio.create_task(elector.win())
    await asyncio.sleep(2 * TTL)
    assert not standing.done()
    elector._lock = None
    assert (await in_time(standing)).term == 1


@in_virtual_time
async def test_a_leader_whose_store_is_busy_is_late_and_not_deposed(tmp_path: Path) -> None:
    store = ShakyStore()
    first, _ = await first_and_second(store, tmp_path)
    clock = asyncio.get_running_loop().time
    store.busy = True
    await asyncio.sleep(10 * TTL)
    assert first.reign and not first.over
    assert not first.reign.trusts_itself(clock())  # so it says nothing
    store.busy = False
    await until(lambda: first.reign and first.reign.trusts_itself(clock()), TTL)
    assert not first.over and first.reign.term == 1


@in_virtual_time
async def test_of_many_candidates_one_leads_and_terms_rise(tmp_path: Path) -> None:
    store = MemoryStore()
    crowd = [Candidate(store, f"n{number}", tmp_path) for number in range(5)]
    for term in range(1, 6):
        await until(lambda: any(one.reign for one in crowd), 2 * TTL)
        await asyncio.sleep(TTL)
        [leader] = [one for one in crowd if one.reign]
        assert leader.reign and leader.reign.term == term and not leader.over
        leader.die()
        crowd.remove(leader)


# --- what is said ----------------------------------------------------------------------------------------
def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return what the elector logged, and forget it."""
    lines = [record.getMessage() for record in caplog.records if record.name == "fairway.elector"]
    caplog.clear()
    return lines


async def through_trouble(store: ShakyStore, caplog: pytest.LogCaptureFixture) -> list[list[str]]:
    """Return what is logged while the store is busy, while it is so for another reason, and after that."""
    store.busy, heard = True, []
    for why in ("another process held the write lock", "the disk is full"):
        store.why = why
        await asyncio.sleep(4 * TTL)
        heard.append(said(caplog))
    store.busy = False
    await asyncio.sleep(4 * TTL)
    return [*heard, said(caplog)]


@pytest.mark.parametrize("leads", [False, True])
@in_virtual_time
async def test_trouble_is_said_once_for_each_reason_and_once_when_it_is_over(
    caplog: pytest.LogCaptureFixture, leads: bool
) -> None:
    caplog.set_level("INFO")
    store = ShakyStore()
    first, second = await first_and_second(store, None)
    if leads:
        second.die()
        what = "the beat was not written"
    else:
        first.die()
        what = "cannot stand for election"
    assert await through_trouble(store, caplog) == [[what], [what], ["the trouble is over"]]


@in_virtual_time
async def test_a_node_that_only_watches_says_its_trouble_once_too(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    store = ShakyStore()
    watching = asyncio.create_task(Elector(store, "a", "a", "", TTL, None).watch())
    what = "cannot see who leads"
    assert await through_trouble(store, caplog) == [[what], [what], ["the trouble is over"]]
    watching.cancel()


@in_virtual_time
async def test_after_its_own_reign_a_node_without_its_store_does_not_name_who_led_before() -> None:
    store = ShakyStore()
    first, second = await first_and_second(store, None)
    link = Link("second", TTL)
    second.elector.pause = link.pause
    first.die()
    await second.leads(within=2 * TTL)
    link.lead_here(True)
    store.busy = True
    await second.resign()
    link.lead_here(False)
    await second.elector.wait_a_turn()
    assert link.why_not() == "nobody leads just now; try again in a moment"


@in_virtual_time
async def test_a_beat_that_stands_still_is_looked_for_often_though_the_link_is_up() -> None:
    """A frozen leader keeps its connections."""
    link, now = Link("second", TTL), asyncio.get_running_loop().time
    leader = seen(1, 1)._replace(url="http://127.0.0.1:1")
    link.see(leader)
    link.up = True
    paces = []
    for beat in (1, 2, 2, 2, 3):
        before = now()
        await link.pause(leader._replace(beat=beat))
        paces.append(round(now() - before, 3))
    assert paces == [TTL / 4, TTL / 4, TTL / 20, TTL / 20, TTL / 4]


# --- nodes -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("busy", [False, True])
@in_virtual_time
async def test_a_node_that_was_deposed_gives_way_to_its_successor(tmp_path: Path, busy: bool) -> None:
    """It had the lock, and the successor has not: standing at once, it would depose it in turn."""
    store = HeldStore()
    first = Shell(tmp_path, store, FileLock(tmp_path / "leader.lock"))
    second = Shell(tmp_path, store, FileLock(tmp_path / "leader.lock"))
    async with first:
        thaw = asyncio.Event()
        freeze_beats(store, first.incarnation, thaw)
        second._tasks = [asyncio.create_task(second._lead_forever())]
        await until(lambda: second.engine, 2 * TTL)
        if busy:  # it hears of its end by a commit, not by a beat
            await first.submit(new_job(1))
        else:
            thaw.set()
        await until(lambda: first.engine is None, 2 * TTL)
        await asyncio.sleep(4 * TTL)
        assert first.engine is None and second.leader.reign.term == 2
        await second.__aexit__(None, None, None)
        await until(lambda: first.engine, TTL / 2)
        assert first.leader.reign.term == 3


def freeze_beats(store: HeldStore, holder: str, thaw: asyncio.Event) -> None:
    """Let no beat of one node through until it thaws."""
    usual = store.renew

    async def renew(term: int, whose: str, asleep: bool) -> bool:
        if whose == holder:
            await thaw.wait()
        return await usual(term, whose, asleep)

    store.renew = renew  # type: ignore[method-assign, assignment]


@in_virtual_time
async def test_a_node_that_steps_down_leads_again_if_nobody_else_stands(tmp_path: Path) -> None:
    async with Shell(tmp_path, HeldStore(), FileLock(tmp_path / "leader.lock")) as shell:
        await in_time(shell.desk.step_down())
        await until(lambda: shell.engine is not None and shell.engine.reign.term == 2, 3)
        assert not shell.ended


@in_virtual_time
async def test_a_lock_folder_that_cannot_be_read_ends_no_reign(tmp_path: Path) -> None:
    async with Shell(tmp_path, HeldStore()) as shell:

        def broken(keep: object = ()) -> list[str]:
            raise OSError("too many open files")

        shell.locks.remove_stale = broken  # type: ignore[method-assign]
        await asyncio.sleep(2 * TTL)
        assert shell.leader.reign.term == 1
