"""Jobs after others and groups, as Python users write them: here straight on the database file."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fairway
from fairway.errors import InvalidRequest
from tests.client.test_direct import file  # noqa: F401  (a fixture)


@pytest.fixture
def app(file: Path) -> Iterator[fairway.App]:  # noqa: F811
    app = fairway.App(database=f"sqlite:///{file}")

    @app.task(name="mail.send")
    def send(to: str) -> int:
        return len(to)

    @app.task(name="mail.report")
    def report() -> str:
        return "done"

    yield app
    app.close()


def after(handle: fairway.Handle[Any]) -> list[str]:
    return list(handle.refresh().details["after"])


def test_a_job_after_a_handle_an_id_or_both(app: fairway.App) -> None:
    send = app.tasks["mail.send"]
    first, second = send.submit("a"), send.submit("b")
    third = send.options(after=[first, second.id], if_failed="run", group="g").submit("c")
    assert third.state == "blocked"
    assert after(third) == [first.id, second.id]
    assert (third.details["if_failed"], third.details["group"]) == ("run", "g")
    assert after(send.options(after=third).submit("d")) == [third.id]


def test_requests_of_one_call_wait_for_each_other_over_batches_too(app: fairway.App) -> None:
    send = app.tasks["mail.send"]
    first, second = send.job("a"), send.job("b")
    third = send.options(after=[first, second]).job("c")
    last = send.options(after=[third, first]).job("d")
    for batch in (10, 2, 1):
        handles = app.submit_many([first, second, third, last], batch=batch)
        ids = [handle.id for handle in handles]
        assert [after(handle) for handle in handles] == [[], [], ids[:2], [ids[2], ids[0]]]


def test_a_circle_is_refused_and_nothing_is_inserted(app: fairway.App) -> None:
    send = app.tasks["mail.send"]
    held: list[Any] = []
    first = send.options(after=held).job("a")
    second = send.options(after=[first]).job("b")
    first.options["after"].append(second)  # type: ignore[index]
    with pytest.raises(InvalidRequest, match="circle"):
        app.submit_many([first, second])
    with pytest.raises(InvalidRequest, match="no job"):
        send.options(after=["0000000000000"]).submit("a")
    assert app.submit_many([send.job("x")])[0].state == "queued"


def test_what_cannot_be_waited_for(app: fairway.App) -> None:
    send = app.tasks["mail.send"]
    with pytest.raises(InvalidRequest, match="handles, job requests and ids"):
        send.options(after=[7])  # type: ignore[list-item]
    with pytest.raises(InvalidRequest, match="not submitted with it"):
        send.options(after=[send.job("a")]).submit("b")


def test_a_group_is_one_call_and_its_callback_comes_after_all(app: fairway.App) -> None:
    send, report = app.tasks["mail.send"], app.tasks["mail.report"]
    members = [send.job(str(number)) for number in range(5)]
    members.append(send.options(after=members[:2]).job("after two of them"))
    group = app.group(members, then=report.job(), name="night-7")
    ids = [handle.id for handle in group.jobs]
    assert group.then is not None and len(ids) == 6
    assert after(group.then) == ids
    assert after(group.jobs[5]) == ids[:2]
    assert group.then.details["if_failed"] == "run"
    assert {handle.refresh().details["group"] for handle in [*group.jobs, group.then]} == {"night-7"}
    with pytest.raises(TimeoutError):
        group.wait(timeout=0.01)


def test_a_group_without_callback_of_the_same_request_and_of_none(app: fairway.App) -> None:
    send, report = app.tasks["mail.send"], app.tasks["mail.report"]
    job = send.job("same")
    group = app.group([job] * 100, then=report.options(if_failed="fail").job())
    assert group.then is not None
    assert after(group.then) == [handle.id for handle in group.jobs]
    assert (group.then.details["if_failed"], group.then.details["group"]) == ("fail", None)
    assert app.group([job, job]).then is None
    alone = app.group([], then=report.job())
    assert alone.then is not None and alone.then.state == "queued"
    with pytest.raises(InvalidRequest, match="1 to 10000"):
        app.group([])


def test_the_same_without_blocking(app: fairway.App) -> None:
    async def run() -> None:
        send = app.tasks["mail.send"]
        group = await app.agroup([send.job("a")], then=send.job("b"))
        assert group.then is not None
        assert (await group.then.arefresh()).state == "blocked"
        with pytest.raises(TimeoutError):
            await group.aresult(timeout=0.01)

    asyncio.run(run())


def test_inside_a_transaction_of_the_caller(file: Path) -> None:  # noqa: F811
    app = fairway.App()

    @app.task(name="mail.send")
    def send(to: str) -> int:
        return len(to)

    with sqlite3.connect(file) as connection:
        first = send.submit("a", connection=connection)
        second = send.options(after=[first]).submit("b", connection=connection)
        with pytest.raises(InvalidRequest, match="no job"):
            send.options(after=["0000000000000"]).submit("c", connection=connection)
    rows = connection.execute("SELECT state FROM job ORDER BY id").fetchall()
    connection.close()
    assert rows == [(0,), (6,)] and second.details["state"] == "blocked"
