"""What only a server shared by many can get wrong: late commits, open transactions, lost connections."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import asyncpg
import msgspec
import pytest

from fairway.core.model import Delivery, Extras, Rules
from fairway.core.plan import Batch, Begin, Drop, Return, Revive, SaveQueue
from fairway.errors import Conflict, Deposed, StoreUnavailable, StoreUnusable, Unsure
from fairway.store import Request, Submission
from fairway.stores.postgres import PostgresStore
from fairway.stores.postgres.connection import Connections
from fairway.stores.postgres.inserting import insert_submissions
from fairway.stores.postgres.sql import queries_of
from tests.conformance.stage import NOW, SECOND, Stage, an_end, new_job, told
from tests.postgres import shared_server


@pytest.fixture
async def dsn() -> AsyncIterator[str]:
    made = await shared_server().make_database()
    yield made
    await shared_server().drop_database(made)


@pytest.fixture
async def stage(dsn: str) -> AsyncIterator[Stage]:
    store = PostgresStore(dsn)
    await store.open()
    yield await Stage(store).lead()
    await store.close()


@pytest.fixture
async def user(dsn: str, stage: Stage) -> AsyncIterator[Any]:
    """A user's own connection."""
    connection = await asyncpg.connect(dsn, timeout=10)
    yield connection
    await connection.close(timeout=5)


async def insert(user: Any, *numbers: int, **changes: Any) -> None:
    """Insert jobs on a user's own connection, as a transactional submit does."""
    jobs = [new_job(number, **changes) for number in numbers]
    await insert_submissions(user, queries_of("fairway"), [Submission(jobs)], NOW)


async def take(stage: Stage, after: int) -> tuple[list[int], int]:
    """Take arrivals in as the engine does: what was taken is deleted by the next commit."""
    taken = await stage.store.take_arrivals(after)
    await stage.commit(taken=[one.number for one in taken])
    return [one.job.job for one in taken], taken[-1].number if taken else after


# --- arrivals --------------------------------------------------------------------------------------------
async def test_what_was_inserted_early_and_committed_late_is_taken_in_once(stage: Stage, user: Any) -> None:
    late = user.transaction()
    await late.start()
    await insert(user, 1)
    await stage.submit(new_job(2))
    jobs, after = await take(stage, 0)
    assert jobs == [2]
    await stage.submit(new_job(3))
    jobs, after = await take(stage, after)
    assert jobs == [3]
    await late.commit()
    jobs, after = await take(stage, after)
    assert jobs == [1]
    assert await take(stage, after) == ([], after)


async def test_what_was_rolled_back_never_arrives(stage: Stage, user: Any) -> None:
    await take(stage, 0)
    with pytest.raises(ZeroDivisionError):
        async with user.transaction():
            await insert(user, 1)
            raise ZeroDivisionError
    async with user.transaction():
        await insert(user, 2)
        inner = user.transaction()
        await inner.start()
        await insert(user, 3)
        await inner.rollback()
    assert (await take(stage, 7))[0] == [2]
    assert await stage.store.find_job(1) is None and await stage.store.find_job(3) is None


async def test_a_read_that_is_cut_short_goes_on_where_it_was(stage: Stage) -> None:
    await stage.submit(*(new_job(number) for number in range(1, 6)))
    seen: list[int] = []
    after = 0
    while taken := await stage.store.take_arrivals(after, most=2):
        await stage.commit(taken=[one.number for one in taken])
        after = taken[-1].number
        seen += [one.job.job for one in taken]
    assert seen == [1, 2, 3, 4, 5]


async def test_many_writers_at_once_lose_nothing(stage: Stage, dsn: str) -> None:
    async def write(first: int) -> None:
        connection = await asyncpg.connect(dsn, timeout=10)
        for number in range(first, first + 20):
            transaction = connection.transaction()
            await transaction.start()
            await insert(connection, number)
            await asyncio.sleep(0)
            await (transaction.rollback() if number % 5 == 0 else transaction.commit())
        await connection.close(timeout=5)

    writers = asyncio.gather(*(write(first) for first in (100, 200, 300, 400)))
    seen, after, over = [], 0, False
    while not over:
        over = writers.done()
        jobs, after = await take(stage, after)
        seen += jobs
    await writers
    wanted = [n for first in (100, 200, 300, 400) for n in range(first, first + 20) if n % 5]
    assert sorted(seen) == wanted


