"""Progress, checkpoints and use of resources of real jobs on real workers, seen from outside."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import fairway
from tests.running import CODE, ROOT, RunningNode

TASKS = "tests.faults.tasks"
PATIENCE_SECONDS = 60.0
BACKOFF = {"first": "10ms", "max": "10ms"}


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"FAIRWAY_TEST_WITNESS": str(tmp_path / "witness")}


@pytest.fixture
def node(tmp_path: Path, env: dict[str, str]) -> Iterator[RunningNode]:
    with RunningNode(tmp_path, "--app", f"{TASKS}:app", "--slots", "2", env=env) as node:
        yield node


def submit(node: RunningNode, *args: Any, **more: Any) -> str:
    return node.submit(task=f"{TASKS}.count_up", args=list(args), backoff=BACKOFF, **more)


def until(fact: Callable[[], Any], what: str) -> Any:
    """Return what *fact* says as soon as that is anything."""
    began = time.monotonic()
    while not (found := fact()):
        assert time.monotonic() - began < PATIENCE_SECONDS, f"it never came so far that {what}"
        time.sleep(0.02)
    return found


def test_what_failed_goes_on_where_it_was(node: RunningNode) -> None:
    job = submit(node, 10, 6)
    ended = node.job(job, wait="60s")
    assert (ended["state"], ended["attempt"]) == ("succeeded", 2)
    assert ended["outcome"]["value"] == [6, 7, 8, 9]
    assert (ended["progress"]["fraction"], ended["progress"]["text"]) == (0.9, "step 9")
    assert ended["progress"]["rate_per_second"] is None and ended["checkpoint_at"] is not None
    last, first = node.http.get(f"/v1/jobs/{job}/attempts").json()["attempts"]
    assert (first["attempt"], first["progress"]["text"], first["worker"]) == (1, "step 6", None)
    assert (last["attempt"], last["progress"]["text"], last["worker"]) == (2, "step 9", ended["worker"])
    assert first["checkpoint_at"] and last["checkpoint_at"]


def test_a_persons_retry_starts_anew(node: RunningNode) -> None:
    job = submit(node, 5, 3, max_attempts=1)
    assert node.job(job, wait="60s")["state"] == "failed"
    assert node.http.post(f"/v1/jobs/{job}/retry").status_code == 200
    ended = node.job(job, wait="60s")
    assert (ended["attempt"], ended["outcome"]["value"]) == (2, [0, 1, 2, 3, 4])


def test_progress_is_seen_while_it_runs_and_after_a_stop_the_job_goes_on(
    node: RunningNode, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    job = submit(node, 10, None, 4, str(go))
    until(lambda: (node.job(job)["progress"] or {}).get("fraction") == 0.4, "progress is seen")
    handle = fairway.App(url=node.url).get(job)
    assert handle.progress is not None and handle.progress["text"] == "step 4"
    assert node.stop() == 0
    node.start()
    node.until_ready()
    until(lambda: node.job(job)["attempt"] == 2, "it runs again")
    go.touch()
    ended = node.job(job, wait="60s")
    assert (ended["outcome"]["value"], ended["tries"], ended["crashes"]) == ([4, 5, 6, 7, 8, 9], 0, 0)


def test_what_its_worker_died_of_goes_on_on_another(tmp_path: Path, env: dict[str, str]) -> None:
    go = tmp_path / "go"
    with RunningNode(tmp_path, "--no-worker", env={"FAIRWAY_TIME_SCALE": "0.2"}) as node:
        with worker(tmp_path, node, "a", env) as first:
            job = submit(node, 8, None, 5, str(go))
            until(lambda: node.job(job)["checkpoint_at"], "a checkpoint is kept")
            until(lambda: (node.job(job)["progress"] or {}).get("text") == "step 5", "it is at its place")
            first.kill()
            first.wait(10)
        with worker(tmp_path, node, "b", env):
            go.touch()
            ended = node.job(job, wait="60s")
    assert (ended["worker"], ended["attempt"], ended["tries"]) == ("b", 2, 0)
    assert ended["outcome"]["value"] == [5, 6, 7]


def test_a_command_whose_checkpoint_is_none_does_not_cost_its_worker_the_node(
    tmp_path: Path, env: dict[str, str]
) -> None:
    go = tmp_path / "go"
    said = '{"checkpoint": 1e999}\\n{"checkpoint": "\\377"}\\n{"progress": 0.5}\\n'
    script = f"""printf '{said}' >&$FAIRWAY_NOTES
        while [ ! -e {go} ]; do sleep 0.05; done"""
    with RunningNode(tmp_path, "--no-worker") as node, worker(tmp_path, node, "a", env):
        job = node.submit(work={"adapter": "command", "run": [["bash", "-c", script]]})
        until(lambda: (node.job(job)["progress"] or {}).get("fraction") == 0.5, "what is good is noted")
        assert node.job(job)["checkpoint_at"] is None
        go.touch()
        ended = node.job(job, wait="60s")
        assert (ended["state"], ended["attempt"], ended["worker"]) == ("succeeded", 1, "a")
        assert "note was not understood" in node.http.get(f"/v1/jobs/{job}/log").text
    assert "refuse" not in (tmp_path / "a.log").read_text()


@contextmanager
def worker(
    folder: Path, node: RunningNode, name: str, env: dict[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    """`fairway worker` in a process of its own, with the tests' tasks."""
    command = [sys.executable, "-m", "fairway", "worker", "--name", name, "--slots", "1"]
    command += ["--join", node.url, "--app", f"{TASKS}:app", "--data-dir", str(folder / name)]
    surroundings = os.environ | {"PYTHONPATH": CODE, "FAIRWAY_TIME_SCALE": "0.2"} | env
    with (folder / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=surroundings, cwd=ROOT)
    try:
        yield process
    finally:
        process.kill()
        process.wait(10)


def test_what_was_used_is_told(node: RunningNode) -> None:
    spin = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done"
    jobs = [
        node.submit(work={"adapter": "command", "run": [["sh", "-c", spin]]}),
        node.submit(task=f"{TASKS}.work", args=[0.05]),
    ]
    command, task = [node.job(job, wait="60s")["usage"] for job in jobs]
    assert command["cpu_seconds"] > 0.01 and command["memory_bytes"] > 100_000
    assert task["cpu_seconds"] < 5 and task["memory_bytes"] > 1_000_000
    assert node.job(node.submit(task=f"{TASKS}.nap", args=[0.05]), wait="60s")["usage"] is None
