"""Schedules said in code: what is declared, what is refused, and what a node makes of it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

import fairway
from fairway.errors import Conflict, InvalidRequest
from fairway.node.app import Node, NodeOptions

SECONDS = 20.0


def make_app(**where: Any) -> tuple[fairway.App, Any]:
    app = fairway.App(**where)

    @app.task(name="report", queue="acme/reports", max_attempts=3)
    def report(region: str = "all") -> str:
        return region

    return app, report


def test_a_schedule_is_declared_with_the_tasks_own_options() -> None:
    app, report = make_app()
    assert app.schedule("0 6 * * *", zone="Europe/Berlin", overlap="skip", args=["eu"])(report) is report
    app.schedule(every=timedelta(minutes=5), name="often", jitter="3s")(report)
    first, second = (msgspec.json.decode(msgspec.json.encode(one.body)) for one in app.schedules.values())
    assert list(app.schedules) == ["report", "often"]
    job = {"task": "report", "args": ["eu"], "kwargs": {}, "queue": "acme/reports", "max_attempts": 3}
    assert first == {"cron": "0 6 * * *", "zone": "Europe/Berlin", "overlap": "skip", "job": job}
    assert second == {"every": 300.0, "jitter": 3.0, "job": {**job, "args": []}}


@pytest.mark.parametrize(
    ("cron", "options"),
    [
        (None, {}),
        ("0 6 * * *", {"every": 5}),
        ("6 o'clock", {}),
        ("0 6 * * *", {"zone": "Nowhere"}),
        (None, {"every": "soon"}),
        ("@daily", {"colour": 1}),
        ("@daily", {"name": "a b"}),
    ],
)
def test_a_mistake_is_refused_where_it_is_made(cron: str | None, options: dict[str, Any]) -> None:
    app, report = make_app()
    with pytest.raises(InvalidRequest):
        app.schedule(cron, **options)(report)
    assert app.schedules == {}


def test_wrong_arguments_doubled_names_and_plain_functions_are_refused() -> None:
    app, report = make_app()
    with pytest.raises(TypeError):
        app.schedule("@daily", kwargs={"colour": 1})(report)
    app.schedule("@daily")(report)
    with pytest.raises(Conflict):
        app.schedule("@hourly")(report)
    with pytest.raises(InvalidRequest, match=r"above @app\.task"):
        app.schedule("@hourly")(lambda: None)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def start() -> Node:
        node = Node(NodeOptions(f"sqlite:///{tmp_path}/f.db", listen="127.0.0.1:0", worker=False))
        await node.start()
        await node.until_leading(SECONDS)
        return node

    running = asyncio.run_coroutine_threadsafe(start(), loop).result(SECONDS)
    yield running
    asyncio.run_coroutine_threadsafe(running.stop(), loop).result(SECONDS)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(SECONDS)
    loop.close()


@pytest.mark.parametrize("how", ["url", "database"])
def test_schedules_are_applied_again_and_again(node: Node, how: str, tmp_path: Path) -> None:
    where = {"url": node.url} if how == "url" else {"database": f"sqlite:///{tmp_path}/f.db"}
    app, report = make_app(**where)
    app.schedule("0 6 * * *", zone="Europe/Berlin", kwargs={"region": "eu"})(report)
    [made] = app.apply_schedules()
    assert (made["name"], made["job"]["kwargs"], len(made["next"])) == ("report", {"region": "eu"}, 5)
    [again] = asyncio.run(app.aapply_schedules())
    assert again["created_at"] == made["created_at"] and again["next"] == made["next"]
    app.close()
