"""Submits by the desk: what is accepted makes queues and limits, what is refused changes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from fairway.core.lifecycle import State
from fairway.store import NewJob, Submission, WaitingPage
from fairway.wire.messages import Held

from .stage import Gate, Hand, HeldStore, Shell, new_job
from .virtual_time import in_time, in_virtual_time, until


@in_virtual_time
async def test_the_first_job_of_a_queue_makes_its_row_and_those_above(tmp_path: Path) -> None:
    async with Shell(tmp_path, HeldStore()) as shell:
        await shell.submit(new_job(1, "acme/emails/bulk"))
        await shell.taken_in()
        assert sorted(shell.memory.tables.queues) == ["acme", "acme/emails", "acme/emails/bulk"]
        assert await shell.paths() == ["acme", "acme/emails", "acme/emails/bulk"]


@in_virtual_time
async def test_concurrency_sets_the_limit_of_a_job_that_is_accepted(tmp_path: Path) -> None:
    async with Shell(tmp_path, HeldStore()) as shell:
        await shell.submit(new_job(1, concurrency=2))
        await shell.taken_in()
        assert await shell.limit_of("q") == 2
        await shell.submit(new_job(2, concurrency=5))
        await shell.taken_in()
        assert await shell.limit_of("q") == 5
        assert b'"limit": 5' in shell.memory.tables.queues["q"]


@in_virtual_time
async def test_the_limit_that_came_with_a_job_holds_for_it_already(tmp_path: Path) -> None:
    async with Shell(tmp_path, HeldStore()) as shell:
        hand = await Hand(shell.leader.open_port()).hello(slots=8)
        await shell.submit(*(new_job(number, concurrency=2) for number in range(1, 6)))
        await shell.taken_in()
        await asyncio.sleep(1)
        assert len(hand.begun()) == 2


async def accept_first(shell: Shell) -> None:
    """Let a job be accepted that has keys, into a queue with a limit."""
    await shell.submit(new_job(1, unique="u", concurrency=2), key="k")
    await shell.taken_in()
    assert await shell.limit_of("q") == 2


@pytest.mark.parametrize(
    ("job", "key", "digest"),
    [
        (new_job(2, "other", concurrency=9), "k", b"other"),
        (new_job(2, "other", concurrency=9), "k", b"d"),
        (new_job(2, "q", concurrency=9), "k", b"other"),
        (new_job(2, "q", concurrency=9), "k", b"d"),
        (new_job(2, "q", concurrency=9, unique="u"), None, b""),
        (new_job(2, "q", concurrency=2, unique="u"), None, b""),
        (new_job(2, "q", unique="u"), "k2", b""),
    ],
    ids=[
        "key taken, new queue", "replay, new queue", "key taken, new limit", "replay, new limit",
        "unique, new limit", "unique, same limit", "unique, no limit",
    ],
)  # fmt: skip
@in_virtual_time
async def test_a_refused_submit_changes_no_queue_and_no_limit(
    tmp_path: Path, job: NewJob, key: str | None, digest: bytes
) -> None:
    async with Shell(tmp_path, HeldStore()) as shell:
        hand = await Hand(shell.leader.open_port()).hello()
        await accept_first(shell)
        accepted = await shell.submit(job, key=key, digest=digest)
        if digest == b"other":
            assert (accepted.problem, accepted.ids) == ("idempotency_conflict", [])
        else:
            assert (accepted.problem, accepted.ids, accepted.existed) == (None, [1], [True])
        await asyncio.sleep(2)
        assert await shell.paths() == ["q"] and await shell.limit_of("q") == 2
        assert sorted(shell.memory.tables.jobs) == [1] and sorted(shell.memory.tables.queues) == ["q"]
        assert hand.begun() == [(1, 1)]  # nothing of the refused one came to the worker
        [view] = await in_time(shell.desk.queues())
        assert (view.running, view.waiting) == (1, 0)


@in_virtual_time
async def test_a_job_goes_from_submit_to_begin_in_one_commit(tmp_path: Path) -> None:
    async with Shell(tmp_path, HeldStore()) as shell:
        await shell.submit(new_job(1))
        await shell.taken_in()
        hand = await Hand(shell.leader.open_port()).hello()
        await until(hand.begun)
        before = shell.memory.begun_commits
        await shell.submit(new_job(2))
        await until(lambda: len(hand.begun()) == 2)
        assert shell.memory.begun_commits == before + 1


@in_virtual_time
async def test_two_jobs_that_drew_one_id_both_live_and_the_core_is_built_anew(tmp_path: Path) -> None:
    async with Shell(tmp_path, HeldStore()) as shell:
        await shell.submit(new_job(1, payload=b'"first"'))
        await shell.taken_in()
        engine = shell.leader
        [new] = (await shell.submit(new_job(1, payload=b'"second"'))).ids
        assert new != 1
        assert [shell.memory.tables.jobs[job].payload for job in (1, new)] == [b'"first"', b'"second"']
        await shell.leads_again(engine)
        hand = await Hand(shell.leader.open_port()).hello()
        await until(lambda: sorted(hand.begun()) == sorted([(1, 1), (new, 1)]))
        for job in (1, new):
            await hand.report(job)
            assert (await in_time(shell.desk.wait_job(job, 10))).state is State.SUCCEEDED


@in_virtual_time
async def test_two_jobs_that_drew_one_id_in_one_commit_both_live(tmp_path: Path) -> None:
    async with Shell(tmp_path, HeldStore()) as shell:
        await shell.submit(new_job(1))
        await shell.taken_in()
        hand, engine = await Hand(shell.leader.open_port()).hello(), shell.leader
        await until(hand.begun)
        gate = Gate(shell.memory)
        under_way = asyncio.create_task(shell.submit(new_job(2)))
        await gate.reached()
        both = [asyncio.create_task(shell.submit(new_job(7))) for _ in range(2)]
        await asyncio.sleep(0)
        gate.open()
        answers = [answer.ids for answer in await in_time(asyncio.gather(under_way, *both))]
        assert sorted(answers) == [[2], [7], [8]]
        await shell.leads_again(engine)
        again = await Hand(shell.leader.open_port()).hello(holds=[Held(1, 1), Held(2, 1)])
        wanted = {(job, 1) for ids in answers[1:] for job in ids}
        await until(lambda: wanted <= set(again.begun()))


@in_virtual_time
async def test_a_submit_works_while_nobody_leads_and_is_run_later(tmp_path: Path) -> None:
    async with Shell(tmp_path, HeldStore()) as shell:
        engine = shell.leader
        await shell.leave_the_seat()
        assert (await shell.submit(new_job(1, "fresh", concurrency=1))).ids == [1]
        await shell.leads_again(engine)
        hand = await Hand(shell.leader.open_port()).hello()
        await until(hand.begun)
        assert await shell.limit_of("fresh") == 1


@in_virtual_time
async def test_equal_submits_at_once_are_one_job(tmp_path: Path) -> None:
    async with Shell(tmp_path, HeldStore()) as shell:
        await shell.submit(new_job(1))
        await shell.taken_in()
        calls = (shell.submit(new_job(number), key="same") for number in range(10, 20))
        answers = await in_time(asyncio.gather(*calls))
        assert {tuple(answer.ids) for answer in answers} == {(10,)}
        assert sum(answer.existed == [False] for answer in answers) == 1
        assert sorted(shell.memory.tables.jobs) == [1, 10]
        [view] = await in_time(shell.desk.queues())
        assert view.waiting == 2


@in_virtual_time
async def test_a_slot_that_was_meant_for_a_refused_job_goes_to_the_next_at_once(tmp_path: Path) -> None:
    async with Shell(tmp_path, HeldStore()) as shell:
        await shell.submit(new_job(1, unique="u"))
        await shell.taken_in()
        await in_time(shell.desk.set_queue("q", {"paused": True}, replace=False))
        await shell.submit(new_job(2, "other", priority=0))
        await shell.taken_in()
        await in_time(shell.desk.set_queue("other", {"paused": True}, replace=False))
        hand = await Hand(shell.leader.open_port()).hello(slots=1)
        await asyncio.sleep(0.1)
        await in_time(shell.desk.set_queue("q", {"limit": 0}, replace=True))
        assert hand.begun() == []
        gate = Gate(shell.memory)
        under_way = asyncio.create_task(shell.desk.set_queue("x", {"limit": 1}, replace=False))
        await gate.reached()
        asked = [
            asyncio.create_task(shell.desk.set_queue("q", {"limit": 1, "paused": False}, replace=True)),
            asyncio.create_task(shell.submit(new_job(3, unique="u", priority=5))),
        ]
        await asyncio.sleep(0)
        gate.open()
        await in_time(asyncio.gather(under_way, *asked))
        await until(lambda: hand.begun() == [(1, 1)], 0.1)


class LateStore(HeldStore):
    """Somebody inserts jobs just when a new leader looks at what waits."""

    async def waiting_jobs(self, page: int = 10_000) -> AsyncIterator[WaitingPage]:
        if 1 not in self.tables.jobs:
            jobs = [new_job(number, concurrency=1) for number in range(1, 4)]
            await self.submit([Submission(jobs)], 1)
        async for found in super().waiting_jobs(page):
            yield found


@in_virtual_time
async def test_a_limit_that_comes_with_jobs_while_a_leader_takes_over_holds_from_the_first(
    tmp_path: Path,
) -> None:
    async with Shell(tmp_path, LateStore()) as shell:
        hand = await Hand(shell.leader.open_port()).hello()
        await until(hand.begun)
        await asyncio.sleep(1)
        assert hand.begun() == [(1, 1)] and await shell.limit_of("q") == 1
        assert shell.memory.tables.arrivals == {}
        told = [one.event.kind for one in shell.memory.read_events(0, -1)]
        assert told.count("job.submitted") == 3


@in_virtual_time
async def test_whoever_looks_after_a_submit_sees_its_queue_although_a_commit_was_under_way(
    tmp_path: Path,
) -> None:
    async with Shell(tmp_path, HeldStore()) as shell:
        gate = Gate(shell.memory)
        await shell.submit(new_job(1, "a"))
        await gate.reached()  # the leader writes the first queue, and has looked who came before that
        await shell.submit(new_job(2, "b"))
        looking = asyncio.create_task(shell.paths())
        await asyncio.sleep(0)
        gate.open()
        assert await in_time(looking) == ["a", "b"]
