"""When a reign ends, however it does, everybody who asked gets an answer, and nobody is told a lie."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from fairway.core import events as happened
from fairway.errors import Deposed, NoLeader, StoreUnavailable, WorldError
from fairway.node.engine import COMMIT_TRIES
from fairway.store import Submission
from fairway.stores.sqlite.bell import Bell
from fairway.wire import messages as wire

from .stage import Gate, Hand, HeldStore, Shell, new_job
from .virtual_time import in_time, in_virtual_time, until


async def fill_inbox(shell: Shell) -> None:
    """Say so much that nothing more fits until the next step."""
    hand = await Hand(shell.leader.open_port()).hello()
    await hand.port.receive(wire.HandBack([wire.Held(1, 1)] * 50_000))


@in_virtual_time
async def test_a_submit_that_waits_for_room_when_the_term_is_over_goes_to_the_store(tmp_path: Path) -> None:
    async with Shell(tmp_path, HeldStore()) as shell:
        await shell.submit(new_job(1))
        await shell.taken_in()
        gate = Gate(shell.memory)
        under_way = asyncio.create_task(shell.submit(new_job(2)))
        await gate.reached()
        await fill_inbox(shell)
        waiting = asyncio.create_task(shell.submit(new_job(3)))
        await asyncio.sleep(0.1)
        assert not waiting.done()
        gate.open(Deposed("another leads"))
        assert (await in_time(under_way)).ids == [2]
        assert (await in_time(waiting)).ids == [3]
    assert sorted(shell.memory.tables.jobs) == [1, 2, 3]


@in_virtual_time
async def test_a_submit_that_waits_for_room_too_long_is_told_to_slow_down(tmp_path: Path) -> None:
    async with Shell(tmp_path, HeldStore()) as shell:
        await shell.submit(new_job(1))
        await shell.taken_in()
        gate = Gate(shell.memory)
        under_way = asyncio.create_task(shell.submit(new_job(2)))
        await gate.reached()
        await fill_inbox(shell)
        with pytest.raises(WorldError, match="send more slowly"):
            await shell.submit(new_job(3))
        await asyncio.sleep(0)
        assert len(shell.leader._promises) == 1  # nothing is kept for who has gone
        gate.open()
        assert (await in_time(under_way)).ids == [2]
    assert sorted(shell.memory.tables.jobs) == [1, 2]


@pytest.mark.parametrize(
    ("cause", "times"), [(StoreUnavailable("disk full"), COMMIT_TRIES), (ValueError("a bug"), 1)]
)
@in_virtual_time
async def test_who_waits_when_a_commit_fails_is_told_that_nobody_knows(
    tmp_path: Path, cause: Exception, times: int
) -> None:
    async with Shell(tmp_path, HeldStore()) as shell:
        await shell.submit(new_job(1))
        await shell.taken_in()
        gate, engine = Gate(shell.memory), shell.leader
        asked: list[asyncio.Task[object]] = [asyncio.create_task(shell.submit(new_job(2)))]
        await gate.reached()
        asked += [asyncio.create_task(shell.desk.cancel(1)), asyncio.create_task(shell.desk.queues())]
        await asyncio.sleep(0)
        gate.open(cause, times)
        for answer in await in_time(asyncio.gather(*asked, return_exceptions=True)):
            assert isinstance(answer, WorldError) and str(cause) in str(answer)
        assert sorted(shell.memory.tables.jobs) == [1]
        await shell.leads_again(engine)
        assert (await shell.submit(new_job(2))).ids == [2]


@in_virtual_time
async def test_a_commit_whose_engine_is_cancelled_may_have_been_written(tmp_path: Path) -> None:
    """So the submit is not inserted once more by the store: that would make two jobs of it."""
    async with Shell(tmp_path, HeldStore()) as shell:
        await shell.submit(new_job(1))
        await shell.taken_in()
        gate = Gate(shell.memory, behind=True)
        asked = asyncio.create_task(shell.submit(new_job(2)))
        await gate.reached()
        shell._tasks[0].cancel()
        with pytest.raises(WorldError):
            await in_time(asked)
    assert sorted(shell.memory.tables.jobs) == [1, 2]


@in_virtual_time
async def test_what_was_not_looked_at_before_a_leader_steps_down_surely_did_not_happen(
    tmp_path: Path,
) -> None:
    async with Shell(tmp_path, HeldStore()) as shell:
        engine = shell.leader
        await shell.leave_the_seat()
        with pytest.raises(Deposed):
            await engine.submit([Submission([new_job(1)])])
        with pytest.raises(Deposed):
            await engine.ask(lambda ticket: happened.QueueDropAsked(ticket, "q"))
        with pytest.raises(NoLeader):
            await shell.desk.queues()
        assert (await shell.submit(new_job(1))).ids == [1]  # submits work on every node


@in_virtual_time
async def test_a_leader_that_has_not_heard_from_the_store_for_too_long_says_nothing(tmp_path: Path) -> None:
    async with Shell(tmp_path, HeldStore()) as shell:
        await shell.submit(new_job(1))
        await shell.taken_in()

        async def silent(term: int, holder: str, asleep: bool) -> bool:
            raise StoreUnavailable("busy")

        shell.memory.renew = silent  # type: ignore[method-assign]
        await asyncio.sleep(5)
        with pytest.raises(NoLeader, match="too long"):
            await shell.desk.queues()
        job = await shell.desk.get_job(1)
        assert await shell.desk.standing([job]) == [None]  # reads work on every node
        del shell.memory.renew
        await asyncio.sleep(2)
        assert await shell.paths() == ["q"]
        assert shell.leader.reign.term == 1


@in_virtual_time
async def test_a_worker_that_comes_while_the_reign_ends_is_sent_away(tmp_path: Path) -> None:
    """Or it would beat to nobody for ever, and the next leader would never see it."""
    async with Shell(tmp_path, HeldStore()) as shell:
        early = await Hand(shell.leader.open_port(), "early").hello()
        engine = shell.leader
        engine.stop()
        await until(lambda: early.hung_up)
        late = await Hand(engine.open_port(), "late").hello()
        await until(lambda: late.hung_up)
        assert isinstance(late.heard[0], wire.Refusal)
        await shell.leads_again(engine)
        again = await Hand(shell.leader.open_port(), "late").hello()
        await until(lambda: again.heard)
        assert isinstance(again.heard[0], wire.Welcome)


@in_virtual_time
async def test_a_question_that_cannot_be_answered_fails_alone(tmp_path: Path) -> None:
    async with Shell(tmp_path, HeldStore()) as shell:
        await shell.submit(new_job(1))
        await shell.taken_in()
        gate = Gate(shell.memory)
        under_way = asyncio.create_task(shell.submit(new_job(2)))
        await gate.reached()
        wrong = asyncio.create_task(shell.leader.look(lambda world: world.live[77]))
        await asyncio.sleep(0)
        gate.open()
        with pytest.raises(KeyError):
            await in_time(wrong)
        assert (await in_time(under_way)).ids == [2]
        assert shell.leader.reign.term == 1


@in_virtual_time
async def test_a_ring_in_the_moment_a_reign_ends_does_not_keep_it_from_ending(tmp_path: Path) -> None:
    async with Shell(tmp_path, HeldStore()) as shell:
        for turns in range(12):  # whichever turn of the loop it falls into
            engine = shell.leader
            engine.stop()
            for _ in range(turns):
                await asyncio.sleep(0)
            await shell.memory.submit([], 1)  # somebody rings
            await shell.leads_again(engine)


@in_virtual_time
async def test_who_waits_at_a_doorbell_goes_when_told_to_even_as_it_rings(tmp_path: Path) -> None:
    async def nothing_foreign() -> bool:
        return False

    bell, store = Bell(tmp_path / "unused.db"), HeldStore()
    at_bell = asyncio.create_task(bell.wait(nothing_foreign, 60))
    at_store = asyncio.create_task(store.wait_for_ring(60))
    await asyncio.sleep(1)
    bell.ring()
    await store.submit([], 1)
    at_bell.cancel()
    at_store.cancel()
    for waiting in (at_bell, at_store):
        with pytest.raises(asyncio.CancelledError):
            await in_time(waiting)
