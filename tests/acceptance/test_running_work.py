"""Running work on a real node, seen from outside: slots, shared slots, leases, crashes, a clean stop."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import witness
from tests.running import RunningNode

TASKS = "tests.faults.tasks"
SHORT_LEASES = {"FAIRWAY_TIME_SCALE": "0.1"}  # beat 0.2 s, lease 1 s


@pytest.fixture
def seen(tmp_path: Path) -> Path:
    return tmp_path / "witness"


@pytest.fixture
def node(tmp_path: Path, seen: Path, request: pytest.FixtureRequest) -> Iterator[RunningNode]:
    """A node with the options that the test names."""
    arguments, env = getattr(request, "param", (["--slots", "2"], {}))
    env = {"FAIRWAY_TEST_WITNESS": str(seen)} | env
    with RunningNode(tmp_path, "--app", f"{TASKS}:app", *arguments, env=env) as node:
        yield node


def submit(node: RunningNode, task: str, *args: object, **more: object) -> str:
    return node.submit(task=f"{TASKS}.{task}", args=list(args), **more)


@pytest.mark.parametrize("node", [(["--slots", "4"], {})], indirect=True)
def test_four_slots_run_four_jobs_at_a_time(node: RunningNode, seen: Path) -> None:
    began = time.monotonic()
    jobs = [submit(node, "work", 1.0) for _ in range(20)]
    assert all(node.job(job, wait="30s")["state"] == "succeeded" for job in jobs)
    print(f"\n20 jobs of 1 s on 4 slots: {time.monotonic() - began:.2f} s")
    assert witness.most_at_once(witness.read(seen), "default", []) == 4


@pytest.mark.parametrize("node", [(["--slots", "1", "--async-per-slot", "1000"], {})], indirect=True)
def test_a_thousand_naps_share_one_child(node: RunningNode, seen: Path) -> None:
    job = {"task": f"{TASKS}.nap", "args": [3.0]}
    ids = node.http.post("/v1/jobs/bulk", json={"jobs": [job] * 1000}).json()["ids"]
    assert all(node.job(job, wait="30s")["state"] == "succeeded" for job in ids)
    lines = witness.read(seen)
    assert witness.most_at_once(lines, "default", []) == 1000
    assert len({line.pid for line in lines}) == 1


@pytest.mark.parametrize("node", [(["--slots", "1"], SHORT_LEASES)], indirect=True)
def test_a_job_that_holds_the_gil_keeps_its_lease(node: RunningNode, seen: Path) -> None:
    job = node.job(submit(node, "hold_the_gil", 4.0), wait="30s")  # four leases long
    assert (job["state"], job["attempt"], job["crashes"]) == ("succeeded", 1, 0)
    assert witness.starts(witness.read(seen)) == {job["id"]: [1]}


def test_a_dead_child_costs_one_attempt_of_one_job(node: RunningNode, seen: Path) -> None:
    other = submit(node, "work", 2.0)
    node.until_state(other, "running")
    dying = node.job(submit(node, "die_at_first"), wait="30s")
    assert (dying["state"], dying["attempt"], dying["crashes"], dying["tries"]) == ("succeeded", 2, 1, 0)
    assert node.job(other, wait="30s")["attempt"] == 1


def test_a_killed_child_is_replaced(node: RunningNode, seen: Path) -> None:
    job = submit(node, "work", 2.0)
    while not (lines := witness.read(seen)):
        time.sleep(0.02)
    os.kill(lines[0].pid, signal.SIGKILL)
    found = node.job(job, wait="30s")
    assert (found["state"], found["attempt"], found["crashes"]) == ("succeeded", 2, 1)


def test_a_stop_hands_running_jobs_back_at_no_cost(node: RunningNode, seen: Path) -> None:
    jobs = [submit(node, "work", 30.0) for _ in range(3)]
    for job in jobs[:2]:
        node.until_state(job, "running")
    began = time.monotonic()
    assert node.stop() == 0
    print(f"\nstopped in {time.monotonic() - began:.2f} s")
    assert "3 waiting, 2 of them handed back" in node.said()
    node.start()
    node.until_ready()
    again = node.until_state(jobs[0], "running")
    assert (again["tries"], again["crashes"], again["attempt"]) == (0, 0, 2)


def test_a_cancelled_job_is_stopped_and_its_slot_is_free(node: RunningNode, seen: Path) -> None:
    jobs = [submit(node, "work", 60.0) for _ in range(2)]
    for job in jobs:
        node.until_state(job, "running")
        assert node.http.delete(f"/v1/jobs/{job}").status_code == 200
    assert [node.job(job, wait="20s")["state"] for job in jobs] == ["cancelled", "cancelled"]
    assert node.job(submit(node, "work", 0.0), wait="20s")["state"] == "succeeded"


def test_a_timeout_ends_the_attempt_and_is_retried(node: RunningNode, seen: Path) -> None:
    backoff = {"first": "50ms", "max": "50ms"}
    job = node.job(submit(node, "work", 60.0, timeout="300ms", max_attempts=2, backoff=backoff), wait="30s")
    assert (job["state"], job["tries"], job["outcome"]["reason"]) == ("failed", 2, "timeout")


def test_a_command_has_its_output_and_its_exit_code(node: RunningNode) -> None:
    run = [["sh", "-c", "echo out; echo err >&2"], ["sh", "-c", "exit 3"]]
    job = node.job(node.submit(work={"adapter": "command", "run": run}, max_attempts=1), wait="20s")
    assert job["state"] == "failed"
    assert job["outcome"]["error"]["exit_code"] == 3
    log = node.http.get(f"/v1/jobs/{job['id']}/log").text
    assert "out" in log
    assert "err" in log
