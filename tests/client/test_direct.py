"""The App on the database file itself, and inside the caller's own transaction."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

import fairway
from fairway.errors import Conflict, InvalidRequest, NoLeader, NotFound
from fairway.stores.sqlite.store import SqliteStore

#: What a leader writes when it is told `fairway queues set acme unique=true`.
KEYED = "INSERT INTO queue (path, settings, created_at) VALUES ('acme', x'{}', 1)".format(
    b'{"unique": true}'.hex()
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A database that a node has made, and that no library of this process has open."""
    path = tmp_path / "jobs.db"

    async def make() -> None:
        store = SqliteStore(path)
        await store.open()
        await store.close()

    asyncio.run(make())
    return path


@pytest.fixture
def send(file: Path) -> Iterator[fairway.Task[[str], int]]:
    app = fairway.App(database=f"sqlite:///{file}")

    @app.task(name="mail.send", queue="acme", max_attempts=3)
    def send(to: str) -> int:
        return len(to)

    yield send
    app.close()


def test_a_job_is_stored_as_it_was_asked_for(send: Any) -> None:
    handle = send.options(flow="u7", priority=3, deadline="2035-01-01T00:00:00Z").submit("a")
    details = send.app.get(handle.id).details
    assert {
        name: details[name] for name in ("task", "args", "kwargs", "queue", "flow", "priority", "state")
    } == {
        "task": "mail.send",
        "args": ["a"],
        "kwargs": {},
        "queue": "acme",
        "flow": "u7",
        "priority": 3,
        "state": "queued",
    }
    assert (details["max_attempts"], details["deadline"]) == (3, "2035-01-01T00:00:00.000000Z")


def test_the_same_without_blocking(send: Any) -> None:
    async def run() -> None:
        handle = await send.options(delay="1h").asubmit("a")
        assert (await handle.arefresh()).state == "scheduled"
        with pytest.raises(TimeoutError, match="it is scheduled"):
            await handle.aresult(timeout=0.02)
        with pytest.raises(NoLeader):
            await handle.acancel()

    asyncio.run(run())


def test_equal_payloads_are_one_job(send: Any) -> None:
    many = send.app.submit_many(send.options(unique=True).job(to) for to in ("a", "b", "a", "b", "c"))
    ids = [handle.id for handle in many]
    assert ids[0] == ids[2] and ids[1] == ids[3] and len(set(ids)) == 3
    assert send.options(unique=True).submit("a").id == ids[0]
    assert send.submit("a").id not in ids


def test_a_key_that_lasts_is_kept_with_its_job(send: Any) -> None:
    handle = send.options(unique="k", unique_for="1h").submit("a")
    assert send.app.get(handle.id).details["unique_for"] == 3600


def test_the_newest_job_takes_the_key(send: Any) -> None:
    newest = send.options(unique="k", replace=True, delay="5s")
    first, second = newest.submit("a"), newest.submit("b")
    assert first.id != second.id
    assert send.options(unique="k").submit("c").id == second.id


def test_a_queues_setting_makes_payloads_keys(send: Any, file: Path) -> None:
    connection = apsw.Connection(str(file))
    connection.execute(KEYED)
    connection.close()
    task = send.options(queue="acme/emails")
    first, second, other = task.submit("a"), task.submit("a"), task.submit("b")
    assert first.id == second.id != other.id
    task.options(replace=True).submit("a")
    with pytest.raises(InvalidRequest, match="needs a unique key"):
        send.options(queue="beta", unique_for=5).submit("a")


def test_equal_unique_keys_are_one_job(send: Any) -> None:
    first, second = (send.options(unique="k").submit(to) for to in ("a", "b"))
    assert first.id == second.id
    assert second.details["args"] == ["a"]


def test_many_jobs(send: Any) -> None:
    handles = send.app.submit_many((send.job(str(number)) for number in range(25)), batch=10)
    assert len({handle.id for handle in handles}) == 25
    assert handles[24].refresh().details["args"] == ["24"]


def test_waiting_ends_with_the_time(send: Any) -> None:
    with pytest.raises(TimeoutError, match=r"has not ended within 0\.02 s"):
        send.submit("a").result(timeout=0.02)


def test_what_needs_the_leader_says_so(send: Any) -> None:
    with pytest.raises(NoLeader, match="fairway up"):
        send.submit("a").cancel()


def test_a_job_that_is_not_there(send: Any) -> None:
    with pytest.raises(NotFound):
        send.app.get("0123456789abc")


def test_bad_specs_are_refused_as_a_node_would(send: Any) -> None:
    with pytest.raises(InvalidRequest, match="is not a queue path"):
        send.options(queue="a//b").submit("a")
    with pytest.raises(InvalidRequest, match="concurrency must be at least 1"):
        send.options(concurrency=0).submit("a")


def test_a_closed_app_opens_again(send: Any) -> None:
    first = send.submit("a")
    send.app.close()
    assert send.app.get(first.id).state == "queued"


