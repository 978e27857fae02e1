"""Submitting inside the caller's own transaction on PostgreSQL, with every library callers may come with."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from typing import Any

import asyncpg
import psycopg
import pytest
import sqlalchemy

import fairway
from fairway.errors import Conflict, InvalidRequest
from fairway.stores.postgres.sql import channel_of
from fairway.stores.postgres.store import PostgresStore
from tests.client.postgres_callers import CALLERS, Caller, Psycopg
from tests.postgres import shared_server

NOBODY = "http://127.0.0.1:1"


class Undo(Exception):
    """What a caller raises to roll back."""


@pytest.fixture(scope="module")
def empty_dsn() -> str:
    """A database without a scheduler."""
    return asyncio.run(shared_server().make_empty_database())


@pytest.fixture(scope="module")
def prepared_dsn() -> str:
    """A database with a scheduler, beside a table of the caller's own."""
    dsn = shared_server().new_database()

    async def prepare() -> None:
        store = PostgresStore(dsn)
        await store.open()
        await store.close()

    asyncio.run(prepare())
    ask(dsn, "CREATE TABLE orders (id integer)")
    return dsn


@pytest.fixture
def dsn(prepared_dsn: str) -> str:
    """The same, with nothing in it."""
    ask(prepared_dsn, "TRUNCATE fairway.job, fairway.arrival, fairway.claim, orders")
    ask(prepared_dsn, "UPDATE fairway.beat SET asleep = true")
    return prepared_dsn


