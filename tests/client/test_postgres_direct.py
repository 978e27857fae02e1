"""The App on PostgreSQL itself: with nobody leading, and with a real node on the same database."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

import fairway
from fairway.client.direct import OFTEN
from fairway.client.new_jobs import Likenesses, new_jobs
from fairway.errors import InvalidRequest, NoLeader, NotFound, StoreUnusable
from fairway.places import PostgresAddress, postgres_address, without_password
from tests.postgres import shared_server
from tests.running import RunningNode


@pytest.fixture(scope="module")
def dsn() -> str:
    return shared_server().new_database()


@pytest.fixture
def send(dsn: str) -> Iterator[Any]:
    app = fairway.App(database=dsn)

    @app.task(name="mail.send", queue="acme", max_attempts=3)
    def send(to: str) -> int:
        return len(to)

    yield send
    app.close()


def test_a_job_is_stored_as_it_was_asked_for(send: Any) -> None:
    handle = send.options(flow="u7", priority=3).submit("a")
    details = send.app.get(handle.id).details
    wanted = {"task": "mail.send", "args": ["a"], "queue": "acme", "flow": "u7", "priority": 3}
    assert {name: details[name] for name in wanted} == wanted
    assert (details["state"], details["max_attempts"]) == ("queued", 3)


def test_the_same_without_blocking(send: Any) -> None:
    async def run() -> None:
        handle = await send.options(delay="1h").asubmit("a")
        assert (await handle.arefresh()).state == "scheduled"
        with pytest.raises(TimeoutError, match="it is scheduled"):
            await handle.aresult(timeout=0.02)
        with pytest.raises(NoLeader):
            await handle.acancel()

    asyncio.run(run())


def test_the_newest_job_takes_the_key(send: Any) -> None:
    newest = send.options(unique="newest", replace=True, unique_for="1h")
    first, second = newest.submit("a"), newest.submit("b")
    assert first.id != second.id
    assert send.options(unique="newest").submit("c").id == second.id


def test_equal_payloads_are_one_job(send: Any) -> None:
    many = send.app.submit_many(send.options(unique=True).job(to) for to in ("a", "b", "a"))
    assert many[0].id == many[2].id != many[1].id


def test_equal_unique_keys_are_one_job(send: Any) -> None:
    first, second = (send.options(unique="k").submit(to) for to in ("a", "b"))
    assert first.id == second.id
    assert second.details["args"] == ["a"]


def test_many_jobs(send: Any) -> None:
    handles = send.app.submit_many((send.job(str(number)) for number in range(25)), batch=10)
    assert len({handle.id for handle in handles}) == 25
    assert handles[24].refresh().details["args"] == ["24"]


def test_several_threads_submit_at_once(send: Any) -> None:
    found: list[str] = []
    threads = [threading.Thread(target=lambda: found.append(send.submit("a").id)) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(set(found)) == 20


def test_what_needs_the_leader_says_so(send: Any) -> None:
    with pytest.raises(NoLeader, match="fairway up"):
        send.submit("a").cancel()


def test_a_job_that_is_not_there(send: Any) -> None:
    with pytest.raises(NotFound):
        send.app.get("0123456789abc")


def test_a_closed_app_opens_again(send: Any) -> None:
    first = send.submit("a")
    send.app.close()
    assert send.app.get(first.id).state == "queued"


def test_a_forked_child_submits_by_itself_and_the_parent_goes_on(send: Any) -> None:
    send.submit("a")
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if send.submit("b").state == "queued" else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert send.submit("c").state == "queued"


def test_the_environment_names_the_database(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FAIRWAY_URL", raising=False)
    monkeypatch.setenv("FAIRWAY_DATABASE", dsn)
    app = fairway.App()
    task = app.task(name="mail.send")(lambda: None)
    assert app.submit(task.job()).state == "queued"
    app.close()


def test_schedulers_of_one_database_are_strangers(send: Any, dsn: str) -> None:
    other = fairway.App(database=f"{dsn}?scheduler=other")
    with pytest.raises(NotFound):
        other.get(send.submit("a").id)
    other.close()


@pytest.mark.parametrize("scheduler", ["Other", "a.b", "a;b", "pg_x"])
def test_a_scheduler_must_have_a_plain_name(dsn: str, scheduler: str) -> None:
    app = fairway.App(database=f"{dsn}?scheduler={scheduler}")
    with pytest.raises(InvalidRequest, match="cannot name a scheduler"):
        app.get("0123456789abc")
    app.close()


def test_a_database_that_does_not_exist(dsn: str) -> None:
    app = fairway.App(database=f"{dsn}_not")
    with pytest.raises(StoreUnusable, match="no such database"):
        app.get("0123456789abc")
    app.close()


@pytest.mark.parametrize(
    ("address", "found"),
    [
        ("postgresql://h/d", ("postgresql://h/d", "fairway")),
        ("postgres://u:p@h1,h2:5433/d?scheduler=night", ("postgres://u:p@h1,h2:5433/d", "night")),
        (
            "postgresql://h/d?sslmode=require&scheduler=a&application_name=x%26y",
            ("postgresql://h/d?sslmode=require&application_name=x%26y", "a"),
        ),
        ("postgresql:///d?host=/run&scheduler=", ("postgresql:///d?host=/run", "fairway")),
    ],
)
def test_addresses(address: str, found: tuple[str, str]) -> None:
    assert postgres_address(address) == PostgresAddress(*found)


def test_a_password_is_never_shown() -> None:
    address = "postgresql://me:secret@a,b:1/jobs?password=secret"
    assert without_password(address) == "postgresql://me@a,b:1/jobs"
    assert "secret" not in repr(fairway.App(database=address))


# --- with a node -------------------------------------------------------------------------------------
TASKS = """
import fairway

