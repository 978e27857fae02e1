"""Schedules on a real node in virtual time: what is missed, what overlaps, leaders that change in between."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from fairway.clock import wall
from fairway.core.lifecycle import ENDED
from fairway.errors import Deposed, NotFound, Unsure
from fairway.leadership.term import begin_reign
from fairway.node.schedule_book import ScheduleBook
from fairway.node.timekeeper import Timekeeper
from fairway.schedule_spec import ScheduleSpec, progress_of
from fairway.store import Accepted, ScheduleChange, Store, StoredJob
from fairway.strict import convert
from fairway.times import MICRO
from fairway.wire import messages as wire
from tests.conformance.conftest import store as store  # every store, as in the stores' own suite
from tests.conformance.stage import arrivals_of

from .stage import Hand, HeldStore, Shell
from .virtual_time import in_time, in_virtual_time, until

JOB = {"task": "t", "queue": "q"}


def spec_of(**fields: Any) -> ScheduleSpec:
    fields = fields if "cron" in fields else {"every": 600, **fields}
    return convert({"job": JOB, **fields}, ScheduleSpec)


def jobs(shell: Shell) -> list[StoredJob]:
    return sorted(shell.memory.tables.jobs.values(), key=lambda job: job.id)


def live(shell: Shell) -> list[StoredJob]:
    return [job for job in jobs(shell) if job.state not in ENDED]


def last(shell: Shell, name: str = "s") -> tuple[str, int | None]:
    found = progress_of(shell.memory.tables.schedules[name]).last
    assert found is not None
    return found.what, found.job


def told(shell: Shell) -> list[tuple[Any, ...]]:
    """Return what listeners heard of schedules: the verb, the job, and the detail but for name and times."""
    found = [one for _, news in shell.memory.tables.events.values() for one in news]
    return [
        (one.kind.partition(".")[2], *one.jobs, *_plain(one.detail or {}))
        for one in found
        if one.kind.startswith("schedule.")
    ]


def _plain(detail: dict[str, Any]) -> list[Any]:
    assert detail["schedule"] == "s"
    return [detail[key] for key in ("what", "why", "count") if key in detail]


async def to_fire(number: int = 1) -> None:
    """Let the time pass until shortly behind the next fire of `every: 600`."""
    for _ in range(number):
        await asyncio.sleep(600 - wall() / MICRO % 600 + 0.5)


async def led_elsewhere(shell: Shell, fires: int, longer: float) -> None:
    """Another node, which fires nothing, leads through so many fires and some seconds longer."""
    engine, leadership = shell.leader, shell.memory.tables.leadership
    assert leadership is not None
    taken = shell.memory.apply_elect(leadership.term, "other", "other", "", wall())
    assert taken is not None
    beating = asyncio.create_task(_reign_idly(shell, taken.term))
    await to_fire(fires)
    await asyncio.sleep(longer)
    beating.cancel()
    await shell.leads_again(engine)
    await asyncio.sleep(1)


async def _reign_idly(shell: Shell, term: int) -> None:
    while True:
        assert shell.memory.apply_renew(term, "other", False)
        await asyncio.sleep(1)


@in_virtual_time
async def test_a_job_is_submitted_at_each_fire(tmp_path: Path) -> None:
    async with Shell(tmp_path, HeldStore()) as shell:
        await shell.desk.put_schedule("s", spec_of())
        await to_fire(3)
        assert [job.run_at // MICRO % 600 for job in jobs(shell)] == [0, 0, 0]
        assert last(shell) == ("submitted", jobs(shell)[-1].id)
        view = await shell.desk.get_schedule("s")
        assert [fire // MICRO % 600 for fire in view.next] == [0] * 5 and view.next[0] > wall()


@in_virtual_time
async def test_a_fire_reaches_a_worker(tmp_path: Path) -> None:
    async with Shell(tmp_path, HeldStore()) as shell:
        hand = await Hand(shell.leader.open_port()).hello()
        await shell.desk.put_schedule("s", spec_of())
        beating = asyncio.create_task(_beat(hand))
        await to_fire()
        await until(lambda: len(hand.begun()) == 1)
        beating.cancel()


async def _beat(hand: Hand) -> None:
    while True:
        await hand.port.receive(wire.Beat([]))
        await asyncio.sleep(1)


@pytest.mark.parametrize(
    ("policy", "submitted"),
    [
        ({"missed": "skip"}, 0),
        ({"missed": "once"}, 1),
        ({"missed": "all", "missed_most": 3}, 3),
        ({"missed": "all"}, 5),
    ],
)
def test_what_was_missed(policy: dict[str, Any], submitted: int, tmp_path: Path) -> None:
    @in_virtual_time
    async def scene() -> None:
        async with Shell(tmp_path, HeldStore()) as shell:
            await shell.desk.put_schedule("s", spec_of(**policy))
            await led_elsewhere(shell, 5, 300)
            assert len(jobs(shell)) == submitted
            assert last(shell)[0] == ("submitted" if submitted else "skipped")
            await to_fire()
            assert len(jobs(shell)) == submitted + 1

    scene()


@in_virtual_time
async def test_a_leader_that_comes_a_little_late_misses_nothing(tmp_path: Path) -> None:
    async with Shell(tmp_path, HeldStore()) as shell:
        await shell.desk.put_schedule("s", spec_of(missed="skip"))
        await led_elsewhere(shell, 1, 30)
        assert len(jobs(shell)) == 1


@in_virtual_time
async def test_allow_submits_whatever_is_there(tmp_path: Path) -> None:
    async with Shell(tmp_path, HeldStore()) as shell:
        await shell.desk.put_schedule("s", spec_of(overlap="allow"))
        await to_fire(2)
        assert len(live(shell)) == 2


@in_virtual_time
async def test_skip_leaves_a_fire_out_while_a_job_is_there(tmp_path: Path) -> None:
    async with Shell(tmp_path, HeldStore()) as shell:
        await shell.desk.put_schedule("s", spec_of(overlap="skip"))
        await to_fire(2)
        [job] = jobs(shell)
        assert last(shell) == ("skipped", None)
        await shell.desk.cancel(job.id)
        await to_fire()
        assert len(jobs(shell)) == 2


@in_virtual_time
async def test_queue_submits_one_after_the_other(tmp_path: Path) -> None:
    async with Shell(tmp_path, HeldStore()) as shell:
        await shell.desk.put_schedule("s", spec_of(overlap="queue"))
        await to_fire(3)
        assert len(jobs(shell)) == 1
        for number in (2, 3):
            await shell.desk.cancel(live(shell)[0].id)
            await until(lambda number=number: len(jobs(shell)) == number, 5)
            assert len(live(shell)) == 1
        assert progress_of(shell.memory.tables.schedules["s"]).pending == ()


@in_virtual_time
async def test_cancel_ends_the_old_job_before_the_new_one_is_there(tmp_path: Path) -> None:
    async with Shell(tmp_path, HeldStore()) as shell:
        await shell.desk.put_schedule("s", spec_of(overlap="cancel"))
        await to_fire()
        [first] = live(shell)
        await to_fire()
        await until(lambda: len(jobs(shell)) == 2, 5)
        [second] = live(shell)
        assert second.id != first.id and shell.memory.tables.jobs[first.id].state == "cancelled"


@in_virtual_time
async def test_a_paused_schedule_makes_up_for_nothing(tmp_path: Path) -> None:
    async with Shell(tmp_path, HeldStore()) as shell:
        await shell.desk.put_schedule("s", spec_of(missed="all"))
        assert (await shell.desk.pause_schedule("s", True)).next == []
        await to_fire(3)
        await shell.desk.pause_schedule("s", False)
        await asyncio.sleep(5)
        assert jobs(shell) == []
        await to_fire()
        assert len(jobs(shell)) == 1


@in_virtual_time
async def test_who_puts_the_same_schedule_again_loses_no_fire_and_keeps_the_pause(tmp_path: Path) -> None:
    async with Shell(tmp_path, HeldStore()) as shell:
        _, is_new = await shell.desk.put_schedule("s", spec_of())
        assert is_new
        seen = progress_of(shell.memory.tables.schedules["s"]).seen
        await asyncio.sleep(1)
        await shell.desk.pause_schedule("s", True)
        view, is_new = await shell.desk.put_schedule("s", spec_of())
        assert not is_new and view.progress.paused
        view, _ = await shell.desk.put_schedule("s", spec_of(paused=False))
        assert not view.progress.paused and view.progress.seen > seen
        await asyncio.sleep(1)
        again, _ = await shell.desk.put_schedule("s", spec_of())
        assert again.progress == view.progress
        other, _ = await shell.desk.put_schedule("s", spec_of(every=700))
        assert other.progress.seen > view.progress.seen


@in_virtual_time
async def test_run_by_hand_and_delete(tmp_path: Path) -> None:
    async with Shell(tmp_path, HeldStore()) as shell:
        await shell.desk.put_schedule("s", spec_of(overlap="skip"))
        job = await shell.desk.run_schedule("s")
        assert last(shell) == ("run", job.id)
        await to_fire()
        assert [one.id for one in jobs(shell)] == [job.id]  # what was run by hand overlaps too
        await shell.desk.delete_schedule("s")
        await to_fire(2)
        assert len(jobs(shell)) == 1
        with pytest.raises(NotFound):
            await shell.desk.run_schedule("s")


@in_virtual_time
async def test_jitter_spreads_the_jobs_behind_their_fire(tmp_path: Path) -> None:
    async with Shell(tmp_path, HeldStore()) as shell:
        for number in range(20):
            await shell.desk.put_schedule(f"s{number}", spec_of(jitter="60s"))
        await to_fire()
        late = {job.run_at // MICRO % 600 for job in jobs(shell)}
        assert len(late) > 5 and max(late) <= 60


@in_virtual_time
async def test_a_schedule_in_trouble_does_not_hold_up_the_others(tmp_path: Path) -> None:
    class Troubled(HeldStore):
        async def write_schedule(self, *args: Any) -> list[Accepted] | None:
            if args[2].name == "bad" and args[2].submissions:
                raise Unsure("nobody knows")
            return await super().write_schedule(*args)

    async with Shell(tmp_path, Troubled()) as shell:
        await shell.desk.put_schedule("bad", spec_of())
        await shell.desk.put_schedule("good", spec_of())
        engine = shell.leader
        await to_fire(2)
        assert len(jobs(shell)) == 2 and last(shell, "good")[0] == "submitted"
        assert shell.leader is engine


@in_virtual_time
async def test_a_write_of_which_nobody_knows_is_not_made_twice(tmp_path: Path) -> None:
    class Silent(HeldStore):
        async def write_schedule(self, *args: Any) -> list[Accepted] | None:
            accepted = await super().write_schedule(*args)
            if args[2].submissions:
                raise Unsure("it was kept, but the answer is lost")
            return accepted

    async with Shell(tmp_path, Silent()) as shell:
        await shell.desk.put_schedule("s", spec_of())
        await to_fire(3)
        assert len(jobs(shell)) == 3


@in_virtual_time
async def test_what_schedules_do_is_told_and_counted(tmp_path: Path) -> None:
    async with Shell(tmp_path, HeldStore()) as shell:
        await shell.desk.put_schedule("s", spec_of(overlap="skip", missed="skip"))
        await shell.desk.put_schedule("s", spec_of(overlap="skip", missed="skip"))  # says nothing new
        await to_fire(2)
        [first] = jobs(shell)
        assert told(shell) == [("changed", "put"), ("fired", first.id, "submitted"), ("skipped", "overlap")]
        by_hand = await shell.desk.run_schedule("s")
        for paused in (True, True, False):
            await shell.desk.pause_schedule("s", paused)
        await shell.desk.delete_schedule("s")
        await asyncio.sleep(1)
        assert told(shell)[3:] == [
            ("fired", by_hand.id, "run"),
            ("changed", "paused"),
            ("changed", "resumed"),
            ("changed", "deleted"),
        ]
        numbers = shell.desk.numbers()
        assert [numbers[f"schedules_{name}_total"] for name in ("fired", "skipped", "missed")] == [1, 1, 0]
        assert 0.0 <= numbers["schedules_late_seconds_most"] < 1.0


@pytest.mark.parametrize(("policy", "missed"), [("skip", 5), ("once", 4), ("all", 0)])
def test_missed_fires_are_counted(policy: str, missed: int, tmp_path: Path) -> None:
    @in_virtual_time
    async def scene() -> None:
        async with Shell(tmp_path, HeldStore()) as shell:
            await shell.desk.put_schedule("s", spec_of(missed=policy))
            await led_elsewhere(shell, 5, 300)
            assert [one for one in told(shell) if one[0] == "missed"] == [("missed", missed)] * (missed > 0)
            numbers = shell.desk.numbers()
            assert numbers["schedules_missed_total"] == missed
            assert numbers["schedules_fired_total"] == 5 - missed
            if policy != "skip":
                assert numbers["schedules_late_seconds_most"] >= 300

    scene()


@in_virtual_time
async def test_a_fire_that_finds_its_key_taken_is_told_with_the_job_that_has_it(tmp_path: Path) -> None:
    async with Shell(tmp_path, HeldStore()) as shell:
        await shell.desk.put_schedule("s", spec_of(job={**JOB, "unique": "k"}))
        await to_fire(2)
        [job] = jobs(shell)
        assert told(shell)[1:] == [("fired", job.id, "submitted"), ("fired", job.id, "existed")]


# --- two leaders, on every store ---------------------------------------------------------------------------


class Leader:
    """One of two who believe that they lead: its own timekeeper, moved by hand."""

    def __init__(self, store: Store, holder: str) -> None:
        self.store, self.holder = store, holder
        self.timekeeper: Timekeeper

    async def elected(self) -> Leader:
        before = await self.store.find_leadership()
        won = await self.store.elect(before.term if before else 0, self.holder, self.holder, "", wall())
        assert won is not None
        reign = begin_reign(won, 0.0, 5.0)
        self.timekeeper = Timekeeper(self.store, reign, _no_cancel, lambda: None, list)
        self.book = ScheduleBook(self.store, reign, self.timekeeper, list)
        return self


async def _no_cancel(job: int) -> None:
    raise AssertionError("nothing is to be cancelled")


async def fired(store: Store) -> int:
    return sum([len(arrivals_of(page)) async for page in store.waiting_jobs()])


async def overdue(store: Store, leader: Leader) -> None:
    """Make a schedule whose last fires have just been due."""
    await leader.book.put("s", spec_of(every=3600, missed="all", missed_most=2))
    row = await store.find_schedule("s")
    assert row is not None
    behind = row._replace(revision=row.revision + 1, progress=b'{"seen":%d}' % (wall() - 7200 * MICRO))
    term = (await store.find_leadership()).term  # type: ignore[union-attr]
    change = ScheduleChange("s", row.revision, behind)
    assert await store.write_schedule(term, leader.holder, change, wall()) == []


async def test_a_leader_that_was_taken_over_does_not_fire(store: Store) -> None:
    old = await Leader(store, "old").elected()
    await overdue(store, old)
    await old.timekeeper._take_changes()  # it has read the schedule, and is about to fire
    new = await Leader(store, "new").elected()
    await new.timekeeper.look()
    assert await fired(store) == 2
    with pytest.raises(Deposed):
        await old.timekeeper.look()
    await new.timekeeper.look()
    assert await fired(store) == 2


async def test_what_the_old_leader_fired_the_new_one_does_not_fire_again(store: Store) -> None:
    old = await Leader(store, "old").elected()
    await overdue(store, old)
    await old.timekeeper.look()
    assert await fired(store) == 2
    new = await Leader(store, "new").elected()
    await new.timekeeper.look()
    assert await fired(store) == 2


async def test_many_leaders_one_after_the_other_fire_each_time_once(store: Store) -> None:
    leaders = [await Leader(store, "first").elected()]
    await overdue(store, leaders[0])
    for number in range(5):
        leaders.append(await Leader(store, f"leader-{number}").elected())
        for one in leaders[-3:]:
            await one.timekeeper._take_changes()
    results = await asyncio.gather(*(one.timekeeper.look() for one in leaders), return_exceptions=True)
    assert sum(isinstance(result, Deposed) for result in results) == len(leaders) - 1
    assert await fired(store) == 2


async def test_two_that_meet_in_one_term_fire_once(store: Store) -> None:
    one = await Leader(store, "one").elected()
    await overdue(store, one)
    twin = Timekeeper(store, one.timekeeper._reign, _no_cancel, lambda: None, list)
    await asyncio.gather(one.timekeeper.look(), twin.look())
    assert await fired(store) == 2
    assert [row.name for row in await store.schedule_rows()] == ["s"]


@in_virtual_time
async def test_a_take_over_in_the_middle_of_a_fire(tmp_path: Path) -> None:
    """The seat is taken while the old leader's fire is on its way to the store."""

    class Slow(HeldStore):
        taken = 0

        async def write_schedule(
            self, term: int, holder: str, change: ScheduleChange, now: int
        ) -> list[Accepted] | None:
            if change.submissions and self.taken < 3:
                self.taken += 1
                leadership = self.tables.leadership
                assert leadership is not None
                self.apply_elect(leadership.term, "other", "other", "", now)  # and is never heard of again
            return await super().write_schedule(term, holder, change, now)

    memory = Slow()
    async with Shell(tmp_path, memory) as shell:
        await shell.desk.put_schedule("s", spec_of())
        await to_fire()
        await in_time(until(lambda: memory.taken == 3 and len(jobs(shell)) == 1, 200), 300)
        await asyncio.sleep(100)
        assert len(jobs(shell)) == 1
