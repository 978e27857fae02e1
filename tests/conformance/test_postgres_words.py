"""Who rings at a leader on PostgreSQL says who came: heard, not read, and taken in once whatever is late."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from fairway.core.model import Arrival, Delivery, Shape
from fairway.store import NewJob, Request, Submission, Taken
from fairway.stores.postgres import PostgresStore, bell, intake
from fairway.stores.postgres.words import LONGEST, Word, word_from, words_for
from fairway.stores.rows import job_row
from tests.conformance.stage import NOW, Stage, new_job
from tests.postgres import shared_server


@pytest.fixture
async def dsn() -> AsyncIterator[str]:
    made = await shared_server().make_database()
    yield made
    await shared_server().drop_database(made)


class Leader:
    """A store that leads and listens, and somebody who submits to the same database."""

    def __init__(self, store: PostgresStore, other: PostgresStore, stage: Stage) -> None:
        self.store, self.other, self.stage = store, other, stage
        self.reads: list[str] = []
        self.after = 0
        self._look = store._intake._look
        store._intake._look = self._counted

    async def submit(self, *jobs: NewJob) -> None:
        """Submit jobs elsewhere, and let the ring come in."""
        heard = self.store._bell._rings
        key = Request(f"key {jobs[0].id}", b"d")
        await self.other.submit([Submission(jobs, key)], NOW)
        for _ in range(1000):
            if self.store._bell._rings > heard:
                return
            await asyncio.sleep(0.01)
        raise TimeoutError("nobody rang")

    async def take(self, by_words: bool = True, most: int = 10_000) -> list[Taken]:
        """Take in as the engine does; say what was read in `reads`."""
        self.reads.clear()
        taken = await self.store.take_arrivals(self.after, most, by_words=by_words)
        if taken:
            await self.stage.commit(taken=list({one.number for one in taken}))
            self.after = taken[-1].number
        return taken

    async def _counted(self, name: str, *values: Any) -> list[Any]:
        self.reads.append(name)
        return await self._look(name, *values)


@pytest.fixture
async def leader(dsn: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Leader]:
    monkeypatch.setattr(intake, "ANEW_SECONDS", 3600.0)  # else a slow machine reads more than others
    store, other = PostgresStore(dsn), PostgresStore(dsn)
    await store.open()
    await other.open()
    stage = await Stage(store).lead()
    store.listen()
    made = Leader(store, other, stage)
    assert await made.take() == []  # from now on somebody listens
    assert store._bell.hears
    made.after = 1
    assert await made.take() == []
    yield made
    await other.close()
    await store.close()


async def channel_of(leader: Leader) -> str | None:
    """Return where the database says that the leader listens."""
    [(channel,)] = await leader.other._common.run("SELECT channel FROM fairway.beat")
    return None if channel is None else str(channel)


def jobs_of(taken: list[Taken]) -> list[int]:
    return [one.job.job for one in taken]


async def test_a_plain_job_is_told_of_and_not_read(leader: Leader) -> None:
    job = new_job(
        1, queue="a/b", flow="flöw \x07", priority=-3, tags=("gpu", 'a"b'), delivery=Delivery.AT_MOST_ONCE
    )
    await leader.submit(job)
    [told] = await leader.take()
    assert leader.reads == []
    await leader.submit(job._replace(id=2))
    [read] = await leader.take(by_words=False)
    assert leader.reads == ["few_arrivals"]
    assert told.job == read.job._replace(job=1)
    assert read.number > told.number
    assert await leader.take() == []


async def test_what_was_told_of_begins_and_its_arrival_is_gone(leader: Leader) -> None:
    await leader.submit(new_job(1))
    assert jobs_of(await leader.take()) == [1]
    [begun] = await leader.stage.begin(1)
    assert begun.attempt == 1
    assert jobs_of(await leader.store.take_arrivals(0)) == []


@pytest.mark.parametrize(
    "job",
    [
        new_job(1, concurrency=2),
        new_job(1, unique="k"),
        new_job(1, tags=tuple(f"{number}-{'x' * 90}" for number in range(90))),
    ],
)
async def test_more_than_words_can_say_is_read(leader: Leader, job: NewJob) -> None:
    await leader.submit(job)
    [read] = await leader.take()
    assert leader.reads
    assert (read.job.job, read.job.concurrency) == (1, job.concurrency)


async def test_several_at_once_are_read(leader: Leader) -> None:
    await leader.submit(new_job(1), new_job(2))
    assert jobs_of(await leader.take()) == [1, 2]
    assert leader.reads == ["few_arrivals"]


async def test_a_ring_without_words_has_all_of_them_read(leader: Leader) -> None:
    await leader.submit(new_job(1))
    await leader.submit(new_job(2), new_job(3))
    await leader.submit(new_job(4))
    assert jobs_of(await leader.take()) == [1, 2, 3, 4]
    assert leader.reads
    assert await leader.take() == []


async def test_a_word_that_comes_after_the_read_counts_for_nothing(leader: Leader) -> None:
    await leader.submit(new_job(1))
    [late] = leader.store._bell.take_words()
    assert jobs_of(await leader.take()) == [1]
    assert leader.reads
    leader.store._bell.ring(late)
    assert await leader.take() == []


async def test_a_word_that_comes_twice_counts_once(leader: Leader) -> None:
    await leader.submit(new_job(1))
    [word] = leader.store._bell.take_words()
    leader.store._bell.ring(word)
    assert jobs_of(await leader.take()) == [1]
    assert leader.reads == []
    leader.store._bell.ring(word)
    assert await leader.take() == []


async def test_of_several_equal_words_one_counts(leader: Leader) -> None:
    """More than a few, which the core looks at together."""
    for number in range(1, 11):
        await leader.submit(new_job(number))
    words = leader.store._bell.take_words()
    for word in (*words, *words):
        leader.store._bell.ring(word)
    assert jobs_of(await leader.take()) == list(range(1, 11))
    assert leader.reads == []


async def test_a_word_of_a_transaction_that_ran_beside_the_last_read_is_new(leader: Leader, dsn: str) -> None:
    """Its number is below the snapshot's end, and it was not seen all the same."""
    users = [await asyncpg.connect(dsn, timeout=10) for _ in range(3)]
    try:
        for user in users:
            await user.execute("BEGIN; SELECT pg_current_xact_id()")
        late = await users[1].fetchval("SELECT pg_current_xact_id()::text")
        await leader.submit(new_job(1), new_job(2))
        assert jobs_of(await leader.take()) == [1, 2]  # by a read, beside three transactions
        assert late in str(leader.store._intake._cursor)
        await leader.submit(new_job(3))
        [word] = leader.store._bell.take_words()
        leader.store._bell.ring(word._replace(transaction=int(late)))
        assert jobs_of(await leader.take()) == [3]
        assert leader.reads == []
    finally:
        for user in users:
            await user.close(timeout=5)


