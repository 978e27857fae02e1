"""Workers are restarted one after the other, twice, under load: nothing is lost, doubled or charged."""

from __future__ import annotations

import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests import witness
from tests.faults.cluster import RunningWorker
from tests.running import RunningNode

TASKS = "tests.faults.deploying"
ROUNDS = 2
STOP_SECONDS = 90.0


class Fleet:
    """A node without a worker, and some workers that share a witness file."""

    def __init__(self, folder: Path, node: RunningNode, count: int, slots: int, grace: str) -> None:
        self.node, self.seen = node, folder / "witness"
        env = {"FAIRWAY_TEST_WITNESS": str(self.seen)}
        self.workers = [
            RunningWorker(folder, f"w{number}", [node.url], slots, env) for number in range(count)
        ]
        for worker in self.workers:
            worker.witness = self.seen
            worker._env["FAIRWAY_TEST_WITNESS"] = str(self.seen)
            worker._command += ["--app", f"{TASKS}:app", "--grace", grace]

    def restart(self, worker: RunningWorker) -> None:
        """Do what a deploy does: SIGTERM, wait for the end, start the next one."""
        assert worker.process is not None
        worker.process.send_signal(signal.SIGTERM)
        try:
            assert worker.process.wait(STOP_SECONDS) == 0, worker.log.read_text()[-2000:]
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{worker.name} did not stop") from None
        worker.start()
        self.until_up(worker.name)

    def until_up(self, *names: str) -> None:
        """Wait until workers of these names take work."""
        self._until(names, lambda worker: worker["state"] == "up")

    def until_busy(self, name: str) -> None:
        """Wait until a worker runs something."""
        self._until((name,), lambda worker: worker["running"] > 0)

    def _until(self, names: tuple[str, ...], fact: Callable[[dict[str, Any]], bool]) -> None:
        deadline = time.monotonic() + STOP_SECONDS
        while time.monotonic() < deadline:
            workers = self.node.http.get("/v1/workers").json()["workers"]
            if set(names) <= {worker["name"] for worker in workers if fact(worker)}:
                return
            time.sleep(0.02)
        raise AssertionError(f"not so of all of {names}: {workers}")


@contextmanager
def deployed(folder: Path, count: int, slots: int, grace: str) -> Iterator[Fleet]:
    """Start a node and its workers; stop all of them in the end."""
    with RunningNode(folder, "--no-worker") as node:
        fleet = Fleet(folder / "workers", node, count, slots, grace)
        try:
            for worker in fleet.workers:
                worker.start()
            fleet.until_up(*(worker.name for worker in fleet.workers))
            yield fleet
        finally:
            for worker in fleet.workers:
                worker.stop()