app = fairway.App()

@app.task(name="add")
def add(a: int, b: int = 1) -> int:
    return a + b
"""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory, dsn: str) -> Iterator[RunningNode]:
    folder = tmp_path_factory.mktemp("node")
    (folder / "postgres_tasks.py").write_text(TASKS)
    path = {"PYTHONPATH": str(folder)}
    with RunningNode(folder, "--app", "postgres_tasks:app", "--slots", "2", env=path, address=dsn) as node:
        yield node


@pytest.fixture
def add(node: RunningNode, dsn: str) -> Iterator[Any]:
    app = fairway.App(database=dsn)

    @app.task(name="add")
    def add(a: int, b: int = 1) -> int:
        return a + b

    yield add
    app.close()


def test_a_value_comes_back(add: Any) -> None:
    assert add.submit(2, b=3).result(timeout=20) == 5


def test_a_value_is_awaited(add: Any) -> None:
    async def run() -> list[int]:
        handles = [await add.asubmit(number) for number in range(3)]
        return [await handle.aresult(timeout=20) for handle in handles]

    assert asyncio.run(run()) == [1, 2, 3]


def test_the_leader_takes_in_what_the_caller_commits(add: Any, dsn: str) -> None:
    with psycopg.connect(dsn) as connection:
        handle = add.submit(40, 2, connection=connection)
    assert handle.result(timeout=20) == 42


def test_the_leader_is_asked_for_what_only_it_can_do(add: Any) -> None:
    handle = add.options(delay="1h", queue="later").submit(1)
    assert handle.cancel().state == "cancelled"
    event = next(iter(add.app.events("queue:later", after="0.0")))
    assert event["job"] == handle.id


def sessions(dsn: str) -> int:
    with psycopg.connect(dsn) as connection:
        found = connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
            " AND pid <> pg_backend_pid()"
        ).fetchone()
    assert found is not None
    return int(found[0])


def test_loops_that_come_and_go_leave_no_connections_behind(send: Any, dsn: str) -> None:
    asyncio.run(send.asubmit("first"))
    before = sessions(dsn)
    for _ in range(5):
        asyncio.run(send.asubmit("x"))
    assert sessions(dsn) == before


def test_a_loop_that_asks_often_asks_itself_and_lets_go_when_told(send: Any, dsn: str) -> None:
    async def ask_often() -> None:
        for _ in range(2 * OFTEN):
            await send.asubmit("x")
        assert asyncio.get_running_loop() in send.app.channel._homes
        send.app.close()

    before = sessions(dsn)
    asyncio.run(ask_often())
    deadline = time.monotonic() + 10
    while sessions(dsn) > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert sessions(dsn) == before


def test_what_jobs_carried_is_not_kept(send: Any) -> None:
    likenesses = Likenesses()
    [job] = new_jobs([send.job("x" * 1000)], 1, likenesses)
    assert b"xxx" in job.payload
    assert b"xxx" not in repr(list(likenesses._known.values())).encode()
    [again] = new_jobs([send.job("y")], 2, likenesses)
    assert again._replace(id=job.id, payload=b"", run_at=1, created_at=1) == job._replace(payload=b"")


def test_half_a_character_in_an_option_is_refused(send: Any) -> None:
    with pytest.raises(InvalidRequest, match="half a character"):
        send.options(flow="\ud800").submit("x")