async def test_now_and_then_all_is_read_whatever_was_said(
    leader: Leader, monkeypatch: pytest.MonkeyPatch
) -> None:
    await leader.submit(new_job(1))
    monkeypatch.setattr(intake, "ANEW_SECONDS", 0.0)
    assert jobs_of(await leader.take()) == [1]
    assert leader.reads == ["first_arrivals"]


async def test_more_words_than_are_remembered_are_a_ring(
    leader: Leader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bell, "MOST_WORDS", 2)
    for number in (1, 2, 3):
        await leader.submit(new_job(number))
    assert jobs_of(await leader.take()) == [1, 2, 3]
    assert leader.reads


async def test_who_was_awake_reads_before_it_listens(leader: Leader) -> None:
    """A job that came then did not ring, and may have brought a limit for what is named now."""
    leader.store._bell.asleep = False
    await leader.store.renew(leader.stage.term, "leader", False)
    await leader.other.submit([Submission([new_job(1, concurrency=1)], Request("key", b"d"))], NOW)
    await leader.store.renew(leader.stage.term, "leader", True)
    await leader.submit(new_job(2))
    assert jobs_of(await leader.take()) == [1, 2]


async def test_who_comes_before_it_is_written_that_the_leader_sleeps_is_read_first(leader: Leader) -> None:
    """A look in between does not see who comes after it and, as the row says, need not ring."""
    heard = leader.store._bell
    heard.asleep = False
    heard.judge()
    await leader.take()
    await leader.submit(new_job(1))
    words = heard.take_words()
    assert words == []  # it is not known yet whether all others would have rung
    heard.beaten()
    await leader.submit(new_job(2))
    assert jobs_of(await leader.take()) == [1, 2]