def deploy_under_load(fleet: Fleet, jobs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Restart every worker, twice over, while jobs come and run; return the jobs as they ended."""
    turns = fleet.workers * ROUNDS
    ids: list[str] = []
    for turn, worker in enumerate(turns, 1):
        ids += submit(fleet.node, jobs[len(ids) : len(jobs) * turn // len(turns)])
        fleet.until_busy(worker.name)
        fleet.restart(worker)
    ended = [until_ended(fleet.node, job) for job in ids]
    judge(ended, witness.read(fleet.seen))
    return ended


def submit(node: RunningNode, jobs: list[dict[str, Any]]) -> list[str]:
    answer = node.http.post("/v1/jobs/bulk", json={"jobs": jobs})
    assert answer.status_code == 200, answer.text
    return [str(job) for job in answer.json()["ids"]]


def until_ended(node: RunningNode, job: str) -> dict[str, Any]:
    for _ in range(20):
        found = node.job(job, wait="60s")
        if found["state"] in ("succeeded", "failed", "cancelled", "unknown"):
            return found
    raise AssertionError(f"not over: {found}")


def judge(ended: list[dict[str, Any]], lines: list[witness.Line]) -> None:
    """Nothing lost, nothing done twice, no attempt beside another of the same job, nothing charged."""
    lost = [job for job in ended if job["state"] != "succeeded"]
    charged = [job for job in ended if job["tries"] or job["crashes"]]
    done = Counter(line.job for line in lines if line.verb == "end")
    doubled = [job for job, times in done.items() if times != 1]
    undone = [job["id"] for job in ended if job["id"] not in done]
    again = sum(job["attempt"] > 1 for job in ended)
    print(f"\n{len(ended)} jobs, {again} of them handed back at least once: lost {len(lost)},", end=" ")
    print(f"doubled {len(doubled)}, charged {len(charged)}")
    assert (lost, charged, doubled, undone) == ([], [], [], [])
    assert again > 0  # else nothing ran when a worker was told to stop


def work(seconds: float) -> dict[str, Any]:
    return {"task": f"{TASKS}.work", "args": [round(seconds, 3)]}


def count(steps: int) -> dict[str, Any]:
    return {"task": f"{TASKS}.count", "args": [steps], "max_attempts": 1}


@pytest.mark.timeout(360)
def test_restarting_every_worker_twice_under_load_costs_nothing(tmp_path: Path) -> None:
    pick = random.Random(7)
    jobs = [work(pick.choice([0.05, 0.1, 0.5, 1.0, 3.0, 3.0])) for _ in range(72)]
    with deployed(tmp_path, count=3, slots=2, grace="300ms") as fleet:
        deploy_under_load(fleet, jobs)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_restarting_six_workers_twice_under_load_costs_nothing(tmp_path: Path) -> None:
    pick = random.Random(7)
    jobs = [work(pick.choice([0.1, 0.3, 1.0, 5.0, 20.0, 60.0])) for _ in range(400)]
    with deployed(tmp_path, count=6, slots=4, grace="5s") as fleet:
        deploy_under_load(fleet, jobs)


@pytest.mark.timeout(360)
def test_jobs_with_checkpoints_go_on_where_they_were(tmp_path: Path) -> None:
    with deployed(tmp_path, count=3, slots=2, grace="300ms") as fleet:
        ended = deploy_under_load(fleet, [count(60) for _ in range(16)])
    steps = Counter(line.job for line in witness.read(fleet.seen) if line.verb == "step")
    resumed = [job for job in ended if job["attempt"] > 1 and job["outcome"]["value"][0] > 0]
    assert resumed, "no job went on from a checkpoint"
    # Each step was done once; one that was checkpointed when its attempt was stopped may not have been said.
    assert {job["id"]: steps[job["id"]] for job in ended if not 56 <= steps[job["id"]] <= 60} == {}


def test_a_drain_with_a_deadline_hands_back_what_is_left(tmp_path: Path) -> None:
    with deployed(tmp_path, count=2, slots=2, grace="300ms") as fleet:
        node = fleet.node
        jobs = submit(node, [work(4.0)] * 4)
        for job in jobs:
            node.until_state(job, "running")
        drained = {"draining": True, "deadline": "200ms"}
        assert node.http.patch("/v1/workers/w0", json=drained).status_code == 200
        ended = [until_ended(node, job) for job in jobs]
        judge(ended, witness.read(fleet.seen))
        assert {job["worker"] for job in ended} == {"w1"}
        assert node.http.patch("/v1/workers/w0", json={"draining": False, "slots": 4}).json()["slots"] == 4
        assert node.http.patch("/v1/workers/w1", json={"draining": True}).status_code == 200
        assert until_ended(node, submit(node, [work(0.0)])[0])["worker"] == "w0"


def test_a_second_signal_hands_back_at_once(tmp_path: Path) -> None:
    with deployed(tmp_path, count=2, slots=1, grace="10m") as fleet:
        jobs = submit(fleet.node, [work(2.0)] * 2)
        for job in jobs:
            fleet.node.until_state(job, "running")
        first = fleet.workers[0]
        assert first.process is not None
        for _ in range(2):
            first.process.send_signal(signal.SIGTERM)
            time.sleep(0.3)
        assert first.process.wait(STOP_SECONDS) == 0
        judge([until_ended(fleet.node, job) for job in jobs], witness.read(fleet.seen))
