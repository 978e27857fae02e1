"""Failures on a real node: ten thousand of twelve causes are twelve groups; crashes told apart; JobFailed."""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import fairway
from tests.integration.failing_tasks import WAYS
from tests.running import RunningNode

TASKS = "tests.integration.failing_tasks"
JOBS = 10_000


@pytest.fixture
def node(tmp_path: Path) -> Iterator[RunningNode]:
    with RunningNode(tmp_path, "--app", f"{TASKS}:app", "--slots", "2") as node:
        yield node


def until_failed(node: RunningNode, count: int, seconds: float = 100) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        [total] = node.counts("state:waiting,running")
        if total == 0:
            return
        time.sleep(0.2)
    raise AssertionError(f"{node.counts('state:failed', 'state:waiting,running')} of {count}: {node.said()}")


def test_ten_thousand_failures_of_twelve_causes_are_twelve_groups(node: RunningNode) -> None:
    jobs = [
        {"task": f"{TASKS}.fail", "args": [number % 12, number], "max_attempts": 1} for number in range(JOBS)
    ]
    for first in range(0, JOBS, 5000):
        answer = node.http.post("/v1/jobs/bulk", json={"jobs": jobs[first : first + 5000]})
        assert answer.status_code == 200, answer.text
    until_failed(node, JOBS)
    found = node.http.get("/v1/failures", params={"limit": 200}).json()
    groups = {one["frame"].partition(":")[2]: one for one in found["failures"]}
    shown = [(one["type"], one["message"], one["frame"]) for one in found["failures"]]
    assert len(found["failures"]) == len(groups) == 12 and found["next"] is None, shown
    wanted = Counter(WAYS[number % 12].__name__ for number in range(JOBS))
    wanted["deeper"] = wanted.pop("broken")
    assert {name: one["failures"] for name, one in groups.items()} == wanted
    assert {name: one["jobs"] for name, one in groups.items()} == wanted
    for one in groups.values():
        [total] = node.counts(f"cause:{one['id']} state:failed")
        assert total == one["failures"]


def test_tries_that_are_made_again_count_as_failures_of_their_cause(node: RunningNode) -> None:
    job = node.submit(
        task=f"{TASKS}.fail", args=[1, 7], max_attempts=3, backoff={"first": "10ms", "max": "10ms"}
    )
    assert node.job(job, wait="30s")["state"] == "failed"
    [group] = node.http.get("/v1/failures").json()["failures"]
    assert (group["failures"], group["jobs"], group["samples"]) == (3, 1, [job])


def test_crashes_are_told_apart_by_how_the_process_ended(node: RunningNode) -> None:
    work = {"adapter": "command", "run": [["sh", "-c", "exit 3"]]}
    other = {"adapter": "command", "run": [["sh", "-c", "exit 4"]]}
    once = {"max_attempts": 1, "max_crashes": 1}
    jobs = [
        *(node.submit(task=f"{TASKS}.die", args=[number], **once) for number in (9, 9, 11)),
        *(node.submit(task=f"{TASKS}.leave", args=[code], **once) for code in (3, 4)),
        *(node.submit(work=one, **once) for one in (work, other)),
    ]
    assert {node.job(job, wait="30s")["state"] for job in jobs} == {"failed"}
    found = {(one["task"].rpartition(".")[2], one["type"], one["message"]): one["failures"]
             for one in node.http.get("/v1/failures").json()["failures"]}  # fmt: skip
    assert found == {
        ("die", "KilledBySignal", "its process ended while running it: killed by SIGKILL, possibly because"
         " the machine ran out of memory"): 2,
        ("die", "KilledBySignal", "its process ended while running it: killed by SIGSEGV"): 1,
        ("leave", "ExitCode", "its process ended while running it: exited with 3"): 1,
        ("leave", "ExitCode", "its process ended while running it: exited with 4"): 1,
        ("command sh", "ExitCode", "step 1 <text> exited with 3"): 1,
        ("command sh", "ExitCode", "step 1 <text> exited with 4"): 1,
    }  # fmt: skip


@pytest.mark.parametrize("manner", ["result", "aresult"])
def test_a_failed_job_raises_all_that_is_known(
    node: RunningNode, monkeypatch: pytest.MonkeyPatch, manner: str
) -> None:
    app = fairway.App(url=node.url)
    task = "fail" if manner == "result" else "afail"

    @app.task(name=f"{TASKS}.{task}", max_attempts=1)
    def fail(way: int, number: int) -> None: ...

    handle = fail.submit(1, 77)
    with pytest.raises(fairway.JobFailed) as raised:
        handle.result(timeout=30) if manner == "result" else asyncio.run(handle.aresult(timeout=30))
    error = raised.value
    assert (error.job_id, error.reason, error.type) == (handle.id, "max_attempts", "LookupError")
    assert error.message == "there is no order 77"
    assert f'{os.sep}failing_tasks.py", line' in error.traceback and "in missing_order" in error.traceback
    for part in (handle.id, "max_attempts", "LookupError: there is no order 77", "in missing_order"):
        assert part in str(error)
    app.close()


def test_new_causes_are_told_once(node: RunningNode) -> None:
    jobs = [node.submit(task=f"{TASKS}.fail", args=[2, number], max_attempts=1) for number in range(3)]
    assert {node.job(job, wait="30s")["state"] for job in jobs} == {"failed"}
    app, told = fairway.App(url=node.url), []
    for event in app.events("kind:failure.new,job.ended", after="0.0"):
        told.append(event)
        if [one["kind"] for one in told].count("job.ended") == 3:
            break
    app.close()
    [new] = [event for event in told if event["kind"] == "failure.new"]
    assert new["job"] in jobs and new["detail"]["message"] == "there is no user <n>"
