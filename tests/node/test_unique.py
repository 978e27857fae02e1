"""Unique keys by the desk: set mode by the queue, keys that last, and newer jobs that replace older ones."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from fairway.core.lifecycle import State
from fairway.core.model import Extras, Rules
from fairway.errors import Conflict, InvalidRequest
from fairway.keys import KeyedQueues, payload_key
from fairway.store import NewJob
from fairway.wire.messages import Held

from .stage import Gate, Hand, HeldStore, Shell, new_job
from .virtual_time import in_time, in_virtual_time, until

QUICK = Rules(max_attempts=5, retry_first=0.1, retry_max=0.1)


def newer(number: int, key: str = "k", **changes: Any) -> NewJob:
    """Make a job that replaces the one that has its key."""
    return new_job(number, unique=key, replace=True, rules=QUICK, **changes)


async def states(shell: Shell, *jobs: int) -> list[State]:
    await shell.taken_in()
    return [(await in_time(shell.desk.get_job(job))).state for job in jobs]


async def reason(shell: Shell, job: int) -> bytes:
    return (await in_time(shell.desk.get_job(job))).outcome or b""


# --- replacing -------------------------------------------------------------------------------------------
@in_virtual_time
async def test_the_newest_job_is_the_only_one_that_waits(tmp_path: Path) -> None:
    async with Shell(tmp_path, HeldStore()) as shell:
        await shell.submit(new_job(1, unique="k"))
        waiter = asyncio.create_task(shell.desk.wait_job(1, 60))
        for number in (2, 3, 4):
            assert (await shell.submit(newer(number))).existed == [False]
        assert await states(shell, 1, 2, 3, 4) == [State.CANCELLED] * 3 + [State.QUEUED]
        assert b'"reason":"replaced"' in await reason(shell, 1)
        assert (await in_time(waiter)).state is State.CANCELLED
        hand = await Hand(shell.leader.open_port()).hello()
        await until(hand.begun)
        assert hand.begun() == [(4, 1)]


@in_virtual_time
async def test_a_chain_that_comes_while_a_commit_is_under_way_leaves_its_last(tmp_path: Path) -> None:
    async with Shell(tmp_path, HeldStore()) as shell:
        await shell.submit(new_job(1, unique="k"))
        await shell.taken_in()
        gate = Gate(shell.memory)
        asking = asyncio.create_task(shell.desk.set_queue("q", {"limit": 5}, replace=False))
        await gate.reached()
        for number in (2, 3, 4):
            await shell.submit(newer(number))
        gate.open()
        await in_time(asking)
        assert await states(shell, 1, 2, 3, 4) == [State.CANCELLED] * 3 + [State.QUEUED]
        [view] = await in_time(shell.desk.queues())
        assert view.waiting == 1


@in_virtual_time
async def test_a_job_that_runs_goes_on_and_the_newer_one_waits_beside_it(tmp_path: Path) -> None:
    async with Shell(tmp_path, HeldStore()) as shell:
        await shell.submit(new_job(1, unique="k", concurrency=1))
        hand = await Hand(shell.leader.open_port()).hello()
        await until(hand.begun)
        await shell.submit(newer(2))
        await shell.submit(newer(3))
        assert await states(shell, 1, 2, 3) == [State.RUNNING, State.CANCELLED, State.QUEUED]
        await hand.report(1)
        await until(lambda: (3, 1) in hand.begun())
        assert await states(shell, 1, 3) == [State.SUCCEEDED, State.RUNNING]


@pytest.mark.parametrize("new_leader", [False, True])
@pytest.mark.parametrize("how", ["error", "hand back", "lost"])
@in_virtual_time
async def test_a_job_that_was_replaced_while_it_ran_is_not_tried_again(
    tmp_path: Path, how: str, new_leader: bool
) -> None:
    async with Shell(tmp_path, HeldStore()) as shell:
        await shell.submit(new_job(1, unique="k", concurrency=1, rules=QUICK))
        hand = await Hand(shell.leader.open_port()).hello()
        await until(hand.begun)
        await shell.submit(newer(2))
        await shell.taken_in()
        if new_leader:
            engine = shell.leader
            engine.stop()
            await shell.leads_again(engine)
            hand = await Hand(shell.leader.open_port()).hello(holds=[Held(1, 1)])
        if how == "error":
            await hand.report(1, kind="error", body=b'{"message":"no"}')
        elif how == "hand back":
            await hand.port.receive(hand_back(1, 1))
        else:
            shell.leader.bury(hand.incarnation)
        ended = await in_time(shell.desk.wait_job(1, 60))
        assert ended.state is State.CANCELLED and b'"reason":"replaced"' in (ended.outcome or b"")
        assert (await in_time(shell.desk.get_job(2))).state in (State.QUEUED, State.RUNNING)


def hand_back(job: int, attempt: int) -> Any:
    from fairway.wire.messages import HandBack

    return HandBack([Held(job, attempt, False)])


@in_virtual_time
async def test_a_new_leader_drops_what_was_replaced_while_nobody_led(tmp_path: Path) -> None:
    async with Shell(tmp_path, HeldStore()) as shell:
        await shell.submit(new_job(1, unique="k"), new_job(2))
        await shell.taken_in()
        await shell.leave_the_seat()
        for number in (3, 4):
            await shell.submit(newer(number))
        await shell.until_leading(60)
        assert await states(shell, 1, 2, 3, 4) == [
            State.CANCELLED, State.QUEUED, State.CANCELLED, State.QUEUED,
        ]  # fmt: skip
        [view] = await in_time(shell.desk.queues())
        assert view.waiting == 2


@in_virtual_time
async def test_what_is_replaced_makes_room_before_the_newer_job_comes(tmp_path: Path) -> None:
    async with Shell(tmp_path, HeldStore()) as shell:
        await in_time(shell.desk.set_queue("q", {"capacity": 3, "overflow": "drop_oldest"}, replace=False))
        await shell.submit(new_job(1), new_job(2), new_job(3, unique="k"))
        await shell.taken_in()
        await shell.submit(newer(4))
        await shell.submit(newer(5))
        assert await states(shell, 1, 2, 3, 4, 5) == [
            State.QUEUED, State.QUEUED, State.CANCELLED, State.CANCELLED, State.QUEUED,
        ]  # fmt: skip


@in_virtual_time
async def test_a_replaced_job_is_tried_again_by_a_person_once_the_key_is_free(tmp_path: Path) -> None:
    async with Shell(tmp_path, HeldStore()) as shell:
        await shell.submit(new_job(1, unique="k"))
        await shell.submit(newer(2))
        await shell.taken_in()
        with pytest.raises(Conflict) as refused:
            await in_time(shell.desk.retry(1))
        assert refused.value.code == "unique_taken"
        await in_time(shell.desk.cancel(2))
        assert (await in_time(shell.desk.retry(1))).state is State.QUEUED
        engine = shell.leader
        engine.stop()
        await shell.leads_again(engine)
        assert await states(shell, 1) == [State.QUEUED]


# --- set mode --------------------------------------------------------------------------------------------
@in_virtual_time
async def test_equal_jobs_of_a_queue_in_set_mode_are_one(tmp_path: Path) -> None:
    async with Shell(tmp_path, HeldStore()) as shell:
        await in_time(shell.desk.set_queue("acme", {"unique": True}, replace=False))
        await in_time(shell.desk.set_queue("acme/free", {"unique": False}, replace=False))
        first = new_job(1, "acme/emails", payload=b'{"args":[],"kwargs":{"a":1,"b":2}}')
        assert (await shell.submit(first)).ids == [1]
        same = b'{"args":[],"kwargs":{"b":2,"a":1}}'
        assert (await shell.submit(new_job(2, "acme/emails", payload=same))).ids == [1]
        assert (await shell.submit(new_job(3, "acme/emails", payload=same, task="u"))).ids == [3]
        assert (await shell.submit(new_job(4, "acme/emails", payload=same, unique="own"))).ids == [4]
        assert (await shell.submit(new_job(5, "acme/free"), new_job(6, "acme/free"))).ids == [5, 6]
        assert (await shell.submit(new_job(7, "other"), new_job(8, "other"))).ids == [7, 8]
        stored = shell.memory.tables.jobs[1]
        assert stored.unique == payload_key("python", "t", same) and len(stored.unique) < 200


@in_virtual_time
async def test_a_node_that_does_not_lead_goes_by_the_queues_rows(tmp_path: Path) -> None:
    async with Shell(tmp_path, HeldStore()) as shell:
        await in_time(shell.desk.set_queue("acme", {"unique": True}, replace=False))
        await shell.leave_the_seat()
        assert (await shell.submit(new_job(1, "acme/x"))).ids == [1]
        assert (await shell.submit(new_job(2, "acme/x"))).ids == [1]


@pytest.mark.parametrize("leads", [True, False])
@pytest.mark.parametrize("changes", [{"replace": True}, {"extras": Extras(unique_for=5.0)}])
@in_virtual_time
async def test_what_needs_a_key_is_refused_without_one(
    tmp_path: Path, changes: dict[str, Any], leads: bool
) -> None:
    async with Shell(tmp_path, HeldStore()) as shell:
        await in_time(shell.desk.set_queue("acme", {"unique": True}, replace=False))
        if not leads:
            await shell.leave_the_seat()
        with pytest.raises(InvalidRequest, match="needs a unique key"):
            await shell.submit(new_job(1), new_job(2, **changes))
        assert shell.memory.tables.jobs == {}
        await shell.submit(new_job(3, "acme/x", **changes))
        assert list(shell.memory.tables.jobs) == [3]


@in_virtual_time
async def test_the_modes_of_queues_are_read_again_after_a_moment() -> None:
    rows: dict[str, bytes] = {}
    asked: list[list[str]] = []

    async def find(paths: Sequence[str]) -> dict[str, bytes]:
        asked.append(list(paths))
        return {path: rows[path] for path in paths if path in rows}

    keys = KeyedQueues(find, 1.0)

    async def is_keyed(queue: str) -> bool:
        [job] = await keys.give_keys([new_job(1, queue)])
        return job.unique is not None

    assert not await is_keyed("a/b")
    assert not await is_keyed("a/c")
    assert asked == [["a", "a/b"], ["a/c"]]
    rows["a"] = b'{"unique": true}'
    assert not await is_keyed("a/b")
    await asyncio.sleep(1.1)
    assert await is_keyed("a/b")
    rows["a/b"] = b'{"unique": false, "limit": 3}'
    await asyncio.sleep(1.1)
    assert not await is_keyed("a/b") and await is_keyed("a/c")


@in_virtual_time
async def test_what_needs_a_key_is_refused_in_queues_known_to_give_none() -> None:
    async def find(paths: Sequence[str]) -> dict[str, bytes]:
        return {}

    keys = KeyedQueues(find, 1.0)
    plain = [new_job(1, "a/b")]
    assert await keys.give_keys(plain) == plain == await keys.give_keys(plain)
    with pytest.raises(InvalidRequest, match="needs a unique key"):
        await keys.give_keys([new_job(2, "a/b", replace=True)])
