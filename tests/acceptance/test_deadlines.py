"""Deadlines and job defaults on a real node: what runs in which order, and what never runs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests import witness
from tests.running import RunningNode

TASKS = "tests.faults.tasks"


@pytest.fixture
def seen(tmp_path: Path) -> Path:
    return tmp_path / "witness"


@pytest.fixture
def node(tmp_path: Path, seen: Path) -> Iterator[RunningNode]:
    env = {"FAIRWAY_TEST_WITNESS": str(seen)}
    with RunningNode(tmp_path, "--app", f"{TASKS}:app", "--slots", "1", env=env) as node:
        yield node


def submit(node: RunningNode, seconds: float, **more: object) -> str:
    return node.submit(task=f"{TASKS}.work", args=[seconds], queue="acme/mail", **more)


def set_queue(node: RunningNode, path: str, **settings: object) -> None:
    answer = node.http.patch(f"/v1/queues/{path}", json=settings)
    assert answer.status_code == 200, answer.text


def test_the_earliest_deadline_runs_first_and_what_is_late_never_runs(node: RunningNode, seen: Path) -> None:
    set_queue(node, "acme", discipline="deadline")
    first = submit(node, 1.5)
    node.until_state(first, "running")
    late = submit(node, 0.0, deadline="500ms")
    jobs = [submit(node, 0.0, **more) for more in ({}, {"deadline": "2h"}, {"deadline": "1h"})]
    order = [jobs[2], jobs[1], jobs[0]]
    coming = node.http.get("/v1/queues/acme/-/next").json()["jobs"]
    assert [job["id"] for job in coming if job["id"] != late] == order
    ended = node.job(late, wait="20s")
    assert (ended["state"], ended["outcome"]["reason"], ended["attempt"]) == ("failed", "expired", 0)
    assert [node.job(job, wait="20s")["state"] for job in jobs] == ["succeeded"] * 3
    started = [line.job for line in witness.read(seen) if line.verb == "start"]
    assert started == [first, *order]


def test_a_deadline_holds_over_a_kill_and_passes_while_nobody_leads(node: RunningNode, seen: Path) -> None:
    set_queue(node, "acme", paused=True)
    soon, later = submit(node, 0.0, deadline="300ms", delay="100ms"), submit(node, 0.0, deadline="1h")
    passed = datetime.fromisoformat(node.job(soon)["deadline"])
    node.kill()
    while datetime.now(UTC) < passed:
        time.sleep(0.02)
    node.start()
    node.until_ready()
    set_queue(node, "acme", paused=False)
    assert node.job(later, wait="20s")["state"] == "succeeded"
    assert node.job(soon, wait="20s")["outcome"]["reason"] == "expired"
    assert list(witness.starts(witness.read(seen))) == [later]


def test_a_queue_says_how_its_jobs_are_tried(node: RunningNode) -> None:
    jobs = [submit(node, 60.0, delay="1s"), submit(node, 1.0, delay="1s", timeout=None)]
    set_queue(node, "acme", timeout="300ms", max_attempts=2, backoff={"first": "50ms", "max": "50ms"})
    ended = [node.job(job, wait="30s") for job in jobs]
    assert [(job["state"], job["tries"]) for job in ended] == [("failed", 2), ("succeeded", 0)]
    assert (ended[0]["outcome"]["reason"], ended[0]["max_attempts"], ended[0]["timeout"]) == (
        "timeout",
        2,
        0.3,
    )
