"""Jobs that wait for others at a real desk and engine: released by ends, by a late word, by a new leader."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from fairway.core.lifecycle import State
from fairway.core.model import Delivery, Extras
from fairway.core.naming import show
from fairway.errors import Conflict, InvalidRequest, QueueFull
from fairway.store import NewJob, StoredJob

from .stage import Gate, Hand, HeldStore, Shell, new_job
from .virtual_time import in_time, in_virtual_time, until


def waiting_for(number: int, *after: int, if_failed: str = "fail", **changes: object) -> NewJob:
    return new_job(number, extras=Extras(after=after, if_failed=if_failed), **changes)


async def get(shell: Shell, job: int) -> StoredJob:
    return await in_time(shell.desk.get_job(job))


async def state(shell: Shell, job: int) -> State:
    return (await get(shell, job)).state


@in_virtual_time
async def test_it_begins_when_the_other_ends_and_is_never_begun_with_its_insert(tmp_path: Path) -> None:
    async with Shell(tmp_path, HeldStore()) as shell:
        hand = await Hand(shell.leader.open_port()).hello()
        await shell.submit(new_job(1))
        await until(lambda: hand.begun() == [(1, 1)])
        await shell.submit(waiting_for(2, 1), new_job(3))  # the queue is known, and slots are free
        await until(lambda: (3, 1) in hand.begun())
        assert await state(shell, 2) is State.BLOCKED
        [standing] = await in_time(shell.desk.standing([await get(shell, 2)]))
        assert standing is not None and standing.waiting is not None
        assert (standing.waiting.reason, standing.waiting.on) == ("blocked", show(1))
        assert (standing.position, standing.eta) == (None, None)
        await hand.report(1)
        await until(lambda: (2, 1) in hand.begun())


@in_virtual_time
async def test_it_is_taken_in_after_the_commit_that_ends_the_other(tmp_path: Path) -> None:
    store = HeldStore()
    async with Shell(tmp_path, store) as shell:
        hand = await Hand(shell.leader.open_port()).hello()
        await shell.submit(new_job(1))
        await until(lambda: hand.begun() == [(1, 1)])
        gate = Gate(store)
        await hand.report(1)
        await gate.reached()  # the end is planned and not written: the store still shows it running
        await shell.submit(waiting_for(2, 1))
        gate.open()
        await until(lambda: (2, 1) in hand.begun())


@in_virtual_time
async def test_a_new_leader_hears_what_ended_under_the_old_one(tmp_path: Path) -> None:
    store = HeldStore()
    async with Shell(tmp_path, store) as shell:
        await shell.submit(new_job(1), new_job(2), waiting_for(3, 1, 2), waiting_for(4, 3))
        await shell.taken_in()
        old = shell.leader
        await shell.leave_the_seat()
        store.tables.jobs[1].state = State.SUCCEEDED
        await shell.leads_again(old)
        hand = await Hand(shell.leader.open_port()).hello()
        await until(lambda: hand.begun() == [(2, 1)])
        await hand.report(2, kind="permanent", body=b"{}")
        await until(lambda: store.tables.jobs[4].state is State.FAILED)
        assert await state(shell, 3) is State.FAILED


@in_virtual_time
async def test_it_waits_for_a_word_on_a_job_of_which_nobody_knows_how_it_went(tmp_path: Path) -> None:
    store = HeldStore()
    async with Shell(tmp_path, store) as shell:
        hand = await Hand(shell.leader.open_port()).hello()
        await shell.submit(new_job(1, delivery=Delivery.AT_MOST_ONCE))
        await until(lambda: hand.begun() == [(1, 1)])
        await shell.submit(waiting_for(2, 1))
        shell.leader.bury("w-1")
        await until(lambda: store.tables.jobs[1].state is State.UNKNOWN)
        await shell.submit(waiting_for(3, 1))
        await shell.taken_in()
        assert [await state(shell, job) for job in (2, 3)] == [State.BLOCKED] * 2
        other = await Hand(shell.leader.open_port(), "w-2").hello()
        await in_time(shell.desk.resolve(1, True, None))
        await until(lambda: sorted(other.begun()) == [(2, 1), (3, 1)])


@in_virtual_time
async def test_people_cancel_move_and_retry_blocked_jobs(tmp_path: Path) -> None:
    store = HeldStore()
    async with Shell(tmp_path, store) as shell:
        await shell.submit(new_job(1), waiting_for(2, 1), waiting_for(3, 2), waiting_for(4, 1))
        await shell.taken_in()
        moved = await in_time(shell.desk.edit(4, {"queue": "other", "priority": 7}))
        assert (moved.state, moved.queue, moved.priority) == (State.BLOCKED, "other", 7)
        assert (await in_time(shell.desk.cancel(2))).state is State.CANCELLED
        await until(lambda: store.tables.jobs[3].state is State.FAILED)
        assert b'"dependency"' in (store.tables.jobs[3].outcome or b"")
        with pytest.raises(Conflict):
            await in_time(shell.desk.retry(4))
        hand = await Hand(shell.leader.open_port()).hello()
        assert (await in_time(shell.desk.retry(3))).state is State.QUEUED  # it does not wait again
        await until(lambda: sorted(hand.begun()) == [(1, 1), (3, 1)])
        await hand.report(1)
        await until(lambda: (4, 1) in hand.begun())


@in_virtual_time
async def test_what_is_refused_leaves_nothing_and_blocked_jobs_need_no_room(tmp_path: Path) -> None:
    store = HeldStore()
    async with Shell(tmp_path, store) as shell:
        await in_time(shell.desk.set_queue("q", {"capacity": 1}, replace=False))
        await shell.submit(new_job(1))
        with pytest.raises(InvalidRequest) as caught:
            await shell.submit(waiting_for(2, 99))
        assert caught.value.code == "unknown_job"
        await shell.submit(*(waiting_for(number, 1) for number in range(3, 6)))
        with pytest.raises(QueueFull):
            await shell.submit(new_job(9))
        await asyncio.sleep(1)
        assert sorted(store.tables.jobs) == [1, 3, 4, 5]