# --- keys ------------------------------------------------------------------------------------------------
async def test_two_equal_requests_at_once_make_one_job(stage: Stage) -> None:
    async def ask(number: int) -> list[int]:
        submission = Submission([new_job(number)], Request("key", b"same"))
        [accepted] = await stage.store.submit([submission], NOW)
        return accepted.ids

    answers = await asyncio.gather(*(ask(number) for number in range(1, 9)))
    assert all(answer == answers[0] for answer in answers)
    assert len(await stage.waiting()) == 1


async def test_a_key_in_an_open_transaction_is_pending_not_lost(stage: Stage, user: Any) -> None:
    async with user.transaction():
        await insert(user, 1, unique="k")
        with pytest.raises(Conflict) as refused:
            await stage.submit(new_job(2, unique="k"))
        assert refused.value.code == "unique_pending"
    assert (await stage.submit(new_job(3, unique="k"))).ids == [1]


async def test_the_leader_does_not_wait_for_a_key_in_an_open_transaction(stage: Stage, user: Any) -> None:
    await stage.run(new_job(1, unique="k"))
    async with user.transaction():
        await insert(user, 2, unique="k")
        receipt = await stage.commit(revives=[Revive(1, NOW, NOW)], queues=[SaveQueue("q", b"{}", NOW)])
        assert receipt.revived == []
    assert "q" in await stage.store.queue_rows()


async def test_a_user_who_was_refused_a_key_holds_nobody_up(stage: Stage, user: Any) -> None:
    await stage.submit(new_job(1, unique="k"))
    await stage.begin(1)
    async with user.transaction():
        await insert(user, 2, unique="k")  # job 1 has it, and the transaction stays open
        async with asyncio.timeout(30):
            await stage.end(1, unique="k")
    assert [state.value for state in await stage.states(1)] == ["succeeded"]


async def test_searches_do_not_keep_the_leader_waiting(stage: Stage) -> None:
    store: Any = stage.store

    async def sleep() -> None:
        async with store._common.reading() as connection:
            await connection.execute("SELECT pg_sleep(30)")

    slow = [asyncio.create_task(sleep()) for _ in range(8)]
    await asyncio.sleep(0.3)
    assert await store.take_arrivals(0) == []
    await stage.commit(queues=[SaveQueue("q", b"{}", NOW)])
    assert not any(task.done() for task in slow)
    for task in slow:
        task.cancel()
    await asyncio.gather(*slow, return_exceptions=True)


# --- leadership ------------------------------------------------------------------------------------------
async def test_an_election_waits_for_a_commit_under_way_and_fences_the_next(stage: Stage, user: Any) -> None:
    await stage.submit(new_job(1))
    async with user.transaction():
        await user.fetch("SELECT 1 FROM fairway.leader WHERE term = 1 FOR SHARE")
        election = asyncio.create_task(stage.store.elect(1, "other", "n2", "", NOW))
        await asyncio.sleep(0.2)
        assert not election.done()
    assert (await election) is not None
    with pytest.raises(Deposed):
        await stage.commit(begins=[Begin([1], "w", "w", NOW)], news=[told("job.begun", 1)])
    assert await stage.store.live_attempts() == []


async def test_event_numbers_go_on_under_the_next_leader(stage: Stage, dsn: str) -> None:
    first = await stage.commit(news=[told("a")])
    other = PostgresStore(dsn)
    await other.open()
    await other.elect(1, "other", "n2", "", NOW)
    second = await other.commit(2, "other", Batch(news=[told("b", *range(2000))]), [], NOW)
    await other.close()
    await stage.store.elect(2, "leader", "node", "", NOW)
    stage.term = 3
    third = await stage.commit(news=[told("c")])
    assert [first.number, second.number, third.number] == [1, 2, 3]


# --- trouble ---------------------------------------------------------------------------------------------
async def test_connections_that_died_in_the_pool_are_replaced(stage: Stage, user: Any) -> None:
    await stage.submit(new_job(1))
    await kill_others(user)
    assert await stage.waiting() == [1]
    await kill_others(user)
    await stage.commit(begins=[Begin([1], "w", "w", NOW)])
    assert len(await stage.store.live_attempts()) == 1


