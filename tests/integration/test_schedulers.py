"""Several schedulers: strangers to each other, in one process behind one listener, on either database."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from typing import Any

import httpx
import pytest

import fairway
from tests.integration.cluster_world import RunningWorker, cluster, make_node, until
from tests.postgres import shared_server
from tests.running import ROOT, RunningNode

TRUE = {"adapter": "command", "run": [["true"]]}
BOTH = ("--scheduler", "day", "--scheduler", "night")


@pytest.fixture(params=["sqlite", "postgres"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database."""
    return shared_server().new_database() if request.param == "postgres" else f"sqlite:///{tmp_path}/jobs.db"


def part_of(node: RunningNode, name: str) -> RunningNode:
    """Return the same process as the users of one of its schedulers see it."""
    part = copy(node)
    part.url = f"{node.url}/{name}"
    part.http = httpx.Client(base_url=part.url, timeout=30)
    return part


@contextmanager
def hosting(node: RunningNode, leading: bool = True) -> Iterator[tuple[RunningNode, RunningNode]]:
    """Start a node that hosts both; yield its parts."""
    node.start()
    day, night = part_of(node, "day"), part_of(node, "night")
    try:
        for part in (day, night):
            part.until_ready(leading=leading)
            if not leading:
                until(lambda part=part: cluster(part)["link"] == "up", f"{part.url} has a link")
        yield day, night
    finally:
        node.__exit__()
        day.http.close()
        night.http.close()


def paths(part: RunningNode) -> list[str]:
    """Return which queues there are."""
    return [queue["path"] for queue in part.http.get("/v1/queues").json()["queues"]]


def workers(part: RunningNode) -> Any:
    """Return which workers there are."""
    return part.http.get("/v1/workers").json()["workers"]


def test_two_schedulers_in_one_process_are_strangers(tmp_path: Path, address: str) -> None:
    with hosting(make_node(tmp_path, "n", address, *BOTH, "--slots", "1")) as (day, night):
        mine, theirs = day.submit(work=TRUE, queue="mine"), night.submit(work=TRUE, queue="theirs")
        assert day.job(mine, wait="20s")["state"] == "succeeded"
        assert night.job(theirs, wait="20s")["state"] == "succeeded"
        assert night.http.get(f"/v1/jobs/{mine}").status_code == 404
        assert day.http.get(f"/v1/jobs/{theirs}").status_code == 404
        assert (day.counts(""), night.counts("")) == ([1], [1])
        assert (paths(day), paths(night)) == (["mine"], ["theirs"])
        assert workers(day)[0]["incarnation"] != workers(night)[0]["incarnation"]


def test_a_process_that_comes_back_finds_the_jobs_of_both(tmp_path: Path, address: str) -> None:
    with hosting(make_node(tmp_path, "n", address, *BOTH, "--no-worker")) as parts:
        ids = [part.submit(work=TRUE, queue=f"q{number}") for number, part in enumerate(parts)]
    with hosting(make_node(tmp_path, "again", address, *BOTH)) as parts:
        ended = [part.job(job, wait="20s") for part, job in zip(parts, ids, strict=True)]
        assert [(job["queue"], job["state"]) for job in ended] == [("q0", "succeeded"), ("q1", "succeeded")]
        assert [part.counts("") for part in parts] == [[1], [1]]


def test_the_pages_at_the_root_are_about_all_of_them(tmp_path: Path) -> None:
    node = make_node(tmp_path, "n", f"sqlite:///{tmp_path}/jobs.db", *BOTH, "--no-worker")
    with hosting(node) as (day, night):
        day.submit(work=TRUE)
        root = node.http
        assert root.get("/healthz").text == "ok\n"
        assert root.get("/readyz").text == "day: ready\nnight: ready\n"
        assert set(root.get("/").json()["apis"]) == {"day", "night"}
        lines = root.get("/metrics").text.splitlines()
        assert 'fairway_jobs_waiting{scheduler="day"} 1.0' in lines
        assert 'fairway_jobs_waiting{scheduler="night"} 0.0' in lines
        assert any(line.startswith("fairway_http_requests_total{") and '"day"' in line for line in lines)
        types = [line for line in lines if line.startswith("# TYPE")]
        assert len(types) == len(set(types))
        assert "fairway_jobs_waiting 1.0" in day.http.get("/metrics").text.splitlines()
        assert night.http.get("/readyz").text == "ready\n"


