"""Running work moved between two real workers: stopped there, begun here, at no cost."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests import witness
from tests.faults.cluster import RunningWorker
from tests.running import RunningNode

WORK, NAP = "tests.faults.tasks.work", "tests.faults.tasks.nap"
LONG = 600.0  # seconds: it never ends by itself while the test runs


@pytest.fixture
def node(tmp_path: Path) -> Iterator[RunningNode]:
    with RunningNode(tmp_path, "--no-worker") as node:
        yield node


@pytest.fixture
def workers(tmp_path: Path, node: RunningNode) -> Iterator[dict[str, RunningWorker]]:
    """Two workers that are there."""
    both = {name: RunningWorker(tmp_path, name, [node.url], 1, {}) for name in ("w1", "w2")}
    try:
        for worker in both.values():
            worker.start()
        until(lambda: {one["name"] for one in node.http.get("/v1/workers").json()["workers"]} == set(both))
        yield both
    finally:
        for worker in both.values():
            worker.stop()


def until(holds: Callable[[], bool], seconds: float = 60.0) -> None:
    began = time.monotonic()
    while not holds():
        assert time.monotonic() - began < seconds, "it never came to be"
        time.sleep(0.05)


def starts(worker: RunningWorker, job: str) -> list[int]:
    """Return the attempts of a job whose code began on a worker."""
    lines = witness.read(worker.witness) if worker.witness.exists() else []
    return witness.starts(lines).get(job, [])


@pytest.mark.parametrize("goal", ["to", "away"])
@pytest.mark.parametrize("task", [WORK, NAP])
def test_a_running_task_is_moved_to_the_other_worker(
    node: RunningNode, workers: dict[str, RunningWorker], task: str, goal: str
) -> None:
    job = node.submit(task=task, args=[LONG], worker="w1")
    until(lambda: starts(workers["w1"], job) == [1])
    behind = node.submit(task=WORK, args=[0.0], worker="w1")
    body = {"to": "w2"} if goal == "to" else {"away": True}
    answer = node.http.post(f"/v1/jobs/{job}/relocate", json=body)
    assert answer.status_code == 200, answer.text
    until(lambda: starts(workers["w2"], job) == [2])
    moved = node.job(job)
    assert (moved["state"], moved["worker"], moved["attempt"]) == ("running", "w2", 2)
    assert (moved["tries"], moved["crashes"], moved["last_error"]) == (0, 0, None)
    assert node.job(behind, wait="60s")["worker"] == "w1"  # its slot is free again
    assert starts(workers["w1"], job) == [1]
    assert node.http.delete(f"/v1/jobs/{job}").status_code == 200
    assert node.job(job, wait="60s")["state"] == "cancelled"


def test_a_running_command_is_put_at_the_end_of_its_line(
    node: RunningNode, workers: dict[str, RunningWorker]
) -> None:
    run = {"adapter": "command", "run": [["sleep", str(LONG)]]}
    first = node.submit(work=run, worker="w1")
    node.until_state(first, "running")
    others = [node.submit(task=WORK, args=[0.0], worker="w1") for _ in range(2)]
    assert node.http.post(f"/v1/jobs/{first}/requeue").status_code == 200
    assert [node.job(job, wait="60s")["state"] for job in others] == ["succeeded", "succeeded"]
    until(lambda: node.job(first)["attempt"] == 2)
    again = node.job(first)
    assert (again["state"], again["tries"], again["crashes"]) == ("running", 0, 0)
    node.http.delete(f"/v1/jobs/{first}", params={"force": "true"})
    assert node.job(first, wait="60s")["state"] == "cancelled"