async def kill_others(user: Any) -> None:
    """End every backend of this database but our own, and wait until they are gone."""
    others = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    await user.fetch(f"SELECT pg_terminate_backend(pid) {others}")
    for _ in range(200):
        if not await user.fetchval(f"SELECT count(*) {others}"):
            return
        await asyncio.sleep(0.01)
    raise AssertionError("backends do not end")


async def test_a_commit_whose_answer_is_lost_is_unsure(stage: Stage, user: Any) -> None:
    """The connection dies after the last statement: whether the COMMIT got through nobody can say."""
    await stage.submit(new_job(1))
    connections: Any = stage.store
    with pytest.raises((Unsure, StoreUnavailable)) as lost:
        async with connections._urgent.writing() as connection:
            await connection.execute("SELECT 1")
            await kill_others(user)
    assert isinstance(lost.value, Unsure)


# --- schemas ---------------------------------------------------------------------------------------------
async def test_two_schedulers_on_one_database_are_strangers(dsn: str, stage: Stage) -> None:
    other = PostgresStore(dsn, "second")
    await other.open()
    there = await Stage(other).lead()
    await stage.submit(new_job(1))
    await there.submit(new_job(2))
    assert (await stage.waiting(), await there.waiting()) == ([1], [2])
    assert (await take(there, 0))[0] == [2]
    await other.close()


async def test_stores_that_open_together_prepare_the_schema_once(dsn: str) -> None:
    stores = [PostgresStore(dsn, "fresh") for _ in range(4)]
    await asyncio.gather(*(store.open() for store in stores))
    assert await stores[3].find_leadership() is None
    await asyncio.gather(*(store.close() for store in stores))


async def test_a_schema_that_is_not_ours_or_too_new_is_left_alone(dsn: str, user: Any) -> None:
    await user.execute("CREATE SCHEMA theirs; CREATE TABLE theirs.job (id int)")
    with pytest.raises(StoreUnusable, match="not Fairway's"):
        await PostgresStore(dsn, "theirs").open()
    await user.execute("UPDATE fairway.meta SET value = '99' WHERE key = 'version'")
    with pytest.raises(StoreUnusable, match="newer"):
        await PostgresStore(dsn).open()


@pytest.mark.parametrize(
    "theirs",
    [
        "TABLE theirs.meta (key text, value text)",
        "VIEW theirs.meta AS SELECT 'product' AS key, 'fairway' AS value",
        "MATERIALIZED VIEW theirs.sums AS SELECT 1 AS one",
        "SEQUENCE theirs.numbers",
        "FUNCTION theirs.one() RETURNS int LANGUAGE sql AS 'SELECT 1'",
        "DOMAIN theirs.name AS text",
    ],
)
async def test_a_schema_with_anything_of_somebody_else_is_left_alone(
    dsn: str, user: Any, theirs: str
) -> None:
    await user.execute(f"CREATE SCHEMA theirs; CREATE {theirs}")
    with pytest.raises(StoreUnusable, match="not Fairway's"):
        await PostgresStore(dsn, "theirs").open()


async def test_an_empty_schema_that_somebody_made_for_us_is_prepared(dsn: str, user: Any) -> None:
    await user.execute("CREATE SCHEMA ours")
    store = PostgresStore(dsn, "ours")
    await store.open()
    assert await store.find_leadership() is None
    await store.close()


@pytest.mark.parametrize(
    ("address", "text"),
    [
        ("postgresql://fairway@127.0.0.1:1/x", "Connect"),
        ("postgresql://fairway@127.0.0.1:{port}/there_is_none", "no such database"),
        ("postgresql://nobody_here@127.0.0.1:{port}/postgres", "does not let us in"),
    ],
)
async def test_a_wrong_address_is_one_clear_line(address: str, text: str) -> None:
    with pytest.raises((StoreUnavailable, StoreUnusable), match=text) as refused:
        await PostgresStore(address.format(port=shared_server().port)).open()
    assert "\n" not in str(refused.value)


