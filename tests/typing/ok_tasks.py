"""Right uses: mypy --strict has nothing to say about this file."""

from __future__ import annotations

import sqlite3
from collections.abc import Coroutine
from datetime import datetime, timedelta
from typing import Any, assert_type

import fairway

app = fairway.App()


@app.task
def plain(to: str, count: int = 1) -> int:
    return len(to) * count


@app.task(queue="acme/emails", max_attempts=5, timeout=30, delivery="at_least_once", tags=["gpu"])
def configured(to: str) -> list[datetime]:
    return []


@app.task
async def later(number: float, *, loud: bool = False) -> str:
    return f"{number}{loud}"


@app.task(name="chosen", backoff={"first": 1, "max": "1m"}, max_crashes=None)
async def later_configured() -> None:
    return None


def submits(connection: sqlite3.Connection) -> None:
    assert_type(plain("a"), int)
    assert_type(plain.submit("a"), fairway.Handle[int])
    assert_type(plain.submit("a", count=2).result(timeout=1), int)
    assert_type(configured.submit("a").result(), list[datetime])
    assert_type(
        plain.options(flow="u7", delay="5m", priority=3, concurrency=2).submit("b"), fairway.Handle[int]
    )
    assert_type(
        plain.options(at=datetime.now(), timeout=timedelta(seconds=3)).job("b"), fairway.JobRequest[int]
    )
    assert_type(plain.submit("a", connection=connection), fairway.Handle[int])
    assert_type(app.submit(plain.job("a"), connection=connection), fairway.Handle[int])
    assert_type(app.submit_many(plain.job(to) for to in "abc"), list[fairway.Handle[int]])
    assert_type(app.get("0123456789abc"), fairway.Handle[Any])
    first = plain.submit("a")
    assert_type(plain.options(after=[first, plain.job("b"), first.id]).job("c"), fairway.JobRequest[int])
    assert_type(app.group([plain.job("a")], then=later.job(1.5), name="g").result(), str)
    assert_type(app.group([plain.job("a")]).result(timeout=1), list[int])


async def awaits() -> None:
    coroutine: Coroutine[Any, Any, str] = later(1.5)
    assert_type(await coroutine, str)
    assert_type(later.submit(1.5), fairway.Handle[str])
    handle = await later.asubmit(1.5, loud=True)
    assert_type(await handle.aresult(), str)
    await (await later_configured.asubmit()).aresult()


def inside_a_task() -> None:
    fairway.current().progress(0.4, "halfway")
    raise fairway.RetryAfter(30)
