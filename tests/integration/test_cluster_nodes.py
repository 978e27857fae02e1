"""Several real nodes on one database: any of them serves anything, and none of them is needed."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cluster_world import (
    HeldJob,
    RunningWorker,
    cluster,
    make_node,
    running,
    until,
)
from tests.postgres import TempPostgres, shared_server
from tests.running import RunningNode

TRUE = {"adapter": "command", "run": [["true"]]}


@pytest.fixture(params=["sqlite", "postgresql"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The address of a new database, of each kind."""
    yield f"sqlite:///{tmp_path}/shared.db" if request.param == "sqlite" else shared_server().new_database()


def workers(node: RunningNode) -> dict[str, Any]:
    """Return the workers by name, as a node shows them."""
    return {worker["name"]: worker for worker in node.http.get("/v1/workers").json()["workers"]}


def facts_of(node: RunningNode, worker: str) -> dict[str, Any]:
    """Return what a worker knows."""
    facts: dict[str, Any] = node.http.get(f"/v1/workers/{worker}").json()["facts"]
    return facts


def until_up(node: RunningNode, held: int) -> None:
    """Wait until the worker is connected and holds so many attempts."""
    until(
        lambda: (w := workers(node).get("w")) and (w["state"], w["running"]) == ("up", held),
        "the worker is up",
    )


def test_a_node_that_does_not_lead_serves_everything(tmp_path: Path, address: str) -> None:
    first, second = nodes = [make_node(tmp_path, name, address, "--no-worker") for name in ("a", "b")]
    with running(nodes):
        call = second.http.request
        job = second.submit(work=TRUE, queue="acme/mail")
        shown = second.job(job)
        assert shown["waiting"]["reason"] == "no_worker" and shown["position"] == 0
        listed = call("GET", "/v1/jobs", params={"q": "queue:acme/*"}).json()["jobs"]
        assert [one["waiting"]["reason"] for one in listed] == ["no_worker"]
        assert call("PUT", "/v1/queues/acme", json={"limit": 3}).json()["settings"]["limit"] == 3
        assert call("PATCH", "/v1/queues/acme/mail", json={"paused": True}).status_code == 200
        tree = {queue["path"]: queue for queue in call("GET", "/v1/queues").json()["queues"]}
        assert tree["acme/mail"]["waiting"] == 1 and tree["acme"]["settings"]["limit"] == 3
        assert call("GET", "/v1/queues/acme/mail/-/next").json()["jobs"][0]["id"] == job
        assert call("PATCH", f"/v1/jobs/{job}", json={"priority": 7}).json()["priority"] == 7
        assert call("DELETE", f"/v1/jobs/{job}").json()["state"] == "cancelled"
        assert call("DELETE", f"/v1/jobs/{job}").json()["state"] == "cancelled"
        assert call("POST", f"/v1/jobs/{job}/retry").json()["generation"] == 1
        assert call("POST", f"/v1/jobs/{job}/resolve", json={"succeeded": True}).status_code == 409
        assert call("GET", "/v1/workers").json() == {"workers": []}
        assert call("GET", "/v1/workers/nobody").json()["code"] == "not_found"
        many = call("POST", "/v1/jobs/bulk", json={"jobs": [{"work": TRUE}] * 3}).json()["ids"]
        assert [first.job(one)["state"] for one in many] == ["queued"] * 3
        assert call("PUT", "/v1/queues/acme", json={"limit": -1}).status_code == 422
        assert second.http.get("/v1/cluster").json()["leader"] == "a"


def test_a_submit_elsewhere_has_its_place_key_and_location(tmp_path: Path, address: str) -> None:
    nodes = [make_node(tmp_path, name, address, "--no-worker") for name in ("a", "b")]
    with running(nodes) as (first, second):
        body, key = {"work": TRUE}, {"idempotency-key": "once"}
        one = second.http.post("/v1/jobs", json=body, headers=key)
        again = first.http.post("/v1/jobs", json=body, headers=key)
        assert (one.status_code, again.status_code) == (201, 200)
        assert one.json()["id"] == again.json()["id"]
        assert one.headers["location"] == f"/v1/jobs/{one.json()['id']}"
        other = second.http.post("/v1/jobs", json={"work": TRUE, "queue": "q"}, headers=key)
        assert other.json()["code"] == "idempotency_conflict"
        large = {"jobs": [{"work": TRUE, "queue": "bulk"}] * 2000}  # more than is passed on
        assert len(second.http.post("/v1/jobs/bulk", json=large).json()["ids"]) == 2000
        until(
            lambda: first.http.get("/v1/queues/bulk").json()["waiting"] == 2000, "the leader knows them all"
        )


def test_a_marked_call_is_never_passed_on(tmp_path: Path) -> None:
    nodes = [make_node(tmp_path, name, f"sqlite:///{tmp_path}/f.db", "--no-worker") for name in ("a", "b")]
    with running(nodes) as (_, second):
        answer = second.http.get("/v1/queues", headers={"fairway-relayed": "x"})
        assert (answer.status_code, answer.json()["code"]) == (503, "no_leader")
        assert int(answer.headers["retry-after"]) >= 1
        assert second.http.get("/v1/queues").status_code == 200


def test_every_node_brings_a_worker_that_works_for_the_leader(tmp_path: Path, address: str) -> None:
    first = make_node(tmp_path, "a", address, "--no-worker")
    second = make_node(tmp_path, "b", address, "--slots", "2")
    with running([first, second]):
        job = first.submit(work=TRUE)
        ended = second.job(job, wait="20s")
        assert (ended["state"], ended["worker"]) == ("succeeded", "b")
        first.kill()
        second.until_ready()  # it leads now, and so does its worker go on
        assert second.job(second.submit(work=TRUE), wait="20s")["worker"] == "b"