async def test_a_server_that_is_too_old_is_refused_in_one_line_and_left_alone(
    dsn: str, user: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is no old one to ask, so this one is made old by wanting more."""
    monkeypatch.setattr("fairway.stores.postgres.connection.OLDEST_SERVER", 99)
    with pytest.raises(StoreUnusable, match=r"is of version \d+; use 99 or newer"):
        await PostgresStore(dsn, "elsewhere").open()
    assert not await user.fetch("SELECT 1 FROM pg_namespace WHERE nspname = 'elsewhere'")


# --- the short way ---------------------------------------------------------------------------------------
async def begin_at_once(stage: Stage, number: int, key: str | None = None) -> Any:
    """Submit a job as the leader does when it begins it in the same commit; returns the receipt."""
    request = None if key is None else Request(key, b"d")
    begin = Begin([number], "w1-a", "w1", NOW, "acme/emails", "app.send")
    submission = Submission([new_job(number)], request)
    return await stage.commit(submission, begins=[begin], news=[told("job.submitted", number)])


async def test_a_job_that_begins_at_once_is_begun_submitted_and_told(stage: Stage) -> None:
    first = await stage.commit(news=[told("a")])
    receipt = await begin_at_once(stage, 7, key="k")
    assert [(one.job, one.attempt) for one in receipt.begun] == [(7, 1)]
    assert (receipt.accepted[0].ids, receipt.number) == ([7], (first.number or 0) + 1)
    [live] = await stage.store.live_attempts()
    assert (live.arrival.job, live.incarnation, live.begun.attempt) == (7, "w1-a", 1)
    told_of = [one.event for one in await stage.store.events_after(first.number or 0, 9)]
    assert [(event.kind, event.job, event.attempt) for event in told_of] == [
        ("job.submitted", 7, 1),
        ("job.begun", 7, 1),
    ]
    await stage.end(7)
    assert [state.value for state in await stage.states(7)] == ["succeeded"]


async def test_the_short_way_makes_no_job_twice_and_takes_no_id_twice(stage: Stage) -> None:
    await stage.commit(news=[told("a")])
    await begin_at_once(stage, 7, key="k")
    again = await begin_at_once(stage, 8, key="k")
    assert (again.accepted[0].ids, again.accepted[0].existed, again.refused) == ([7], [True], [8])
    taken = await begin_at_once(stage, 7)
    assert taken.redrawn and taken.accepted[0].ids != [7]
    assert [one.arrival.job for one in await stage.store.live_attempts()] == [7]


async def begin_together(stage: Stage, *keys: str | None) -> Any:
    """Submit jobs 10, 11… in one commit, each of one caller; the first begins. Returns the receipt."""
    submissions = [
        Submission([new_job(number)], None if key is None else Request(key, b"d"))
        for number, key in enumerate(keys, start=10)
    ]
    begin = Begin([10], "w1-a", "w1", NOW, "acme/emails", "app.send")
    return await stage.store.commit(
        stage.term, "leader", Batch(begins=[begin], news=[told("job.submitted", 10)]), submissions, NOW
    )


async def test_requests_of_many_callers_go_the_short_way_together(stage: Stage) -> None:
    await stage.commit(news=[told("a")])
    await begin_at_once(stage, 7)  # the roll is called by then
    receipt = await begin_together(stage, "k1", None, "k2")
    assert [(one.ids, one.existed) for one in receipt.accepted] == [
        ([10], [False]), ([11], [False]), ([12], [False]),
    ]  # fmt: skip
    assert [(one.job, one.attempt) for one in receipt.begun] == [(10, 1)]
    assert sorted(one.arrival.job for one in await stage.store.live_attempts()) == [7, 10]
    assert [state.value for state in await stage.states(10, 11, 12)] == ["running", "queued", "queued"]
    for key, number in (("k1", 10), ("k2", 12)):
        [again] = await stage.store.submit([Submission([new_job(99)], Request(key, b"d"))], NOW)
        assert (again.ids, again.existed) == ([number], [True])


async def test_one_request_that_was_made_before_does_not_hold_up_the_others(stage: Stage) -> None:
    await stage.commit(news=[told("a")])
    await begin_at_once(stage, 7, key="k1")
    receipt = await begin_together(stage, "k0", "k1", "k2", "k2")
    assert [(one.ids, one.existed) for one in receipt.accepted] == [
        ([10], [False]), ([7], [True]), ([12], [False]), ([12], [True]),
    ]  # fmt: skip
    assert sorted(receipt.refused) == [11, 13]
    assert await stage.store.find_jobs([11, 13]) == []


async def test_a_request_that_somebody_makes_meanwhile_is_made_once(stage: Stage, user: Any) -> None:
    await stage.commit(news=[told("a")])
    await begin_at_once(stage, 7)
    async with user.transaction():
        await user.execute(
            "INSERT INTO fairway.request (key, digest, ids, created_at) VALUES ('k1', 'd', $1, $2)",
            msgspec.msgpack.encode([7]),
            NOW,
        )
        waiting = asyncio.create_task(begin_together(stage, "k0", "k1"))
        await asyncio.sleep(0.3)
        assert not waiting.done()
    receipt = await waiting
    assert [(one.ids, one.existed) for one in receipt.accepted] == [([10], [False]), ([7], [True])]


async def test_the_short_way_is_fenced(stage: Stage) -> None:
    await stage.commit(news=[told("a")])
    await stage.store.elect(1, "other", "n2", "", NOW)
    with pytest.raises(Deposed):
        await begin_at_once(stage, 7)
    assert await stage.store.find_job(7) is None


# --- many at once ----------------------------------------------------------------------------------------
async def test_jobs_that_are_copied_are_as_those_that_are_inserted(stage: Stage) -> None:
    def job(number: int) -> Any:
        return new_job(
            number, flow=f"u{number % 3}", priority=number % 5, tags=("gpu",) if number % 2 else (),
            rules=Rules(max_attempts=3, timeout=5.0), run_at=NOW + number, concurrency=number % 4 or None,
            delivery=Delivery.AT_MOST_ONCE if number % 7 == 0 else Delivery.AT_LEAST_ONCE,
        )  # fmt: skip

    await stage.submit(*(job(number) for number in range(100, 200)))
    for number in range(300, 400):
        await stage.submit(job(number - 200)._replace(id=number))
    for number in range(100, 200):
        copied, inserted = await stage.get(number), await stage.get(number + 200)
        assert replace(copied, id=0) == replace(inserted, id=0)
    taken = await stage.store.take_arrivals(0)
    wanted = {one.job.job: one.job.concurrency for one in taken}
    assert wanted == {number: (number % 200) % 4 or None for number in [*range(100, 200), *range(300, 400)]}


async def test_arrivals_of_jobs_that_ended_do_not_stand_in_the_way(stage: Stage) -> None:
    await stage.submit(new_job(1))
    await stage.submit(new_job(2))
    await stage.commit(drops=[Drop(1, "cancelled", None, NOW)])
    assert [one.job.job for one in await stage.store.take_arrivals(0, most=1)] == [2]


# --- commits that overlap --------------------------------------------------------------------------------
async def overlapping(stage: Stage, before: Any) -> Any:
    """Begin job 2 in a commit that may be kept only after *before*."""
    begins = [Begin([2], "w1-a", "w1", NOW, "acme/emails", "app.send")]
    return await stage.store.commit(stage.term, "leader", Batch(begins=begins), [], NOW, before)


async def test_a_commit_is_kept_after_the_one_before_it(stage: Stage) -> None:
    await stage.submit(new_job(1), new_job(2))
    first = await stage.commit(begins=[Begin([1], "w1-a", "w1", NOW, "acme/emails", "app.send")])
    gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    second = asyncio.create_task(overlapping(stage, gate))
    await asyncio.sleep(0.2)
    assert not second.done() and len(await stage.store.live_attempts()) == 1
    gate.set_result(None)
    assert (await second).number == (first.number or 0) + 1
    assert {one.arrival.job for one in await stage.store.live_attempts()} == {1, 2}


async def test_a_commit_is_not_kept_if_the_one_before_it_fails(stage: Stage) -> None:
    await stage.submit(new_job(1), new_job(2))
    gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    second = asyncio.create_task(overlapping(stage, gate))
    await asyncio.sleep(0.1)
    gate.set_exception(StoreUnavailable("gone"))
    with pytest.raises(StoreUnavailable):
        await second
    assert await stage.waiting() == [1, 2]
    assert (await overlapping(stage, None)).number == 1


# --- the roll --------------------------------------------------------------------------------------------
async def test_a_new_leader_finds_all_that_runs_and_nothing_else(stage: Stage, dsn: str, user: Any) -> None:
    await stage.submit(*(new_job(number) for number in range(1, 8)))
    await stage.begin(1, 2, 3)
    await stage.begin(4, 5)
    await stage.end(1)
    await stage.end(4)
    await stage.end(5)
    assert [row[0] for row in await user.fetch("SELECT jobs FROM fairway.begun")] == [[1, 2, 3]]
    await stage.commit(news=[told("a")])
    await begin_at_once(stage, 9)
    other = PostgresStore(dsn)
    await other.open()
    await other.elect(1, "other", "n2", "", NOW)
    assert {one.arrival.job for one in await other.live_attempts()} == {2, 3, 9}
    there = Stage(other)
    there.term = 2
    await other.commit(2, "other", Batch(begins=[Begin([6], "w2", "w2", NOW)]), [], NOW)
    assert {one.arrival.job for one in await other.live_attempts()} == {2, 3, 6, 9}
    await other.commit(2, "other", Batch(ends=[an_end(2), an_end(3), an_end(9)]), [], NOW)
    assert [row[0] for row in await user.fetch("SELECT jobs FROM fairway.begun")] == [[6]]
    await other.close()


# --- plans -----------------------------------------------------------------------------------------------
LARGE = {"job", "ended"}


def walks(plan: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the nodes of a plan that read a large table, or an index of it, from end to end."""
    table = plan.get("Relation Name") or plan.get("Index Name", "").partition("_")[0]
    is_scan = plan["Node Type"].endswith("Scan") and table in LARGE
    found = [plan] if is_scan and not (plan.get("Index Cond") or plan.get("Recheck Cond")) else []
    return found + [walk for part in plan.get("Plans", []) for walk in walks(part)]


@pytest.mark.parametrize("name", sorted(queries_of("fairway")))
async def test_a_plan_made_while_the_table_was_empty_goes_by_the_key(stage: Stage, name: str) -> None:
    """A leader keeps its plans: one that reads a small table from end to end would do so with millions."""
    store = stage.store
    assert isinstance(store, PostgresStore)
    text = queries_of("fairway")[name]
    count = max(map(int, re.findall(r"\$(\d+)", text)), default=0)
    values = f"({', '.join(['NULL'] * count)})" if count else ""
    async with store._urgent.writing() as connection:
        await connection.execute(f"PREPARE kept AS {text}")
        plan = await connection.fetchval(f"EXPLAIN (FORMAT JSON) EXECUTE kept{values}")
        await connection.execute("DEALLOCATE kept")
    assert not walks(json.loads(plan)[0]["Plan"]), plan
    assert '"Hash Join"' not in plan, plan


@pytest.mark.parametrize("name", ["end_jobs", "end_each", "begin_jobs", "begin_each"])
async def test_few_that_run_are_not_gone_through_for_each_that_ends(stage: Stage, name: str) -> None:
    """A planner that knows how few rows run is tempted to compare all of those with all that is asked for."""
    store = stage.store
    assert isinstance(store, PostgresStore)
    await stage.submit(*(new_job(number) for number in range(1, 601)))
    await stage.begin(1, 2)
    text = queries_of("fairway")[name]
    count = max(map(int, re.findall(r"\$(\d+)", text)))
    many = "'{1,2,3}', '{1,1,1}'" if "jobs" in name else "'{1,2,3}', NULL"
    async with store._urgent.writing() as connection:
        await connection.execute(f"ANALYZE fairway.job; PREPARE kept AS {text}")
        values = ", ".join([many, *["NULL"] * (count - 2)])
        plan = "\n".join(row[0] for row in await connection.fetch(f"EXPLAIN EXECUTE kept({values})"))
        await connection.execute("DEALLOCATE kept")
    assert re.search(r"job_pkey on job j.*\n\s*Index Cond: \(+id", plan), plan


async def test_first_begins_go_the_short_way_and_later_ones_the_long_way(stage: Stage) -> None:
    await stage.commit(Submission([new_job(7), new_job(8)]), news=[told("a")])
    begins = [Begin([number], "w1-a", "w1", NOW, "acme/emails", "app.send") for number in (7, 8)]
    first = await stage.commit(begins=begins)
    assert [(one.job, one.attempt, one.payload) for one in first.begun] == [
        (7, 1, new_job(7).payload),
        (8, 1, new_job(8).payload),
    ]
    assert len(await stage.store.live_attempts()) == 2
    await stage.commit(returns=[Return(7, 1, "w1-a", NOW, NOW, 1, 0, (), None)])
    again = await stage.commit(begins=begins[:1])
    assert [(one.job, one.attempt, one.tries) for one in again.begun] == [(7, 2, 1)]
    with pytest.raises(Deposed):
        await stage.commit(begins=begins[1:])  # it runs already
    assert [one.event.attempt for one in await stage.store.events_after(first.number or 0, 9)][-1:] == [2]


async def test_taking_a_key_whose_time_is_over_makes_the_leader_wait_for_nobody(
    stage: Stage, user: Any
) -> None:
    hour = Extras(unique_for=3600.0)
    late = NOW + 3600 * SECOND
    await stage.run(new_job(1, unique="k", extras=hour), new_job(2, unique="l", extras=hour))
    async with user.transaction():
        jobs = [new_job(3, unique="k"), new_job(4, unique="l"), new_job(5, unique="m")]
        await insert_submissions(user, queries_of("fairway"), [Submission(jobs)], late)
        # The ended job's old key is in the open transaction: it counts as taken, and the rest goes on.
        receipt = await asyncio.wait_for(stage.commit(revives=[Revive(1, late, late)], now=late), 30)
        assert receipt.revived == []
        await asyncio.wait_for(stage.store.tidy(late, 1e9), 30)
        with pytest.raises(Conflict) as refused:
            await stage.store.submit([Submission([new_job(6, unique="k")])], late)
        assert refused.value.code == "unique_pending"
    [accepted] = await stage.store.submit([Submission([new_job(7, unique="k")])], late)
    assert accepted.ids == [3]


async def test_one_who_comes_too_late_for_an_old_key_locks_nothing(stage: Stage, user: Any, dsn: str) -> None:
    """Two want a key whose time is over. The second waits for the first, gets nothing and holds nothing."""
    late = NOW + 3600 * SECOND
    await stage.run(new_job(1, unique="k", extras=Extras(unique_for=3600.0)))
    other = await asyncpg.connect(dsn, timeout=10)
    first, second = user.transaction(), other.transaction()
    await first.start()
    await second.start()
    sql = queries_of("fairway")
    await insert_submissions(user, sql, [Submission([new_job(2, unique="k")])], late)
    waiting = asyncio.create_task(
        insert_submissions(other, sql, [Submission([new_job(3, unique="k")])], late)
    )
    await until_locked(user)
    await first.commit()
    inserted = await asyncio.wait_for(waiting, 30)
    assert inserted.accepted[0].ids == [2]
    # The second transaction is still open; the leader begins the job and ends it all the same.
    await asyncio.wait_for(stage.begin(2), 30)
    await asyncio.wait_for(stage.end(2, unique="k"), 1.5)
    assert await stage.store.find_claim("acme/emails", "k", late) is None
    await second.rollback()
    await other.close(timeout=5)


async def test_newer_jobs_that_come_at_once_form_a_chain(stage: Stage, dsn: str) -> None:
    stores = [PostgresStore(dsn) for _ in range(4)]
    for store in stores:
        await store.open()

    async def replace_often(store: PostgresStore, first: int) -> None:
        for number in range(first, first + 15):
            job = new_job(number, unique="k", replace=True)
            [accepted] = await store.submit([Submission([job])], NOW)
            assert accepted.ids == [number]

    await asyncio.gather(*(replace_often(store, 100 * index) for index, store in enumerate(stores, 1)))
    for store in stores:
        await store.close()
    jobs = await stage.waiting()
    found = await stage.store.find_jobs(jobs)
    before = {job.extras.replaces for job in found if job.extras is not None}
    assert len(jobs) == 60 and len(before) == 59  # each but the first replaces another one
    last = set(jobs) - before
    assert sorted(one.job for one in await stage.store.find_replaced(jobs)) == sorted(before)
    assert {await stage.store.find_claim("acme/emails", "k", NOW)} == last


async def until_locked(connection: Any) -> None:
    """Wait until somebody waits for a lock."""
    for _ in range(1000):
        if await connection.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"):
            return
        await asyncio.sleep(0.01)
    raise TimeoutError("nobody waits")


async def test_a_doorbell_that_cannot_be_reached_keeps_nobody_waiting(stage: Stage) -> None:
    store = stage.store
    assert isinstance(store, PostgresStore)
    store.listen()
    store._ear = Connections("postgresql://fairway@127.0.0.1:1/none", 1, direct=True)  # nobody is there
    await stage.submit(new_job(1))
    assert [one.job.job for one in await store.take_arrivals(0)] == [1]
    await stage.submit(new_job(2))
    taken = await store.take_arrivals(1)
    assert [one.job.job for one in taken][-1] == 2
    receipt = await stage.commit(begins=[Begin([1], "worker-1", "w", NOW)])
    assert [one.job for one in receipt.begun] == [1]
