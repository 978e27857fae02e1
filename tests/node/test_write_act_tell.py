"""Write, act, tell: nobody hears of what is not committed, and everybody of what is."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from fairway.core.lifecycle import State
from fairway.core.model import Delivery
from fairway.desk import WorkerView
from fairway.errors import Busy, Conflict, StoreUnavailable, WorldError
from fairway.node import ports
from fairway.node.engine import COMMIT_TRIES
from fairway.wire import messages as wire

from .stage import Gate, Hand, HeldStore, Shell, new_job
from .virtual_time import in_time, in_virtual_time, until


# --- write, then act -------------------------------------------------------------------------------------
@in_virtual_time
async def test_a_worker_is_told_to_begin_after_the_commit_returned(tmp_path: Path) -> None:
    async with Shell(tmp_path, HeldStore()) as shell:
        await shell.submit(new_job(1))
        await shell.taken_in()
        gate = Gate(shell.memory, behind=True)
        hand = await Hand(shell.leader.open_port()).hello()
        await gate.reached()
        await asyncio.sleep(0.1)
        assert shell.memory.tables.jobs[1].state is State.RUNNING  # it is written
        assert hand.begun() == []  # but the store has not said so yet
        gate.open()
        await until(lambda: hand.begun() == [(1, 1)])


@in_virtual_time
async def test_a_worker_is_thanked_after_the_commit_returned(tmp_path: Path) -> None:
    async with Shell(tmp_path, HeldStore()) as shell:
        await shell.submit(new_job(1))
        hand = await Hand(shell.leader.open_port()).hello()
        await until(hand.begun)
        gate = Gate(shell.memory)
        await hand.report(1)
        await gate.reached()
        await asyncio.sleep(0.1)
        assert hand.thanked() == []
        gate.open()
        await until(lambda: hand.thanked() == [(1, 1)])
        assert shell.memory.tables.jobs[1].state is State.SUCCEEDED


@in_virtual_time
async def test_a_begin_whose_commit_failed_is_never_sent(tmp_path: Path) -> None:
    async with Shell(tmp_path, HeldStore()) as shell:
        await shell.submit(new_job(1))
        await shell.taken_in()
        gate, engine = Gate(shell.memory), shell.leader
        hand = await Hand(engine.open_port()).hello()
        await gate.reached()
        gate.open(StoreUnavailable("disk full"), COMMIT_TRIES)
        await until(lambda: hand.hung_up)
        assert hand.begun() == []
        await shell.leads_again(engine)
        again = await Hand(shell.leader.open_port()).hello()
        await until(lambda: again.begun() == [(1, 1)])


@pytest.mark.parametrize("trouble", [StoreUnavailable("busy"), Busy("too many calls")])
@in_virtual_time
async def test_a_commit_that_surely_wrote_nothing_is_tried_again(tmp_path: Path, trouble: Exception) -> None:
    async with Shell(tmp_path, HeldStore()) as shell:
        await shell.submit(new_job(1))
        await shell.taken_in()
        gate = Gate(shell.memory)
        asked = asyncio.create_task(shell.submit(new_job(2)))
        await gate.reached()
        gate.open(trouble, COMMIT_TRIES - 1)
        assert (await in_time(asked)).ids == [2]
        assert shell.leader.reign.term == 1


@in_virtual_time
async def test_begins_that_a_worker_did_not_hear_are_sent_again(tmp_path: Path) -> None:
    async with Shell(tmp_path, HeldStore()) as shell:
        first = await Hand(shell.leader.open_port()).hello()
        await shell.submit(new_job(1))
        await until(first.begun)
        first.port.closed()
        second = await Hand(shell.leader.open_port()).hello()
        await until(lambda: second.begun() == [(1, 1)])  # the same attempt
        first.port.closed()  # late word of the older connection
        await second.report(1)
        await until(lambda: second.thanked() == [(1, 1)])


# --- write, then tell ------------------------------------------------------------------------------------
@in_virtual_time
async def test_a_look_waits_for_the_commit_under_way_and_shows_its_result(tmp_path: Path) -> None:
    async with Shell(tmp_path, HeldStore()) as shell:
        await shell.submit(new_job(1))
        await shell.taken_in()
        gate = Gate(shell.memory)
        setting = asyncio.create_task(shell.desk.set_queue("q", {"limit": 3}, replace=False))
        await gate.reached()
        looks = asyncio.gather(
            shell.limit_of("q"),
            shell.desk.standing([await shell.desk.get_job(1)]),
            shell.desk.next_jobs("q", 9),
            shell.desk.workers(),
        )
        await asyncio.sleep(0.5)
        assert not setting.done() and not any(look.done() for look in looks._children)  # type: ignore[attr-defined]
        gate.open()
        limit, [standing], upcoming, workers = await in_time(looks)
        assert standing and (limit, standing.position, upcoming, workers) == (3, 0, [1], [])
        assert (await in_time(setting)).settings.limit == 3


@in_virtual_time
async def test_a_look_never_shows_what_was_not_committed_after_all(tmp_path: Path) -> None:
    async with Shell(tmp_path, HeldStore()) as shell:
        await shell.submit(new_job(1))
        await shell.taken_in()
        gate, engine = Gate(shell.memory), shell.leader
        setting = asyncio.create_task(shell.desk.set_queue("q", {"limit": 3}, replace=False))
        await gate.reached()
        look = asyncio.create_task(shell.limit_of("q"))
        await asyncio.sleep(0)
        gate.open(StoreUnavailable("disk full"), COMMIT_TRIES)
        for answer in await in_time(asyncio.gather(setting, look, return_exceptions=True)):
            assert isinstance(answer, StoreUnavailable)
        await shell.leads_again(engine)
        assert await shell.limit_of("q") is None


@in_virtual_time
async def test_a_submit_is_answered_after_its_commit(tmp_path: Path) -> None:
    async with Shell(tmp_path, HeldStore()) as shell:
        await shell.submit(new_job(1))
        await shell.taken_in()
        gate = Gate(shell.memory)
        asked = asyncio.create_task(shell.submit(new_job(2)))
        await gate.reached()
        await asyncio.sleep(0.5)
        assert not asked.done() and 2 not in shell.memory.tables.jobs
        gate.open()
        assert (await in_time(asked)).ids == [2]


@pytest.mark.parametrize("asked", ["cancel", "edit", "prefer", "requeue", "delete_queue", "retry"])
@in_virtual_time
async def test_who_asks_for_a_change_is_answered_after_its_commit(tmp_path: Path, asked: str) -> None:
    async with Shell(tmp_path, HeldStore()) as shell:
        await shell.submit(new_job(1), new_job(2))
        await in_time(shell.desk.set_queue("empty", {"limit": 1}, replace=False))
        await in_time(shell.desk.cancel(2))
        gate = Gate(shell.memory)
        changes: dict[str, Coroutine[Any, Any, object]] = {
            "cancel": shell.desk.cancel(1),
            "edit": shell.desk.edit(1, {"priority": 3}),
            "prefer": shell.desk.prefer(1),
            "requeue": shell.desk.requeue(1),
            "delete_queue": shell.desk.delete_queue("empty"),
            "retry": shell.desk.retry(2),
        }
        answer = asyncio.create_task(changes.pop(asked))
        for other in changes.values():
            other.close()
        await gate.reached()
        await asyncio.sleep(0.5)
        assert not answer.done()
        gate.open()
        await in_time(answer)


@in_virtual_time
async def test_a_commit_whose_answer_was_lost_is_not_written_again(tmp_path: Path) -> None:
    async with Shell(tmp_path, HeldStore()) as shell:
        await shell.submit(new_job(1))
        await shell.taken_in()
        gate, engine = Gate(shell.memory, behind=True), shell.leader
        asked = asyncio.create_task(shell.submit(new_job(2)))
        await gate.reached()
        gate.open(WorldError("the answer was lost"))
        with pytest.raises(WorldError):
            await in_time(asked)
        await shell.leads_again(engine)
        assert sorted(shell.memory.tables.jobs) == [1, 2]
        [view] = await in_time(shell.desk.queues())
        assert view.waiting == 2  # the new leader knows what the old one was not told


@in_virtual_time
async def test_what_gathers_during_a_commit_is_the_next_one(tmp_path: Path) -> None:
    async with Shell(tmp_path, HeldStore()) as shell:
        await shell.submit(new_job(1))
        await shell.taken_in()
        gate = Gate(shell.memory)
        before = shell.memory.begun_commits
        first = asyncio.create_task(shell.submit(new_job(2)))
        await gate.reached()
        rest = [asyncio.create_task(shell.submit(new_job(number))) for number in range(3, 103)]
        await asyncio.sleep(0)
        gate.open()
        await in_time(asyncio.gather(first, *rest))
        assert shell.memory.begun_commits == before + 2


# --- cancel, retry, resolve ------------------------------------------------------------------------------
@in_virtual_time
async def test_a_cancelled_job_does_not_begin_and_an_ended_one_can_be_tried_again(tmp_path: Path) -> None:
    async with Shell(tmp_path, HeldStore()) as shell:
        await shell.submit(new_job(1))
        assert (await in_time(shell.desk.cancel(1))).state is State.CANCELLED
        assert (await in_time(shell.desk.cancel(1))).state is State.CANCELLED  # once more is no error
        hand = await Hand(shell.leader.open_port()).hello()
        await asyncio.sleep(5)
        assert hand.begun() == []
        revived = await in_time(shell.desk.retry(1))
        assert (revived.state, revived.generation) == (State.QUEUED, 1)
        await until(lambda: hand.begun() == [(1, 1)], 0.1)  # at once
        with pytest.raises(Conflict, match="has not ended"):
            await in_time(shell.desk.retry(1))


@in_virtual_time
async def test_a_running_job_is_stopped_when_it_is_cancelled(tmp_path: Path) -> None:
    async with Shell(tmp_path, HeldStore()) as shell:
        hand = await Hand(shell.leader.open_port()).hello()
        await shell.submit(new_job(1))
        await until(hand.begun)
        cancelled = await in_time(shell.desk.cancel(1))
        assert (cancelled.state, cancelled.cancelling) == (State.RUNNING, True)
        await until(lambda: any(isinstance(message, wire.Stop) for message in hand.heard))
        await hand.report(1, kind="cancelled", body=b"{}")
        assert (await in_time(shell.desk.wait_job(1, 10))).state is State.CANCELLED


@in_virtual_time
async def test_a_person_says_how_an_unknown_job_went(tmp_path: Path) -> None:
    async with Shell(tmp_path, HeldStore()) as shell:
        hand = await Hand(shell.leader.open_port()).hello()
        await shell.submit(new_job(1, delivery=Delivery.AT_MOST_ONCE))
        await until(hand.begun)
        with pytest.raises(Conflict, match="not unknown"):
            await in_time(shell.desk.resolve(1, True, b"7"))
        shell.leader.bury("w-1")
        assert (await in_time(shell.desk.wait_job(1, 10))).state is State.UNKNOWN
        resolved = await in_time(shell.desk.resolve(1, True, b"7"))
        assert (resolved.state, resolved.outcome) == (State.SUCCEEDED, b"7")


# --- ports -----------------------------------------------------------------------------------------------
@in_virtual_time
async def test_a_port_that_nobody_reads_is_closed_and_keeps_a_bounded_number(tmp_path: Path) -> None:
    async with Shell(tmp_path, HeldStore()) as shell:
        port = shell.leader.open_port()
        for _ in range(3 * ports.MOST_WAITING):
            port.send(wire.Acks(1, [], []))
        frames = [frame async for batch in port.next_frames() for frame in batch]  # ends: it is closed
        assert len(frames) == ports.MOST_WAITING


@in_virtual_time
async def test_a_newer_connection_of_a_worker_closes_the_older(tmp_path: Path) -> None:
    async with Shell(tmp_path, HeldStore()) as shell:
        older = await Hand(shell.leader.open_port()).hello()
        newer = await Hand(shell.leader.open_port()).hello()
        await until(lambda: older.hung_up)
        older.port.closed()
        await asyncio.sleep(0.1)
        [view] = await in_time(shell.desk.workers())
        assert view.state == "up" and not newer.hung_up
        newer.port.closed()
        await asyncio.sleep(0.1)
        [view] = await in_time(shell.desk.workers())
        assert view.state == "silent"


@in_virtual_time
async def test_a_new_leader_invents_nothing_of_a_worker_that_has_not_said_hello_to_it(tmp_path: Path) -> None:
    async with Shell(tmp_path, HeldStore()) as shell:
        worker = await Hand(shell.leader.open_port()).hello()
        await shell.submit(new_job(1))
        await until(worker.begun)
        before = shell.leader
        shell.step_down()
        await shell.leads_again(before)
        [view] = await in_time(shell.desk.workers())
        assert view == WorkerView("w", "w-1", "silent", running=1)
        given = await in_time(shell.desk.set_worker("w", {"slots": 2, "queues": ["q"]}))
        assert (given.slots, given.busy, given.queues) == (2, None, ["q"])
        await Hand(shell.leader.open_port()).hello(holds=[wire.Held(1, 1)])
        await asyncio.sleep(0.1)
        [view] = await in_time(shell.desk.workers())
        assert (view.state, view.slots, view.busy, view.tasks) == ("up", 2, 1.0, ["t"])
        assert view.joined_at is not None and view.last_beat_seconds is not None


@in_virtual_time
async def test_a_silent_worker_loses_its_attempts_after_a_lease_and_must_say_hello_again(
    tmp_path: Path,
) -> None:
    async with Shell(tmp_path, HeldStore()) as shell:
        silent = await Hand(shell.leader.open_port(), "silent").hello()
        await shell.submit(new_job(1))
        await until(silent.begun)
        await until(lambda: not shell.leader.core.world.workers, 30)
        await silent.port.receive(wire.Beat([wire.Held(1, 1)]))
        await until(lambda: silent.hung_up)
        other = await Hand(shell.leader.open_port(), "other").hello()
        await until(lambda: other.begun() == [(1, 2)])


@in_virtual_time
async def test_a_node_that_does_not_lead_sends_workers_away(tmp_path: Path) -> None:
    async with Shell(tmp_path, HeldStore()) as shell:
        await shell.leave_the_seat()
        hand = Hand(shell.desk.attach_worker())  # type: ignore[arg-type]
        await hand.hello()
        await until(lambda: hand.hung_up)
        assert [type(message) for message in hand.heard] == [wire.Refusal]