@pytest.fixture(params=CALLERS)
def library(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def caller(library: str, dsn: str) -> Iterator[Caller]:
    caller = CALLERS[library](dsn)
    yield caller
    caller.close()


@pytest.fixture
def send(dsn: str) -> Iterator[Any]:
    yield from task_on(fairway.App(database=dsn))


def task_on(app: fairway.App) -> Iterator[Any]:
    @app.task(name="mail.send", queue="acme")
    def send(to: str) -> int:
        return len(to)

    yield send
    app.close()


def ask(dsn: str, sql: str) -> list[Any]:
    """Run one statement on a connection of our own."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        cursor = connection.execute(sql)
        return cursor.fetchall() if cursor.description else []


def stored(dsn: str) -> tuple[int, int, int]:
    """Count jobs, arrivals for the leader, and the caller's own rows."""
    tables = ("fairway.job", "fairway.arrival", "orders")
    jobs, arrivals, orders = (ask(dsn, f"SELECT count(*) FROM {table}")[0][0] for table in tables)
    return jobs, arrivals, orders


def order(caller: Caller) -> None:
    caller.execute("INSERT INTO orders VALUES (1)")


def test_the_job_exists_if_the_caller_commits(send: Any, caller: Caller, dsn: str) -> None:
    with caller.transaction():
        order(caller)
        handle = caller.submit(send, "a")
        assert stored(dsn) == (0, 0, 0)
    assert stored(dsn) == (1, 1, 1)
    assert handle.refresh().details["args"] == ["a"]


def test_the_job_is_stored_as_it_was_asked_for(send: Any, caller: Caller) -> None:
    wanted = {"queue": "a/b", "flow": "100%s $1 ü", "priority": -3, "tags": ["gpu"], "unique": "k\\'\"{,}"}
    with caller.transaction():
        task = send.options(
            **wanted, max_attempts=7, delay="1h", concurrency=2, deadline="2035-01-01T00:00:00Z"
        )
        handle = caller.submit(task, 'x\\"%\x00')
    details = handle.refresh().details
    assert {name: details[name] for name in wanted} == wanted
    assert (details["max_attempts"], details["deadline"]) == (7, "2035-01-01T00:00:00.000000Z")
    assert (details["state"], details["args"]) == ("scheduled", ['x\\"%\x00'])


def test_nothing_is_left_if_the_caller_rolls_back(send: Any, caller: Caller, dsn: str) -> None:
    with pytest.raises(Undo), caller.transaction():
        order(caller)
        caller.submit(send.options(unique="k"), "a")
        raise Undo
    assert stored(dsn) == (0, 0, 0)
    assert ask(dsn, "SELECT count(*) FROM fairway.claim") == [(0,)]


def test_nothing_is_left_of_a_savepoint(send: Any, caller: Caller, dsn: str) -> None:
    with caller.transaction():
        order(caller)
        with pytest.raises(Undo), caller.transaction():
            caller.submit(send, "a")
            raise Undo
    assert stored(dsn) == (0, 0, 1)


def test_a_queues_setting_makes_payloads_keys(send: Any, caller: Caller, dsn: str) -> None:
    settings = b'{"unique": true}'.hex()
    ask(dsn, f"INSERT INTO fairway.queue VALUES ('set', '\\x{settings}', 1) ON CONFLICT DO NOTHING")
    task = send.options(queue="set/emails", unique_for="1h")
    with caller.transaction():
        first, second = caller.submit(task, "a"), caller.submit(task, "a")
    assert first.id == second.id
    assert stored(dsn) == (1, 1, 0)
    with pytest.raises(InvalidRequest, match="without connection="), caller.transaction():
        caller.submit(task.options(replace=True), "a")


def test_a_key_whose_time_is_over_is_taken(send: Any, caller: Caller, dsn: str) -> None:
    with caller.transaction():
        first = caller.submit(send.options(unique="k", unique_for="1h"), "a")
    ask(dsn, "UPDATE fairway.claim SET over = true, until = 1")
    with caller.transaction():
        second, third = (caller.submit(send.options(unique="k"), "b") for _ in range(2))
    assert first.id != second.id == third.id


def test_equal_unique_keys_are_one_job(send: Any, caller: Caller, dsn: str) -> None:
    task = send.options(unique="k")
    with caller.transaction():
        first, second = caller.submit(task, "a"), caller.submit(task, "b")
    with caller.transaction():
        third = caller.submit(task, "c")
    assert first.id == second.id == third.id
    assert stored(dsn) == (1, 1, 0)


def test_a_connection_that_commits_by_itself_is_refused(send: Any, library: str, dsn: str) -> None:
    caller = CALLERS[library](dsn, autocommit=True)
    with pytest.raises(Conflict, match="BEGIN first") as raised:
        caller.submit(send, "a")
    caller.close()
    assert raised.value.code == "no_transaction"
    assert stored(dsn) == (0, 0, 0)


def test_another_database_is_refused(library: str, empty_dsn: str) -> None:
    caller = CALLERS[library](empty_dsn)
    [task] = task_on(fairway.App(url=NOBODY))
    with pytest.raises(Conflict, match="has no scheduler 'fairway'") as raised, caller.transaction():
        caller.submit(task, "a")
    caller.close()
    assert raised.value.code == "other_database"


def test_another_scheduler_is_not_written_to(caller: Caller, dsn: str) -> None:
    [task] = task_on(fairway.App(database=f"{dsn}?scheduler=other"))
    with pytest.raises(Conflict, match="has no scheduler 'other'"), caller.transaction():
        caller.submit(task, "a")
    assert stored(dsn) == (0, 0, 0)


def test_blocking_and_awaiting_are_not_mixed_up(send: Any, caller: Caller, dsn: str) -> None:
    with caller.transaction(), pytest.raises(InvalidRequest, match=r"use `(await task.a|task.)submit"):
        caller.submit_the_wrong_way(send, "a")
    assert stored(dsn) == (0, 0, 0)


def test_an_app_on_a_file_is_refused(caller: Caller, dsn: str) -> None:
    [task] = task_on(fairway.App(database="sqlite:///jobs.db"))
    with pytest.raises(Conflict, match="the App on a file"), caller.transaction():
        caller.submit(task, "a")


def heard(caller: Caller, send: Any, dsn: str) -> list[str]:
    """Return what the leader hears of one submit, up to a mark that is sent behind its commit."""

    async def listen() -> list[str]:
        connection, said = await asyncpg.connect(dsn), asyncio.Queue[str]()
        await connection.add_listener(channel_of("fairway"), lambda *told: said.put_nowait(told[-1]))
        await asyncio.to_thread(submit_and_mark)
        texts = [await asyncio.wait_for(said.get(), 10)]
        while texts[-1] != "mark":
            texts.append(await asyncio.wait_for(said.get(), 10))
        await connection.close()
        return texts

    def submit_and_mark() -> None:
        with caller.transaction():
            caller.submit(send, "a")
        ask(dsn, f"NOTIFY {channel_of('fairway')}, 'mark'")

    return asyncio.run(listen())


def test_a_sleeping_leader_is_woken_by_the_commit(send: Any, dsn: str) -> None:
    caller = Psycopg(dsn)
    assert heard(caller, send, dsn) == ["", "mark"]
    ask(dsn, "UPDATE fairway.beat SET asleep = false")
    assert heard(caller, send, dsn) == ["mark"]
    caller.close()


def test_an_equal_key_in_an_open_transaction_is_waited_for_as_the_caller_says(send: Any, dsn: str) -> None:
    first, second = Psycopg(dsn), Psycopg(dsn)
    with first.transaction():
        first.submit(send.options(unique="k"), "a")
        with pytest.raises(psycopg.errors.LockNotAvailable), second.transaction():
            second.execute("SET LOCAL lock_timeout = '20ms'")
            second.submit(send.options(unique="k"), "b")
    first.close(), second.close()
    assert stored(dsn) == (1, 1, 0)


def test_psycopg_opens_a_transaction_by_itself(send: Any, dsn: str) -> None:
    caller = Psycopg(dsn)
    caller.submit(send, "a")
    caller.connection.rollback()
    assert stored(dsn) == (0, 0, 0)
    caller.submit(send, "a")
    caller.connection.commit()
    assert stored(dsn) == (1, 1, 0)
    caller.close()


def test_other_databases_of_sqlalchemy_are_refused(send: Any) -> None:
    connection = sqlalchemy.create_engine("sqlite://").connect()
    with connection, pytest.raises(InvalidRequest, match=r"is sqlite\+pysqlite"):
        send.submit("a", connection=connection)


def test_no_other_library_is_needed(dsn: str) -> None:
    program = f"""
    import sys
    for name in ("asyncpg", "sqlalchemy", "django", "apsw"):
        sys.modules[name] = None
    import psycopg, fairway
    app = fairway.App(url={NOBODY!r})
    task = app.task(name="mail.send")(lambda: None)
    with psycopg.connect({dsn!r}) as connection:
        app.submit(task.job(), connection=connection)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True, timeout=60)
    assert stored(dsn) == (1, 1, 0)