def test_a_forked_child_submits_by_itself(send: Any) -> None:
    send.submit("a")
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if send.submit("b").state == "queued" else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("database", ["sqlite:///", "mysql://host/x"])
def test_what_is_no_database_is_refused(database: str) -> None:
    with pytest.raises(InvalidRequest):
        fairway.App(database=database).get("0123456789abc")


# --- inside the caller's own transaction -------------------------------------------------------------
@pytest.fixture(params=["sqlite3", "apsw"])
def connection(request: pytest.FixtureRequest, file: Path) -> Iterator[Any]:
    """A connection of the caller's, inside a transaction, with a table of the caller's own."""
    open_connection: Any = sqlite3.connect if request.param == "sqlite3" else apsw.Connection
    connection = open_connection(str(file))
    connection.execute("CREATE TABLE orders (id)")
    connection.execute("BEGIN")
    connection.execute("INSERT INTO orders VALUES (1)")
    yield connection
    connection.close()


def stored(connection: Any) -> tuple[int, int, int]:
    """Count jobs, arrivals for the leader, and the caller's own rows."""
    tables = ("job", "arrival", "orders")
    found = [next(iter(connection.execute(f"SELECT count(*) FROM {table}")))[0] for table in tables]
    return found[0], found[1], found[2]


def test_the_job_exists_if_the_caller_commits(send: Any, connection: Any) -> None:
    handle = send.submit("a", connection=connection)
    connection.execute("COMMIT")
    assert (handle.details["state"], stored(connection)) == ("queued", (1, 1, 1))


def test_the_job_does_not_exist_if_the_caller_rolls_back(send: Any, connection: Any) -> None:
    send.submit("a", connection=connection)
    connection.execute("ROLLBACK")
    assert stored(connection) == (0, 0, 0)


def test_a_job_cannot_replace_another_inside_a_transaction(send: Any, connection: Any) -> None:
    with pytest.raises(InvalidRequest, match="without connection=") as refused:
        send.options(unique="k", replace=True).submit("a", connection=connection)
    assert refused.value.field == "replace"
    connection.execute("COMMIT")
    assert stored(connection) == (0, 0, 1)


def test_a_queues_setting_makes_payloads_keys_inside_a_transaction(send: Any, connection: Any) -> None:
    connection.execute(KEYED)
    task = send.options(queue="acme/emails")
    first, second = (task.submit("a", connection=connection) for _ in range(2))
    assert first.id == second.id
    with pytest.raises(InvalidRequest, match="needs a unique key"):
        send.options(queue="beta", unique_for=5).submit("a", connection=connection)


def test_unique_keys_hold_inside_a_transaction(send: Any, connection: Any) -> None:
    first, second = (send.options(unique="k").submit("a", connection=connection) for _ in range(2))
    connection.execute("COMMIT")
    assert first.id == second.id
    assert stored(connection)[0] == 1


def test_a_connection_outside_a_transaction_is_refused(send: Any, file: Path) -> None:
    connection = sqlite3.connect(file, isolation_level=None)
    with pytest.raises(Conflict, match="BEGIN first"):
        send.submit("a", connection=connection)
    connection.close()


def test_python_opens_a_transaction_by_itself(send: Any, file: Path) -> None:
    connection = sqlite3.connect(file)
    connection.execute("CREATE TABLE orders (id)")
    send.submit("a", connection=connection)
    assert connection.in_transaction
    connection.rollback()
    assert stored(connection) == (0, 0, 0)
    connection.close()


def test_two_libraries_on_one_file_are_refused(send: Any, file: Path) -> None:
    connection = sqlite3.connect(file)
    handle = send.submit("a", connection=connection)
    connection.commit()
    with pytest.raises(Conflict, match=r"has opened .* with sqlite3; apsw beside it") as raised:
        handle.result(timeout=1)
    assert raised.value.code == "mixed_libraries"
    connection.close()


def test_and_the_other_way_round(send: Any, file: Path) -> None:
    send.submit("a")
    connection = sqlite3.connect(file)
    with pytest.raises(Conflict, match="with apsw; sqlite3 beside it"):
        send.submit("a", connection=connection)
    connection.close()


def test_an_apsw_connection_goes_with_the_app(send: Any, file: Path) -> None:
    connection = apsw.Connection(str(file))
    connection.execute("BEGIN")
    handle = send.submit("a", connection=connection)
    connection.execute("COMMIT")
    assert handle.state == "queued"
    connection.close()


def test_another_file_is_refused(send: Any, tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "other.db")
    with pytest.raises(Conflict, match=r"the connection is on .*other\.db"):
        send.submit("a", connection=connection)
    connection.close()


def test_a_file_without_a_scheduler_is_refused(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "other.db")
    app = fairway.App(url="http://127.0.0.1:1")
    task = app.task(name="mail.send")(lambda: None)
    with pytest.raises(Conflict, match="is not a Fairway database"):
        app.submit(task.job(), connection=connection)
    connection.close()


@pytest.mark.parametrize("connection", ["text", 3])
def test_what_is_no_connection_is_refused(send: Any, connection: Any) -> None:
    with pytest.raises(InvalidRequest, match="takes a sqlite3 or apsw connection"):
        send.submit("a", connection=connection)
