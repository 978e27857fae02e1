"""What is special about a file: it outlives its process, others write to it, and it may be anything."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import apsw
import pytest

from fairway.core.lifecycle import State
from fairway.core.plan import Begin, SaveQueue
from fairway.errors import StoreUnavailable, StoreUnusable
from fairway.store import Submission
from fairway.stores.sqlite import SqliteStore, connection
from fairway.stores.sqlite.bell import bell_path, ring
from fairway.stores.sqlite.inserting import insert_submission
from fairway.stores.sqlite.migrate import NEWEST
from fairway.stores.sqlite.sql import SQL
from tests.conformance.stage import NOW, SECOND, Stage, an_end, events_of, new_job, told, where

ROOT = Path(__file__).parents[2]


@pytest.fixture
async def file(tmp_path: Path) -> Path:
    return tmp_path / "fairway.db"


@pytest.fixture
async def stage(file: Path) -> AsyncIterator[Stage]:
    store = SqliteStore(file)
    await store.open()
    yield await Stage(store).lead()
    await store.close()


def store_of(stage: Stage) -> SqliteStore:
    assert isinstance(stage.store, SqliteStore)
    return stage.store


async def start_inserter(file: Path, first: int, count: int, library: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.conformance.inserter", str(file), str(first), str(count), library,
        stdout=subprocess.PIPE, cwd=ROOT,
    )  # fmt: skip


async def test_everything_is_there_after_opening_again(stage: Stage, file: Path) -> None:
    await stage.submit(new_job(1), new_job(2), new_job(3), key="r")
    await stage.begin(1, 2)
    await stage.commit(ends=[an_end(1)], news=[told("job.ended", 1)], queues=[SaveQueue("q", b"{}", NOW)])
    before = sorted(await stage.store.find_jobs([1, 2, 3]), key=lambda job: job.id)
    await stage.store.close()
    again = SqliteStore(file)
    await again.open()
    assert sorted(await again.find_jobs([1, 2, 3]), key=lambda job: job.id) == before
    events = [one.event for one in await again.events_after(0, -1)]
    assert [event.kind for event in events] == ["job.begun", "job.begun", "job.ended"]
    assert events[-1:] == events_of([told("job.ended", 1)])
    assert await again.queue_rows() == {"q": b"{}"}
    assert [taken.job.job for taken in await again.take_arrivals(0)] == [3]
    leader = await again.find_leadership()
    assert leader and (leader.term, leader.holder) == (stage.term, "leader")
    [accepted] = await again.submit([Submission([new_job(4)])], NOW)
    assert accepted.ids == [4]
    await again.close()


async def test_what_was_answered_survives_kill_9(stage: Stage, file: Path) -> None:
    process = await start_inserter(file, 1, 100_000, "apsw")
    assert process.stdout
    answered = [int(await asyncio.wait_for(process.stdout.readline(), 30)) for _ in range(20)]
    process.kill()
    await asyncio.wait_for(process.wait(), 30)
    assert len(await stage.store.find_jobs(answered)) == 20
    assert fetch(file, "PRAGMA integrity_check") == [("ok",)]


@pytest.mark.parametrize("library", ["apsw", "sqlite3"])
async def test_another_process_inserts_while_the_leader_commits(
    stage: Stage, file: Path, library: str
) -> None:
    process = await start_inserter(file, 1, 200, library)
    number = 1000
    while process.returncode is None:
        number += 1
        begin = Begin([number], "w1-a", "w1", NOW)
        await stage.commit(Submission([new_job(number)]), begins=[begin], news=[told("job.begun", number)])
        await asyncio.sleep(0)
    assert process.stdout
    answered = {int(line) for line in (await process.stdout.read()).split()}
    assert process.returncode == 0
    assert answered == set(await stage.arrived()) == set(await stage.waiting()) == set(range(1, 51))
    assert len(await stage.store.live_attempts()) == number - 1000


async def test_a_users_transaction_that_rolls_back_leaves_nothing(stage: Stage, file: Path) -> None:
    other = apsw.Connection(str(file))
    other.execute("BEGIN")
    insert_submission(other.execute, Submission([new_job(1, unique="k")]), NOW)
    other.execute("ROLLBACK")
    other.close()
    assert await stage.waiting() == await stage.arrived() == []
    assert (await stage.submit(new_job(2, unique="k"))).ids == [2]


def fetch(file: Path, sql: str, values: tuple[object, ...] = ()) -> list[tuple[object, ...]]:
    other = apsw.Connection(str(file))
    try:
        return list(other.execute(sql, values))
    finally:
        other.close()


async def open_and_close(file: Path) -> None:
    store = SqliteStore(file)
    try:
        await store.open()
    finally:
        await store.close()


async def test_opening_twice_changes_nothing(stage: Stage, file: Path) -> None:
    before = fetch(file, "SELECT * FROM meta ORDER BY key"), fetch(file, "SELECT sql FROM sqlite_schema")
    await open_and_close(file)
    assert before == (
        fetch(file, "SELECT * FROM meta ORDER BY key"),
        fetch(file, "SELECT sql FROM sqlite_schema"),
    )
    assert ("version", NEWEST) in before[0]


async def test_many_may_open_a_new_file_at_once(file: Path) -> None:
    stores = [SqliteStore(file) for _ in range(4)]
    await asyncio.gather(*(store.open() for store in stores))
    leaders = await asyncio.gather(*(store.elect(0, "x", "x", "", NOW) for store in stores))
    await asyncio.gather(*(store.close() for store in stores))
    assert len([leader for leader in leaders if leader]) == 1
    assert len(fetch(file, "SELECT * FROM meta")) == 3


def test_nobody_gives_up_while_others_make_the_file_too(tmp_path: Path) -> None:
    """SQLite itself does, now and then: it does not wait for the lock it needs to change the journal."""
    gate = threading.Barrier(8)

    def open_with_others(file: Path) -> None:
        gate.wait(30)
        connection.open_writer(file).close()

    with ThreadPoolExecutor(8) as threads:
        for number in range(60):
            list(threads.map(open_with_others, [tmp_path / f"{number}.db"] * 8))


async def test_a_file_of_a_newer_version_is_refused_and_untouched(stage: Stage, file: Path) -> None:
    fetch(file, f"UPDATE meta SET value = {NEWEST + 1} WHERE key = 'version'")
    with pytest.raises(StoreUnusable, match=f"version {NEWEST + 1}.*knows {NEWEST}"):
        await open_and_close(file)
    assert fetch(file, "SELECT value FROM meta WHERE key = 'version'") == [(NEWEST + 1,)]


@pytest.mark.parametrize(
    "schema", ["CREATE TABLE users (id)", "CREATE TABLE meta (a, b, c)", "CREATE TABLE meta (key, value)"]
)
async def test_a_file_of_something_else_is_refused_and_untouched(file: Path, schema: str) -> None:
    fetch(file, schema)
    with pytest.raises(StoreUnusable, match="is not a Fairway database") as caught:
        await open_and_close(file)
    assert "\n" not in str(caught.value)
    assert fetch(file, "SELECT sql FROM sqlite_schema") == [(schema,)]


def test_a_file_that_is_no_database_is_refused_and_untouched(tmp_path: Path) -> None:
    letters = tmp_path / "letters.txt"
    letters.write_bytes(b"these are my letters\n" * 1000)
    with pytest.raises(StoreUnusable, match="no SQLite database"):
        asyncio.run(open_and_close(letters))
    assert letters.read_bytes() == b"these are my letters\n" * 1000


async def test_a_place_where_no_file_can_be_is_the_worlds_fault(tmp_path: Path) -> None:
    (tmp_path / "fairway.db").mkdir()
    with pytest.raises(StoreUnavailable, match=r"fairway\.db"):
        await open_and_close(tmp_path / "fairway.db")


async def test_a_closed_store_says_so(file: Path) -> None:
    store = SqliteStore(file)
    with pytest.raises(StoreUnavailable, match="not open"):
        await store.find_job(1)
    await store.open()
    await store.close()
    with pytest.raises(StoreUnavailable, match="closed"):
        await store.find_job(1)


async def test_a_leader_kept_waiting_is_late_not_deposed(stage: Stage, file: Path) -> None:
    await stage.submit(new_job(1))
    other = apsw.Connection(str(file))
    other.execute("BEGIN IMMEDIATE")
    late = asyncio.create_task(stage.begin(1))
    assert await stage.states(1) == [State.QUEUED]  # reads do not wait for the lock
    other.execute("COMMIT")
    other.close()
    assert [begun.attempt for begun in await late] == [1]


async def test_a_lock_held_too_long_makes_the_store_unavailable(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "BUSY_SECONDS", 0.05)
    store = SqliteStore(file)
    await store.open()
    stage = await Stage(store).lead()
    other = apsw.Connection(str(file))
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailable, match="write lock"):
        await stage.submit(new_job(1))
    other.execute("ROLLBACK")
    other.close()
    assert (await stage.submit(new_job(1))).ids == [1]
    await store.close()


async def test_a_full_disk_makes_the_store_unavailable_and_leaves_nothing_half_done(
    stage: Stage, file: Path
) -> None:
    await stage.submit(new_job(1))
    pages = await store_of(stage)._write(lambda it: it.execute("PRAGMA page_count").fetchall()[0][0])
    await store_of(stage)._write(lambda it: it.execute(f"PRAGMA max_page_count = {pages}").fetchall())
    big = b'{"args":["' + b"x" * 100_000 + b'"]}'
    with pytest.raises(StoreUnavailable, match="full"):
        await stage.commit(
            Submission([new_job(2), new_job(3, payload=big)]), begins=[Begin([1], "w1-a", "w1", NOW)]
        )
    await store_of(stage)._write(lambda it: it.execute("PRAGMA max_page_count = 1000000").fetchall())
    assert await stage.store.find_jobs([2, 3]) == []
    assert await stage.states(1) == [State.QUEUED]
    assert [begun.attempt for begun in await stage.begin(1)] == [1]


async def test_events_are_bounded_by_their_size(file: Path) -> None:
    store = SqliteStore(file, event_bytes=20_000)
    await store.open()
    stage = await Stage(store).lead()
    for number in range(50):
        await stage.commit(news=[told("x" * 1000, number)])
    await store.tidy(NOW + SECOND, 3600)
    oldest, newest = await store.event_span()
    assert newest == 50 and 15 <= newest - oldest <= 20
    await store.close()


async def test_a_search_for_what_went_wrong_uses_its_index(stage: Stage, file: Path) -> None:
    plan = fetch(
        file, "EXPLAIN QUERY PLAN SELECT id FROM ended WHERE (state IN (3) AND state <> 2) ORDER BY id"
    )
    assert "ended_badly" in str(plan)
    await stage.run(new_job(1), state="failed")
    assert await stage.store.count(where("state", "failed"), NOW) == 1


async def test_live_attempts_are_found_without_reading_the_backlog(stage: Stage, file: Path) -> None:
    await stage.submit(*(new_job(number) for number in range(1, 4)))
    for name in ("live_attempts", "find_jobs"):
        values = ("[1]",) if name == "find_jobs" else ()
        plan = str(fetch(file, f"EXPLAIN QUERY PLAN {SQL[name]}", values))
        assert "SCAN job" not in plan and "SCAN ended" not in plan, plan


# --- the doorbell --------------------------------------------------------------------------------------
async def test_a_submit_of_another_store_rings_the_leaders_bell(stage: Stage, file: Path) -> None:
    leader = store_of(stage)
    assert leader.listen()
    other = SqliteStore(file)
    await other.open()
    await leader.wait_for_ring(0)
    waiting = asyncio.create_task(leader.wait_for_ring(30))
    await other.submit([Submission([new_job(1)])], NOW)
    assert await waiting
    assert await stage.arrived() == [1]
    await other.close()


async def test_one_who_cannot_ring_is_heard_by_asking(stage: Stage, file: Path) -> None:
    leader = store_of(stage)
    assert leader.listen()
    await leader.wait_for_ring(0)
    fetch(file, "INSERT INTO queue VALUES ('q', x'', 0)")
    assert await leader.wait_for_ring(0)
    assert not await leader.wait_for_ring(0)


async def test_the_leaders_own_commits_do_not_ring(stage: Stage) -> None:
    await stage.store.wait_for_ring(0)
    await stage.commit(queues=[SaveQueue("q", b"{}", NOW)])
    assert not await stage.store.wait_for_ring(0)


async def test_a_new_leader_takes_over_a_dead_ones_bell(stage: Stage, file: Path) -> None:
    bell_path(file).write_bytes(b"")
    leader, successor = store_of(stage), SqliteStore(file)
    assert leader.listen() and leader.listen()
    await successor.open()
    assert successor.listen()
    leader.stop_listening()
    assert bell_path(file).exists()  # the old leader leaves the new one's bell alone
    await successor.wait_for_ring(0)
    ring(file)
    assert await successor.wait_for_ring(30)
    await successor.close()
    assert not bell_path(file).exists()


async def test_a_path_too_long_for_a_bell_is_polled(tmp_path: Path) -> None:
    folder = tmp_path / ("d" * 100)
    folder.mkdir()
    leader, other = SqliteStore(folder / "fairway.db"), SqliteStore(folder / "fairway.db")
    await leader.open()
    await other.open()
    assert not leader.listen()
    await leader.wait_for_ring(0)
    waiting = asyncio.create_task(leader.wait_for_ring(30))
    await other.submit([Submission([new_job(1)])], NOW)
    assert await waiting
    await leader.close()
    await other.close()


def test_ringing_where_nobody_listens_is_no_error(tmp_path: Path) -> None:
    ring(tmp_path / "nobody.db")
