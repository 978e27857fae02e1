"""A whole node whose advice fails at every turn: no leader ends, every job does, and people are told.

And one whose core fails on a call: the third leader, be it another process, refuses it.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NoReturn

import httpx
import pytest

from fairway.core import eta, explain
from fairway.core import events as happened
from fairway.core.eta import Forecasts
from fairway.core.model import Moment
from fairway.core.numbers import NumberBook
from fairway.core.queue import Queue
from fairway.core.scheduler import Core
from fairway.node.app import Node, NodeOptions
from tests.integration.worker_world import eventually
from tests.postgres import shared_server
from tests.running import CODE

SECONDS = 30.0
TRUE = {"work": {"adapter": "command", "run": [["true"]]}}

#: Each part, and where an error is planted for it.
PLANTED: dict[str, list[tuple[Any, str]]] = {
    "forecast": [(Forecasts, "sample"), (Forecasts, "began"), (eta, "expect")],
    "position": [(Queue, "ahead_of")],
    "explanation": [(explain, "_branch"), (explain, "_line")],
    "numbers": [(NumberBook, name) for name in ("arrived", "began", "ended", "of_branch", "figures")],
}


def boom(*args: Any, **more: Any) -> NoReturn:
    raise ZeroDivisionError("planted")


@asynccontextmanager
async def running(address: str, **options: Any) -> AsyncIterator[tuple[Node, httpx.AsyncClient]]:
    """A node in this process, with its API on a port."""
    node = Node(NodeOptions(address, listen="127.0.0.1:0", leader_ttl=2.0, **options))
    await node.start()
    try:
        await node.until_leading(SECONDS)
        async with httpx.AsyncClient(base_url=f"{node.url}/v1", timeout=SECONDS) as client:
            yield node, client
    finally:
        await node.stop()


async def doctor(node: Node, folder: Path) -> list[dict[str, str]]:
    """Return what `fairway doctor` finds."""
    line = [sys.executable, "-m", "fairway", "doctor", "--json", "--database", f"sqlite:///{folder}/f.db"]
    environment = os.environ | {"FAIRWAY_URL": node.url, "PYTHONPATH": CODE}
    done = await asyncio.to_thread(
        subprocess.run, line, env=environment, capture_output=True, timeout=60, check=False
    )
    findings: list[dict[str, str]] = json.loads(done.stdout)["findings"]
    return findings


async def all_ended(client: httpx.AsyncClient, jobs: list[str]) -> None:
    async with asyncio.timeout(60):
        for job in jobs:
            while (await client.get(f"/jobs/{job}", params={"wait": "20s"})).json()["state"] != "succeeded":
                pass


async def test_no_leader_ends_by_its_advice_and_people_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(f"sqlite:///{tmp_path}/f.db", slots=4) as (node, client):
        for owner, name in (place for places in PLANTED.values() for place in places):
            monkeypatch.setattr(owner, name, boom)
        await client.patch("/queues/fair", json={"discipline": "sfq"})
        await client.patch("/queues/shut", json={"paused": True})
        waits = (await client.post("/jobs", json=TRUE | {"queue": "shut"})).json()["id"]
        jobs = []
        for number in range(6):
            many = [TRUE | {"queue": "fair", "flow": f"f{index % 3}"} for index in range(20)]
            jobs += (await client.post("/jobs/bulk", json={"jobs": many})).json()["ids"]
            jobs.append((await client.post("/jobs", json=TRUE | {"queue": "plain"})).json()["id"])
            for path in (f"/jobs/{waits}", f"/jobs/{jobs[-1]}", "/queues", "/queues/fair", "/jobs"):
                assert (await client.get(path)).status_code == 200, (number, path)
        await all_ended(client, jobs)
        shown = (await client.get(f"/jobs/{waits}")).json()
        assert (shown["waiting"], shown["position"], shown["eta"]) == (None, None, None)
        assert shown["state"] == "queued"
        queue = (await client.get("/queues/fair")).json()
        assert (queue["rates"], queue["begun"], queue["waiting"]) == (None, None, 0)
        page = (await client.get(f"{node.url}/metrics")).text
        assert f"fairway_jobs_succeeded_total {len(jobs)}.0" in page
        for part in PLANTED:
            [line] = [
                one
                for one in page.splitlines()
                if one.startswith(f'fairway_advisory_errors_total{{part="{part}"')
            ]
            assert float(line.rpartition(" ")[2]) > 0
        told = [one for one in await doctor(node, tmp_path) if one["check"] == "advice"]
        assert {one["status"] for one in told} == {"warn"}
        for part in PLANTED:
            assert any(
                f"the {part} failed" in one["found"] and "test_advice.py:" in one["found"] for one in told
            )
        assert (await client.get("/cluster")).json()["term"] == 1
        logged = [record for record in caplog.records if record.msg.startswith("advice failed")]
        assert sorted(record.part for record in logged) == sorted(PLANTED)  # type: ignore[attr-defined]


async def test_what_is_advice_and_nothing_else_says_that_it_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(f"sqlite:///{tmp_path}/f.db", worker=False) as (node, client):
        await client.patch("/queues/q", json={"limit": 5})
        await client.post("/jobs", json=TRUE | {"queue": "q"})
        monkeypatch.setattr("fairway.node.desk.foresee", boom)
        monkeypatch.setattr("fairway.node.desk.demand", boom)
        for path in ("/queues/q/-/next", "/demand"):
            answer = await client.get(path)
            assert (answer.status_code, answer.json()["code"]) == (500, "no_advice")
        troubles = (await client.get("/cluster/troubles")).json()["advisory"]
        assert {one["part"]: one["count"] for one in troubles} == {"position": 1, "demand": 1}
        assert [one["found"] for one in await doctor(node, tmp_path) if one["check"] == "calls"] == [
            "no leader ended on a call"
        ]


@pytest.fixture(params=["sqlite", "postgres"])
async def address(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/f.db"
        return
    dsn = await shared_server().make_database()
    yield dsn
    await shared_server().drop_database(dsn)


async def test_a_call_that_ended_two_leaders_is_refused_by_another_process_too(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    absorb = Core.absorb

    def broken(core: Core, event: happened.CoreEvent, now: Moment) -> None:
        absorb(core, event, now)
        if isinstance(event, happened.Submitted) and event.arrivals[0].flow == "bad":
            raise ZeroDivisionError("planted")

    poison = TRUE | {"queue": "q", "flow": "bad"}
    async with running(address, worker=False) as (node, client):
        await client.patch(
            "/queues/q", json={"limit": 5}
        )  # a queue that is known: submits ride with the leader
        monkeypatch.setattr(Core, "absorb", broken)
        for term in (1, 2):
            assert node.engine is not None and node.engine.reign.term == term
            answer = await client.post("/jobs", json=poison, headers={"Idempotency-Key": "k"})
            assert answer.status_code == 503, answer.text
            await eventually(lambda term=term: node.engine is not None and node.engine.reign.term > term)
        await refuses(client, poison)
        assert node.engine.reign.term == 3
    async with running(address, worker=False) as (node, client):  # knows it from the database only
        await refuses(client, poison)
        assert (await client.post("/jobs", json=poison | {"flow": "good"})).status_code == 201
        told = [one for one in await doctor(node, tmp_path) if one["check"] == "calls"]
        assert [one["status"] for one in told] == ["warn"]
        assert "submit of 1 job to queue 'q' ended 2 leaders" in told[0]["found"]
        assert "it is refused until" in told[0]["advice"]
        assert "fairway_poison_calls_refused_total 1.0" in (await client.get(f"{node.url}/metrics")).text


async def refuses(client: httpx.AsyncClient, job: dict[str, Any]) -> None:
    answer = await client.post("/jobs", json=job, headers={"Idempotency-Key": "another"})
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (422, "poison_call")
    assert "ZeroDivisionError: planted" in problem["detail"]
    assert (await client.get("/jobs")).json()["total"] in (0, 1)
