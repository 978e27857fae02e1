"""Turns, limits and refusals on a real node: submitted by HTTP, seen in what tasks wrote down."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import witness
from tests.acceptance.tenants import TASK, settle, submit
from tests.acceptance.watch import Watch
from tests.running import RunningNode


@pytest.fixture
def seen(tmp_path: Path) -> Path:
    return tmp_path / "witness"


@pytest.fixture
def node(tmp_path: Path, seen: Path) -> Iterator[RunningNode]:
    """A node with four slots."""
    env = {"FAIRWAY_TEST_WITNESS": str(seen)}
    with RunningNode(tmp_path, "--app", "tests.faults.tasks:app", "--slots", "4", env=env) as node:
        yield node


def test_a_flood_does_not_make_another_wait(node: RunningNode) -> None:
    """The next slot that is given back is the small one's, whatever the machine's pace."""
    with Watch(node) as watch:
        submit(node, "flood", 20_000, 0.2)
        job = submit(node, "other/small", 1, 0.2)[0]
        assert node.job(job, wait="20s")["state"] == "succeeded"
        watch.catch_up()
    told = [(event.kind, event.job) for event in watch.events]
    meanwhile = told[told.index(("job.submitted", job)) : told.index(("job.begun", job))]
    overtaken = sum(kind == "job.begun" for kind, _ in meanwhile)
    assert overtaken <= 1, f"{overtaken} jobs of the flood began while it waited"
    assert node.http.get("/v1/queues/flood").json()["waiting"] > 10_000, "there was no flood"


def test_flows_take_turns_in_the_order_that_was_foretold(node: RunningNode, seen: Path) -> None:
    settle(node, "fair", discipline="sfq", quantum=1, paused=True, limit=1)
    ids = submit(node, "fair", 30, 0.001, "ann") + submit(node, "fair", 3, 0.001, "bob")
    foretold = [job["id"] for job in node.http.get("/v1/queues/fair/-/next?n=100").json()["jobs"]]
    flows = [node.job(job)["flow"] for job in foretold[:6]]
    assert flows == ["ann", "bob"] * 3
    settle(node, "fair", paused=False)
    assert all(node.job(job, wait="20s")["state"] == "succeeded" for job in ids)
    starts = [line.job for line in witness.read(seen) if line.verb == "start"]
    assert starts == foretold


def test_a_rate_and_a_full_limit_delay_only_their_own(node: RunningNode, seen: Path) -> None:
    settle(node, "slow", rate="2/s", burst=1)
    settle(node, "full", limit=1)
    submit(node, "slow", 50, 0.01)
    submit(node, "full", 50, 0.5)
    ids = submit(node, "free", 200, 0.01)
    assert all(node.job(job, wait="20s")["state"] == "succeeded" for job in ids)
    waiting = node.http.get("/v1/jobs?q=queue:slow+state:queued&limit=1").json()["jobs"][0]
    assert node.job(waiting["id"])["waiting"]["reason"] == "rate"
    waiting = node.http.get("/v1/jobs?q=queue:full+state:queued&limit=1").json()["jobs"][0]
    assert node.job(waiting["id"])["waiting"]["reason"] == "limit"
    assert witness.most_at_once(witness.read(seen), "full", []) == 1


BAD_SETTINGS: list[tuple[dict[str, object], str]] = [
    ({"assured": 3, "limit": 2}, "assured"),
    ({"weight": 0}, "weight"),
    ({"weight": -1}, "weight"),
    ({"rate": "often"}, "rate"),
    ({"discipline": "magic"}, "discipline"),
    ({"burst": 3}, "burst"),
    ({"limit": -1}, "limit"),
    ({"colour": "red"}, "colour"),
]


def test_bad_settings_are_refused_with_the_reason_and_change_nothing(node: RunningNode) -> None:
    settle(node, "q", limit=7)
    for settings, field in BAD_SETTINGS:
        answer = node.http.patch("/v1/queues/q", json=settings)
        assert answer.status_code in (400, 422), answer.text
        assert field in answer.text
        assert node.http.get("/v1/queues/q").json()["settings"]["limit"] == 7
        assert node.http.patch("/v1/queues/new/below", json=settings).status_code in (400, 422)
    assert [queue["path"] for queue in node.http.get("/v1/queues").json()["queues"]] == ["q"]


def test_children_are_not_assured_more_than_their_parent(node: RunningNode) -> None:
    settle(node, "a", assured=4)
    settle(node, "a/x", assured=3)
    assert node.http.patch("/v1/queues/a/y", json={"assured": 2}).status_code in (400, 422)
    assert node.http.patch("/v1/queues/a", json={"assured": 2}).status_code in (400, 422)
    settle(node, "a/y", assured=1)


def test_a_full_queue_says_so_and_takes_more_when_there_is_room(node: RunningNode) -> None:
    settle(node, "small", capacity=3, limit=1)
    job = {"task": TASK, "args": [0.5], "queue": "small"}
    answers = [node.http.post("/v1/jobs", json=job) for _ in range(6)]
    refused = [answer for answer in answers if answer.status_code != 201]
    assert refused and {answer.status_code for answer in refused} == {429}
    assert refused[0].json()["code"] == "queue_full" and "capacity is 3" in refused[0].json()["detail"]
    assert int(refused[0].headers["retry-after"]) >= 1
    assert node.http.post("/v1/jobs/bulk", json={"jobs": [job] * 50}).status_code == 429, "all or nothing"
    for answer in answers:
        if answer.status_code == 201:
            assert node.job(answer.json()["id"], wait="20s")["state"] == "succeeded"
    assert node.http.post("/v1/jobs", json=job).status_code == 201


def test_what_a_queue_drops_is_told_to_who_waits(node: RunningNode) -> None:
    settle(node, "newest", capacity=2, overflow="drop_oldest", paused=True)
    job = {"task": TASK, "args": [0.0], "queue": "newest"}
    ids = [node.http.post("/v1/jobs", json=job).json()["id"] for _ in range(4)]
    states = [node.job(job, wait="5s" if number < 2 else "0s") for number, job in enumerate(ids)]
    assert [one["state"] for one in states] == ["cancelled", "cancelled", "queued", "queued"]
    assert states[0]["outcome"]["reason"] == "dropped"
    assert node.http.get("/v1/queues/newest").json()["waiting"] == 2
