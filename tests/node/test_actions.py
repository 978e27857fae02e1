"""Actions on all that a query finds: each job once, refusals, abort, canaries, and a leader that goes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from fairway.action import Action, ActionProgress, Canary, Refusal
from fairway.clock import wall
from fairway.core.lifecycle import State
from fairway.core.model import DEFAULT_RULES, Extras
from fairway.errors import Busy, NoLeader, NotFound
from fairway.node.actions import MOST_AT_ONCE, Run
from fairway.node.app import Node, NodeOptions
from fairway.node.deeds import deed_of
from fairway.query import Query, parse
from fairway.store import NewJob, StoredJob, Submission
from fairway.wire import messages as wire

from .stage import Hand, HeldStore, Shell, new_job

SECONDS = 60.0
ONE_TRY = replace(DEFAULT_RULES, max_attempts=1)

Judge = Callable[[int], str]


@asynccontextmanager
async def opened(kind: str, folder: Path) -> AsyncIterator[Node]:
    if kind == "memory":
        async with Shell(folder, HeldStore()) as shell:
            yield shell
        return
    node = Node(NodeOptions(database=f"sqlite:///{folder}/f.db", listen="127.0.0.1:0", worker=False))
    await node.start()
    try:
        await node.until_leading(SECONDS)
        yield node
    finally:
        await node.stop()


@pytest.fixture(params=["memory", "sqlite"])
async def node(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Node]:
    async with opened(request.param, tmp_path) as node:
        yield node


@asynccontextmanager
async def working(node: Node, judge: Judge) -> AsyncIterator[Hand]:
    """A worker that ends every attempt as *judge* says of its job."""
    assert node.engine is not None
    hand = Hand(node.engine.open_port())
    await hand.hello(slots=50)
    task = asyncio.create_task(_work(hand, judge))
    try:
        yield hand
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        await hand.port.receive(wire.Goodbye())


async def _work(hand: Hand, judge: Judge) -> None:
    done = 0
    while True:
        begun = hand.begun()
        for job, attempt in begun[done:]:
            kind = judge(job)
            await hand.report(job, attempt, kind, b"1" if kind == "ok" else b'{"type":"Bad","message":"no"}')
        done = len(begun)
        await asyncio.sleep(0.005)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(SECONDS):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def submit(node: Node, count: int, first: int = 1, **changes: object) -> None:
    jobs = [new_job(number, rules=ONE_TRY, **changes) for number in range(first, first + count)]  # type: ignore[arg-type]
    await node.desk.submit([Submission(jobs)])


async def counted(node: Node, query: str) -> int:
    return await node.store.count(parse(query), wall())


async def until_counted(node: Node, query: str, count: int) -> None:
    async with asyncio.timeout(SECONDS):
        while await counted(node, query) != count:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def cancelled(node: Node, count: int) -> None:
    """Let *count* jobs have ended, without a worker."""
    await submit(node, count)
    over = await finish(await start(node, "cancel", "queue:q"))
    assert (over.state, over.done) == ("done", count)


def action(verb: str, query: str, canary: Canary | None = None, **more: object) -> Action:
    return Action(verb, query, parse(query), "tester", canary=canary, **more)  # type: ignore[arg-type]


async def start(
    node: Node, verb: str, query: str, canary: Canary | None = None, **more: object
) -> ActionProgress:
    return await node.desk.start_action(action(verb, query, canary, **more))


async def finish(progress: ActionProgress) -> ActionProgress:
    await until(lambda: not progress.under_way)
    return progress


async def found(node: Node, count: int) -> list[StoredJob]:
    return await node.store.find_jobs(range(1, count + 1))


# --- each once -------------------------------------------------------------------------------------------
async def test_each_job_is_retried_once_although_it_fails_and_matches_again(node: Node) -> None:
    count = 450  # more than two batches
    async with working(node, lambda job: "error"):
        await submit(node, count)
        await until_counted(node, "state:failed", count)
        over = await finish(await start(node, "retry", "state:failed"))
        assert (over.state, over.found, over.done, over.refused) == ("done", count, count, 0)
        await until_counted(node, "state:failed", count)
    assert {job.generation for job in await found(node, count)} == {1}


async def test_what_keeps_matching_is_edited_once_and_all_of_it(node: Node) -> None:
    await submit(node, 230)
    over = await finish(await start(node, "edit", "queue:q", changes={"priority": 7}))
    assert (over.state, over.done) == ("done", 230)
    assert {job.priority for job in await found(node, 230)} == {7}


async def test_what_is_moved_out_of_the_query_does_not_hide_the_rest(node: Node) -> None:
    await submit(node, 450)
    over = await finish(await start(node, "move", "queue:q", changes={"queue": "other"}))
    assert (over.state, over.done, await counted(node, "queue:other")) == ("done", 450, 450)


async def test_only_what_was_there_is_touched(node: Node) -> None:
    """A deed that inserts jobs and lets others end: neither these nor those are its own."""
    await submit(node, 30)
    began = wall()
    seen: list[int] = []

    async def deed(jobs: Sequence[StoredJob]) -> list[Refusal]:
        if not seen:
            late: list[NewJob] = [new_job(1000 + at)._replace(created_at=wall() + 1000) for at in range(5)]
            await node.desk.submit([Submission(late)])
            await asyncio.sleep(0.002)
            await node.desk.cancel(30)
        seen.extend(job.id for job in jobs)
        return []

    progress = ActionProgress("x", action("prefer", "queue:q"), began, 30)
    await Run(progress, node.store, deed, page=10).go()
    assert (progress.state, seen) == ("done", list(range(1, 30)))


# --- refusals and deletes --------------------------------------------------------------------------------
async def test_refusals_are_counted_and_the_first_are_named(node: Node) -> None:
    await cancelled(node, 10)
    await submit(node, 30, first=11)
    over = await finish(await start(node, "retry", "queue:q"))
    assert (over.state, over.found, over.done, over.refused) == ("done", 40, 10, 30)
    assert [refusal.job for refusal in over.refusals] == list(range(11, 31))
    assert {refusal.code for refusal in over.refusals} == {"not_ended"}


async def test_deleting_takes_only_what_has_ended(node: Node) -> None:
    await cancelled(node, 220)
    await submit(node, 5, first=300)
    over = await finish(await start(node, "delete", "queue:q"))
    assert (over.state, over.done, over.refused) == ("done", 220, 5)
    assert await counted(node, "queue:q") == 5


@pytest.mark.parametrize("verb", ["cancel", "kill", "prefer", "requeue"])
async def test_every_plain_verb_is_done(node: Node, verb: str) -> None:
    await submit(node, 3)
    over = await finish(await start(node, verb, "queue:q state:queued"))
    assert (over.done, over.refused) == (3, 0)
    states = {job.state for job in await found(node, 3)}
    assert states == ({State.CANCELLED} if verb in ("cancel", "kill") else {State.QUEUED})


async def test_relocating_to_nobody_is_refused_for_each(node: Node) -> None:
    await submit(node, 3)
    over = await finish(await start(node, "relocate", "queue:q", to="nobody"))
    assert (over.done, [refusal.code for refusal in over.refusals]) == (0, ["no_such_worker"] * 3)


# --- abort -----------------------------------------------------------------------------------------------
async def test_an_abort_stops_after_the_batch_under_way(node: Node) -> None:
    await submit(node, 100)
    seen: list[int] = []

    async def deed(jobs: Sequence[StoredJob]) -> list[Refusal]:
        seen.extend(job.id for job in jobs)
        if len(seen) == 30:
            run.abort()
            assert run.progress.state == "aborting"
        return []

    run = Run(ActionProgress("x", action("prefer", "queue:q"), wall(), 100), node.store, deed, page=10)
    await run.go()
    assert (run.progress.state, run.progress.done, seen) == ("aborted", 30, list(range(1, 31)))


async def test_an_abort_while_a_canary_is_watched_leaves_the_rest(node: Node) -> None:
    await cancelled(node, 10)
    progress = await start(node, "retry", "state:cancelled", Canary(jobs=2))
    await until(lambda: progress.canary is not None)  # nobody works, so they wait for ever
    assert (await node.desk.abort_operation(progress.operation)) is progress
    await finish(progress)
    assert (progress.state, progress.done) == ("aborted", 2)
    assert await counted(node, "state:cancelled") == 8
    assert (await node.desk.abort_operation(progress.operation)).state == "aborted"


async def test_there_are_so_many_at_a_time_and_no_more(node: Node) -> None:
    await cancelled(node, MOST_AT_ONCE + 1)
    running = []
    for number in range(MOST_AT_ONCE):
        running.append(await start(node, "retry", "state:cancelled", Canary(jobs=1)))
        await until(lambda: running[-1].canary is not None)
        assert node.numbers()["operations_running"] == number + 1
    with pytest.raises(Busy):
        await start(node, "prefer", "queue:q")
    for one in running:
        await node.desk.abort_operation(one.operation)
    for one in running:
        await finish(one)
    assert (await finish(await start(node, "prefer", "state:queued"))).state == "done"
    assert len(await node.desk.operations()) == MOST_AT_ONCE + 2  # with the cancel at the beginning


# --- canaries --------------------------------------------------------------------------------------------
async def test_a_canary_that_fails_stops_it_and_says_why(node: Node) -> None:
    await cancelled(node, 50)
    async with working(node, lambda job: "error"):
        over = await finish(await start(node, "retry", "state:cancelled", Canary(jobs=5)))
    assert (over.state, over.done, over.canary and over.canary.passed) == ("stopped", 5, False)
    assert over.reason is not None and "0 of the 5 jobs" in over.reason and "Bad: no" in over.reason
    assert await counted(node, "state:cancelled") == 45


async def test_a_canary_that_passes_lets_the_rest_follow(node: Node) -> None:
    await cancelled(node, 50)
    async with working(node, lambda job: "ok" if job != 3 else "error"):
        canary = Canary(share=0.1, needed=0.8)
        over = await finish(await start(node, "retry", "state:cancelled", canary))
        assert (over.state, over.done, over.reason) == ("done", 50, None)
        assert over.canary is not None
        assert (over.canary.jobs, over.canary.succeeded, over.canary.failed) == (5, 4, 1)
        await until_counted(node, "state:succeeded", 49)
    assert {job.generation for job in await found(node, 50)} == {1}


async def test_a_canary_that_does_not_end_in_time_stops_it(node: Node) -> None:
    await cancelled(node, 5)
    over = await finish(await start(node, "retry", "state:cancelled", Canary(jobs=2, seconds=0.05)))
    assert over.state == "stopped" and over.reason is not None and "2 had not ended" in over.reason
    assert await counted(node, "state:cancelled") == 3


# --- leaders and listeners -------------------------------------------------------------------------------
async def test_with_its_leader_only_the_operation_is_lost(node: Node) -> None:
    await cancelled(node, 10)
    before = node.engine
    progress = await start(node, "retry", "state:cancelled", Canary(jobs=4))
    await until(lambda: progress.canary is not None)
    node.step_down()
    await until(lambda: node.engine not in (None, before))
    with pytest.raises(NotFound):
        await node.desk.find_operation(progress.operation)
    assert await node.desk.operations() == []
    assert (await counted(node, "state:queued"), await counted(node, "state:cancelled")) == (4, 6)
    over = await finish(await start(node, "retry", "state:cancelled"))
    assert (over.done, await counted(node, "state:queued")) == (6, 10)


class SlowToCount(HeldStore):
    """Counts only when it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.let = asyncio.Event(), asyncio.Event()

    async def count(self, query: Query, now: int) -> int:
        self.asked.set()
        await self.let.wait()
        return await super().count(query, now)