def test_without_a_scheduler_in_the_path_nothing_is_found(tmp_path: Path) -> None:
    node = make_node(tmp_path, "n", f"sqlite:///{tmp_path}/jobs.db", *BOTH, "--no-worker")
    with hosting(node):
        for path in ("/v1/jobs", "/noon/v1/jobs", "/%64ay/v1/jobs", "/day%2Fv1/jobs", "/daylight"):
            answer = node.http.get(path)
            assert (answer.status_code, answer.json()["code"]) == (404, "not_found"), path
            assert "/day, /night" in answer.json()["detail"]
        assert node.http.post("/metrics").status_code == 405


def test_everything_that_takes_a_url_keeps_the_prefix(tmp_path: Path, address: str) -> None:
    node = make_node(tmp_path, "n", address, *BOTH, "--no-worker")
    with hosting(node) as (day, night), RunningWorker(tmp_path, night.url) as worker:
        answer = night.http.post("/v1/jobs", json={"work": TRUE})
        assert answer.headers["location"] == f"/night/v1/jobs/{answer.json()['id']}"
        assert night.http.get("/openapi.json").headers["location"] == "/night/v1/openapi.json"
        assert night.http.get("/v1/openapi.json").json()["servers"] == [{"url": "/night"}]
        command = [sys.executable, "-m", "fairway", "submit", "--wait", "--", "echo", "hello"]
        env = os.environ | {"FAIRWAY_URL": night.url, "PYTHONPATH": str(ROOT)}
        said = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, cwd=ROOT)
        assert said.returncode == 0, said.stderr + worker.said()
        app = fairway.App(url=night.url + "/")
        assert app.get(answer.json()["id"]).state == "succeeded"
        app.close()
        assert (cluster(night)["leader_url"], cluster(day)["leader_url"]) == (night.url, day.url)
        assert workers(day) == []
        assert (day.counts(""), night.counts("")) == ([0], [2])


def test_a_standby_in_another_process_relays_for_both(tmp_path: Path, address: str) -> None:
    first = make_node(tmp_path, "a", address, *BOTH, "--no-worker")
    second = make_node(tmp_path, "b", address, *BOTH, "--slots", "1")
    with hosting(first) as leaders, hosting(second, leading=False) as standbys:
        for number, (leader, standby) in enumerate(zip(leaders, standbys, strict=True)):
            changed = standby.http.put(f"/v1/queues/q{number}", json={"limit": number + 1})
            assert changed.status_code == 200, changed.text
            assert paths(leader) == [f"q{number}"]
            answer = standby.http.post("/v1/jobs", json={"work": TRUE, "queue": f"q{number}"})
            place = f"/{standby.url.rpartition('/')[2]}/v1/jobs/{answer.json()['id']}"
            assert answer.headers["location"] == place
            ended = leader.job(answer.json()["id"], wait="20s")
            assert (ended["state"], ended["worker"]) == ("succeeded", "b")
        first.kill()
        for part in standbys:
            part.until_ready()
            assert part.counts("") == [1]
            assert part.job(part.submit(work=TRUE), wait="20s")["state"] == "succeeded"


def test_a_node_of_one_scheduler_joins_a_process_of_two(tmp_path: Path, address: str) -> None:
    first = make_node(tmp_path, "a", address, *BOTH, "--no-worker")
    alone = make_node(tmp_path, "b", address, "--scheduler", "night", "--slots", "1")
    with hosting(first) as (_, night):
        alone.start()
        try:
            alone.until_ready(leading=False)
            until(lambda: cluster(alone)["link"] == "up", "it has a link")
            assert cluster(alone)["leader_url"] == night.url
            answer = alone.http.post("/v1/jobs", json={"work": TRUE, "queue": "q"})
            assert answer.headers["location"] == f"/v1/jobs/{answer.json()['id']}"
            assert night.job(answer.json()["id"], wait="20s")["worker"] == "b"
            assert paths(alone) == ["q"]
            first.kill()
            alone.until_ready()
        finally:
            alone.__exit__()