async def test_while_a_read_was_cut_short_words_do_not_count(leader: Leader) -> None:
    """What they tell of may be among what was read, though the snapshot does not say so."""
    leader.store._intake._expects_few = False
    for number in (1, 2, 3):
        await leader.submit(new_job(number))
    words = leader.store._bell.take_words()
    assert jobs_of(await leader.take(most=2)) == [1, 2]
    leader.store._bell.ring(words[0])
    assert jobs_of(await leader.take(most=2)) == [3]
    assert leader.reads


async def test_a_new_leader_reads_all_whatever_it_hears(leader: Leader) -> None:
    await leader.submit(new_job(1))
    leader.store._bell.take_words()
    await leader.submit(new_job(2))
    leader.after = 0
    assert jobs_of(await leader.take()) == [1, 2]


@pytest.mark.parametrize(
    "words",
    [
        "",
        "nonsense",
        "1 2 3",
        "1 7 9 [1]",
        '1 1 2 ["x"]',
        "1 x y []",
        '1 1 2 [7,"q",null,0,"python","t","5",false,1]',
        '1 1 2 [7,"q",null,0,"python","t","no JSON",false,1]',
        '2 999999999 9 [7,"q",null,0,"python","t",null,false,1]',
        f'1 1 2 [7,"q",null,0,"python","t","{"[" * 3500 + "]" * 3500}",false,1]',
    ],
)
async def test_whatever_else_is_said_is_a_ring(leader: Leader, dsn: str, words: str) -> None:
    user = await asyncpg.connect(dsn, timeout=10)
    try:
        for channel in ("fairway_fairway", leader.store._bell.own_channel):
            await leader.submit(new_job(1 if channel == "fairway_fairway" else 2))
            heard = leader.store._bell._rings
            await user.execute("SELECT pg_notify($1, $2)", channel, words)
            for _ in range(1000):
                if leader.store._bell._rings > heard:
                    break
                await asyncio.sleep(0.01)
            assert len(await leader.take()) == 1
            assert leader.reads
    finally:
        await user.close(timeout=5)


async def test_the_channel_is_drawn_at_each_election_and_gone_with_the_leader(leader: Leader) -> None:
    store, stage = leader.store, leader.stage
    first = store._bell.own_channel
    assert await channel_of(leader) == first is not None
    await store.resign(stage.term, "leader")
    assert await channel_of(leader) is None
    await stage.lead()
    assert await channel_of(leader) == store._bell.own_channel != first


async def test_through_a_pooler_no_channel_is_named(leader: Leader) -> None:
    leader.store._bell.own_channel, leader.store._direct = None, False
    await leader.stage.lead()
    assert await channel_of(leader) is None
    await leader.submit(new_job(1))  # who finds no channel rings where everybody does
    assert jobs_of(await leader.take()) == [1]
    assert leader.reads


def test_words_are_read_as_they_were_said() -> None:
    row = job_row(new_job(7, flow="f", tags=("a",)))
    words = words_for(row)
    assert words is not None
    said = word_from(f"1 12 34 {words}")
    assert said is not None
    job = Arrival(7, "acme/emails", "f", 0, Shape("python", "app.send", ("a",)), NOW)
    assert said == Word(12, Taken(34, job))
    assert words_for(job_row(new_job(7, flow="x" * LONGEST))) is None
