"""kill -9 while 20,000 jobs are moved to a new name and some of them run: none is lost, none doubled."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from tests import witness
from tests.running import RunningNode

JOBS = 20_000
BULK = 5_000
LATE = 5


def follow(node: RunningNode, operation: str, until: str) -> dict[str, Any]:
    """Ask how far a move is until it is half way, or done."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        answer = node.http.get(f"/v1/operations/{operation}")
        assert answer.status_code == 200, answer.text
        found = dict(answer.json())
        if found["state"] == "done" or (until == "half way" and found["left"] < 0.8 * found["jobs"]):
            return found
        time.sleep(0.005)
    raise AssertionError(f"the move does not go on: {found}\n{node.said()}")


def all_jobs(node: RunningNode) -> list[dict[str, Any]]:
    """Return every job, page by page."""
    found: list[dict[str, Any]] = []
    cursor = None
    while True:
        page = node.http.get(
            "/v1/jobs", params={"limit": 200} | ({"cursor": cursor} if cursor else {})
        ).json()
        found += page["jobs"]
        cursor = page["next"]
        if cursor is None:
            return found


def until_drained(node: RunningNode) -> None:
    deadline = time.monotonic() + 120
    while node.counts("state:waiting", "state:running") != [0, 0]:
        assert time.monotonic() < deadline, node.said()
        time.sleep(0.1)


@pytest.mark.timeout(280)
def test_a_move_that_was_killed_half_way_is_finished_by_the_next_leader(tmp_path: Path) -> None:
    seen = tmp_path / "witness"
    node = RunningNode(
        tmp_path, "--slots", "4", "--app", "tests.faults.tasks:app", env={"FAIRWAY_TEST_WITNESS": str(seen)}
    )
    with node:
        # One at a time: most still wait when the move begins, and what runs must count in both places.
        assert node.http.put("/v1/queues/old", json={"limit": 1}).status_code == 200
        job = {"task": "tests.faults.tasks.work", "args": [0.0], "queue": "old", "max_crashes": 50}
        ids: list[str] = []
        for _ in range(JOBS // BULK):
            answer = node.http.post("/v1/jobs/bulk", json={"jobs": [job] * BULK})
            assert answer.status_code == 200, answer.text
            ids += answer.json()["ids"]
        begun = node.http.post("/v1/queues/old/-/rename", json={"to": "new/name"})
        assert begun.status_code == 202, begun.text
        operation = begun.json()["id"]
        ids += [node.submit(**job) for _ in range(5)]
        killed_at = follow(node, operation, "half way")
        node.kill()
        kills = [time.monotonic_ns()]
        assert 0 < killed_at["left"] < killed_at["jobs"], (
            "it was killed too early or too late to mean anything"
        )
        node.start()
        node.until_ready()
        ids += [node.submit(**job) for _ in range(LATE)]
        follow(node, operation, "done")
        queues = {queue["path"]: queue for queue in node.http.get("/v1/queues").json()["queues"]}
        assert {"new", "new/name"} <= set(queues)
        assert queues["new/name"]["settings"]["limit"] == 1
        raised_at = time.monotonic_ns()
        assert node.http.patch("/v1/queues/new/name", json={"limit": None}).status_code == 200
        until_drained(node)
        _check(node, ids, witness.read(seen), kills, raised_at)
        assert node.stop() == 0


def _check(
    node: RunningNode, ids: list[str], lines: list[witness.Line], kills: list[int], raised_at: int
) -> None:
    jobs = {job["id"]: job for job in all_jobs(node)}
    assert set(jobs) == set(ids), "jobs were lost or made"
    assert {job["state"] for job in jobs.values()} == {"succeeded"}
    started = witness.starts(lines)
    assert set(started) == set(ids), "a job was never run"
    assert all(len(set(attempts)) == len(attempts) for attempts in started.values()), "an attempt ran twice"
    again = [job for job, attempts in started.items() if len(attempts) > 1]
    assert len(again) <= 1, f"only what ran at the kill may run again, not {again}"
    # What was submitted to the old name when the move was over is in a queue of its own.
    anew = {job for job in ids[-LATE:] if jobs[job]["queue"] == "old"}
    limited = [line._replace(queue="both") for line in lines if line.at < raised_at and line.job not in anew]
    assert witness.most_at_once(limited, "both", kills) == 1
    assert sum(job["queue"] == "new/name" for job in jobs.values()) > 0.9 * JOBS
