"""A whole node whose advice fails at every turn: no leader ends, every job does, and people are told."""

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
from fairway.core.eta import Forecasts
from fairway.core.numbers import NumberBook
from fairway.core.queue import Queue
from fairway.node.app import Node, NodeOptions
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
    async with running(f"sqlite:///{tmp_path}/f.db", worker=False) as (_, client):
        await client.patch("/queues/q", json={"limit": 5})
        await client.post("/jobs", json=TRUE | {"queue": "q"})
        monkeypatch.setattr("fairway.node.desk.foresee", boom)
        monkeypatch.setattr("fairway.node.desk.demand", boom)
        for path in ("/queues/q/-/next", "/demand"):
            answer = await client.get(path)
            assert (answer.status_code, answer.json()["code"]) == (500, "no_advice")
        troubles = (await client.get("/cluster/troubles")).json()["advisory"]
        assert {one["part"]: one["count"] for one in troubles} == {"position": 1, "demand": 1}