@pytest.mark.parametrize("killed", ["joined", "leader"])
def test_a_worker_keeps_its_job_when_a_node_dies(tmp_path: Path, address: str, killed: str) -> None:
    names = ("leader", "joined", "third")
    nodes = [make_node(tmp_path, name, address, "--no-worker") for name in names]
    with running(nodes) as (leader, joined, third), RunningWorker(tmp_path, joined.url) as worker:
        until_up(joined, held=0)
        held = HeldJob(tmp_path, joined, delivery="at_most_once")
        until_up(leader, held=1)
        until(lambda: facts_of(leader, "w")["nodes"] == 3, "the worker knows three nodes")
        (joined if killed == "joined" else leader).kill()
        survivor = third
        until_up(survivor, held=1)
        after = survivor.submit(work=TRUE)
        assert survivor.job(after, wait="20s")["state"] == "succeeded", worker.said()
        held.let_go()
        ended = survivor.job(held.id, wait="30s")
        assert (ended["state"], ended["attempt"]) == ("succeeded", 1), (ended, worker.said())
        assert held.lines() == ["start", "end"]


def test_a_frozen_leader_is_replaced_and_its_worker_goes_on(tmp_path: Path) -> None:
    address = shared_server().new_database()
    nodes = [make_node(tmp_path, name, address, "--no-worker") for name in ("a", "b")]
    with running(nodes) as (first, second), RunningWorker(tmp_path, second.url):
        until_up(second, held=0)
        held = HeldJob(tmp_path, second)
        assert first.process is not None
        first.process.send_signal(signal.SIGSTOP)
        try:
            second.until_ready()
            until_up(second, held=1)
            held.let_go()
            ended = second.job(held.id, wait="30s")
        finally:
            first.process.send_signal(signal.SIGCONT)
        assert (ended["state"], ended["attempt"]) == ("succeeded", 1)
        assert held.lines() == ["start", "end"]
        until(lambda: not cluster(first)["leading"], "the thawed one has seen that its term is over")
        until(lambda: first.http.get("/v1/queues").status_code == 200, "it asks the new leader")


def test_a_node_that_shall_not_lead_never_does(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path}/f.db"
    first, second = (
        make_node(tmp_path, "a", address, "--no-worker"),
        make_node(tmp_path, "b", address, "--no-worker", "--no-lead"),
    )
    with running([first, second]):
        roles = {node["name"]: (node["role"], node["link"]) for node in cluster(second)["nodes"]}
        assert roles == {"a": ("leads", None), "b": ("does not lead", "up")}
        assert cluster(first)["nodes"] == cluster(second)["nodes"]
        first.kill()
        answer = until(lambda: _refused(second), "nobody leads")
        assert answer.json()["code"] == "no_leader" and "retry-after" in answer.headers
        second.submit(work=TRUE)  # taken all the same
        first.start()
        first.until_ready()
        assert cluster(first)["term"] == 2
        until(lambda: second.http.get("/v1/queues").status_code == 200, "the new leader is asked")


def _refused(node: RunningNode) -> Any:
    answer = node.http.get("/v1/queues")
    return answer if answer.status_code == 503 else None


def test_a_node_without_a_link_works_through_the_store(tmp_path: Path, address: str) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # bound, not listening: whoever calls there is refused
        wrong = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        first = make_node(tmp_path, "a", address, "--advertise", wrong)
        second = make_node(tmp_path, "b", address, "--no-worker")
        with first:
            second.start()
            try:
                second.until_ready(leading=False)
                view = cluster(second)
                assert (view["leader_url"], view["link"]) == (wrong, "store only")
                assert second.http.get("/v1/queues").status_code == 503
                assert second.job(second.submit(work=TRUE), wait="20s")["state"] == "succeeded"
                links = {node["name"]: node["link"] for node in cluster(first)["nodes"]}
                assert links == {"a": None, "b": "store only"}
            finally:
                second.stop()


def test_nodes_and_workers_of_one_token_find_each_other(tmp_path: Path, address: str) -> None:
    nodes = [make_node(tmp_path, name, address, "--no-worker", FAIRWAY_TOKEN="s3cret") for name in ("a", "b")]
    for node in nodes:
        node.http.headers["authorization"] = "Bearer s3cret"
    with running(nodes) as (first, second):
        assert second.http.get("/v1/queues").status_code == 200
        assert second.http.get("/v1/queues", headers={"authorization": "Bearer other"}).status_code == 401
        with RunningWorker(tmp_path, second.url, FAIRWAY_TOKEN="s3cret"):
            assert first.job(second.submit(work=TRUE), wait="20s")["state"] == "succeeded"
        (other := tmp_path / "stranger").mkdir()
        with RunningWorker(other, second.url, FAIRWAY_TOKEN="") as stranger:
            until(lambda: "wants a token: set FAIRWAY_TOKEN" in stranger.said(), "it is turned away")
            assert workers(first) == {}


def test_a_node_that_loses_its_database_comes_back_by_itself(tmp_path: Path) -> None:
    server = TempPostgres(durable=True).start()
    try:
        node = make_node(tmp_path, "a", server.dsn)
        with node:
            assert node.job(node.submit(work=TRUE), wait="20s")["state"] == "succeeded"
            server.kill()
            answer = until(lambda: _down(node), "it says that the database is away")
            assert int(answer.headers["retry-after"]) >= 1
            assert node.http.get("/healthz").status_code == 200
            server.start()
            node.until_ready()
            assert node.job(node.submit(work=TRUE), wait="20s")["state"] == "succeeded"
    finally:
        server.stop()


def _down(node: RunningNode) -> Any:
    answer = node.http.post("/v1/jobs", json={"work": TRUE})
    return answer if answer.status_code == 503 else None