async def test_a_reign_that_ends_while_one_is_begun_is_no_fault_of_ours(tmp_path: Path) -> None:
    store = SlowToCount()
    async with asyncio.timeout(SECONDS), Shell(tmp_path, store) as node:
        before = node.engine
        asked = asyncio.create_task(start(node, "cancel", "queue:q"))
        await store.asked.wait()
        node.step_down()
        await until(lambda: node.engine not in (None, before))
        store.let.set()
        with pytest.raises(NoLeader):
            await asked
        assert await node.desk.operations() == []


async def test_it_is_told_when_it_begins_and_how_it_ended(node: Node) -> None:
    await submit(node, 3)
    over = await finish(await start(node, "cancel", "queue:q"))
    async with asyncio.timeout(SECONDS):
        while len(told := await _told(node)) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    facts = {"operation": over.operation, "action": "cancel", "q": "queue:q", "by": "tester"}
    assert told == [
        ("operation.started", facts | {"found": 3}),
        ("operation.ended", facts | {"state": "done", "done": 3, "refused": 0}),
    ]


async def _told(node: Node) -> list[tuple[str, object]]:
    events = await node.store.events_after(0, 0)
    return [(one.event.kind, one.event.detail) for one in events if one.event.kind.startswith("operation.")]


@pytest.mark.parametrize(("kind", "refused"), [("ok", {1, 2}), ("error", {1})])
async def test_what_waited_for_another_counts_as_cancelled_only_if_it_never_began(
    node: Node, kind: str, refused: set[int]
) -> None:
    """The page was read while it was blocked; then the other ended, and it ran, or failed with that."""
    await submit(node, 1)
    await submit(node, 1, first=2, extras=Extras(after=(1,)))
    page = await node.store.find_jobs([1, 2])
    async with working(node, lambda job: kind):
        await until_counted(node, "state:ended", 2)
    assert node.engine is not None
    cancel = deed_of(action("cancel", "queue:q"), node.desk, node.store, node.engine.reign)
    assert {refusal.job for refusal in await cancel(page)} == refused
