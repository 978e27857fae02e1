"""Watching running work on a real node: logs live and after, stacks, tasks that nobody knows yet."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

import fairway
from tests.running import CODE, ROOT, RunningNode

TASKS = "tests.integration.speaking_tasks"


@pytest.fixture
def node(tmp_path: Path) -> Iterator[RunningNode]:
    with RunningNode(tmp_path, "--app", f"{TASKS}:app", "--slots", "2") as node:
        yield node


def log_of(node: RunningNode, job: str, **params: str) -> str:
    answer = node.http.get(f"/v1/jobs/{job}/log", params=params)
    assert answer.status_code == 200, answer.text
    return answer.text


def follow(
    node: RunningNode, job: str, headers: dict[str, str] | None = None
) -> Iterator[tuple[str, str, str]]:
    """Yield (id, event, data) as they come."""
    params = {"follow": "true"}
    with node.http.stream("GET", f"/v1/jobs/{job}/log", params=params, headers=headers) as answer:
        found: dict[str, str] = {}
        for line in answer.iter_lines():
            if line and not line.startswith(":"):
                name, _, value = line.partition(": ")
                found[name] = value
            elif found:
                yield found.get("id", ""), found["event"], found["data"]
                found = {}


@contextmanager
def joined(node: RunningNode, folder: Path, app: str, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a worker that has joined the node."""
    env = os.environ | {"PYTHONPATH": f"{CODE}{os.pathsep}{folder}", "FAIRWAY_HOME": str(folder / "home")}
    command = [sys.executable, "-m", "fairway", "worker", "--join", node.url, "--app", app, *options]
    with subprocess.Popen(command, env=env, cwd=ROOT) as worker:
        try:
            yield worker
        finally:
            worker.terminate()


# --- logs -------------------------------------------------------------------------------------------------
def test_the_log_is_complete_as_soon_as_the_job_has_ended(node: RunningNode) -> None:
    for number in range(30):
        job = node.submit(task="say", args=[f"number {number}"])
        assert node.job(job, wait="20s")["state"] == "succeeded"
        assert log_of(node, job) == f"number {number}\n"


def test_a_follower_sees_lines_while_the_job_runs_and_the_end(node: RunningNode, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    job = node.submit(task="say_and_wait", args=[str(gate)])
    seen = []
    for _, event, data in follow(node, job):
        seen.append((event, data))
        if "first" in data:
            assert node.job(job)["state"] == "running"
            gate.touch()
    assert [event for event, _ in seen] == ["log", "log", "end"]
    assert "second" in seen[1][1]


def test_a_follower_that_comes_back_goes_on_behind_what_it_saw(node: RunningNode) -> None:
    job = node.submit(task="say_in_many_ways", args=[])
    assert node.job(job, wait="20s")["state"] == "succeeded"
    first, *rest = follow(node, job)
    assert list(follow(node, job, {"Last-Event-ID": first[0]})) == rest
    answer = node.http.get(f"/v1/jobs/{job}/log", params={"follow": "true"}, headers={"Last-Event-ID": "x"})
    assert (answer.status_code, answer.json()["field"]) == (422, "Last-Event-ID")


@pytest.mark.parametrize("megabytes", [50, pytest.param(1000, marks=pytest.mark.long)])
def test_a_job_that_prints_a_lot_costs_node_and_worker_no_memory(node: RunningNode, megabytes: int) -> None:
    node.job(node.submit(task="say", args=["warm"]), wait="20s")
    assert node.process is not None
    measured = psutil.Process(node.process.pid)  # node and agent are one process
    before = most = measured.memory_info().rss
    jobs = [node.submit(task="flood", args=[megabytes, how]) for how in ("lines", "program")]
    while {node.job(job)["state"] for job in jobs} != {"succeeded"}:
        most = max(most, measured.memory_info().rss)
        time.sleep(0.05)
    for job in jobs:
        text = log_of(node, job)
        assert text.endswith("[output beyond 1 MB is dropped]\n") and len(text) < 1_100_000
    assert most - before < 80_000_000


def test_the_command_line_follows_a_log(node: RunningNode) -> None:
    job = node.submit(task="say_in_many_ways", args=[])
    command = [sys.executable, "-m", "fairway", "--url", node.url, "jobs", "log", job, "-f"]
    env = os.environ | {"PYTHONPATH": CODE}
    done = subprocess.run(command, capture_output=True, text=True, env=env, cwd=ROOT, timeout=60)
    assert done.returncode == 0 and "printed\n" in done.stdout and "INFO shop: logged 7" in done.stderr


# --- where it is just now ---------------------------------------------------------------------------------
def stack_of(node: RunningNode, job: str, expected: str) -> str:
    """Ask until the job is where it is expected."""
    node.until_state(job, "running")
    for _ in range(200):
        answer = node.http.get(f"/v1/jobs/{job}/stack")
        if answer.status_code == 200 and expected in answer.text:
            return answer.text
        time.sleep(0.05)
    raise AssertionError(f"{answer.status_code}: {answer.text}")


def test_a_running_jobs_stack_is_told_by_its_worker(node: RunningNode) -> None:
    job = node.submit(task="deep_sleep", args=[60])
    assert "in sleep_below" in stack_of(node, job, "time.sleep")
    handle = fairway.App(url=node.url).get(job)
    assert "in sleep_below" in handle.stack()
    command = [sys.executable, "-m", "fairway", "--url", node.url, "jobs", "stack", job]
    env = os.environ | {"PYTHONPATH": CODE}
    done = subprocess.run(command, capture_output=True, text=True, env=env, cwd=ROOT, timeout=60)
    assert done.returncode == 0 and "in sleep_below" in done.stdout


def test_a_running_commands_processes_are_shown(node: RunningNode) -> None:
    work = {"adapter": "command", "run": [["sh", "-c", "sleep 61 & sleep 62"]]}
    text = stack_of(node, node.submit(work=work), "'sleep 62'")
    assert re.search(r"^\d+ \w+ .* 'sh -c ", text) and "\n  " in text


def test_what_does_not_run_has_no_stack(node: RunningNode) -> None:
    job = node.submit(task="nothing", args=[])
    node.job(job, wait="20s")
    answer = node.http.get(f"/v1/jobs/{job}/stack")
    assert (answer.status_code, answer.json()["code"]) == (409, "not_running")
    assert node.http.get("/v1/jobs/0000000000000/stack").status_code == 404


def test_a_worker_that_does_not_answer_is_named(tmp_path: Path) -> None:
    env = {"FAIRWAY_TIME_SCALE": "10"}  # so that its lease outlasts our patience
    with RunningNode(tmp_path, "--no-worker", env=env) as node:
        job = node.submit(task="deep_sleep", args=[60])
        with joined(node, tmp_path, f"{TASKS}:app", "--name", "mute") as worker:
            stack_of(node, job, "time.sleep")
            worker.send_signal(signal.SIGSTOP)
            answer = node.http.get(f"/v1/jobs/{job}/stack")
            worker.send_signal(signal.SIGCONT)
    assert (answer.status_code, answer.json()["code"]) == (504, "no_answer")
    assert "mute" in answer.json()["detail"]


# --- tasks nobody knows -----------------------------------------------------------------------------------
def test_a_job_whose_task_nobody_knows_waits_for_a_worker_that_does(
    node: RunningNode, tmp_path: Path
) -> None:
    job = node.submit(task="strange_task", args=[])
    found = node.until_state(job, "queued")
    while "strange_task" not in found["waiting"]["detail"]:  # the node's own worker has not joined yet
        found = node.until_state(job, "queued")
    assert found["waiting"]["reason"] == "no_worker"
    (tmp_path / "strange.py").write_text(
        "import fairway\napp = fairway.App()\n"
        "@app.task(name='strange_task')\ndef strange() -> str:\n    return 'known'\n"
    )
    with joined(node, tmp_path, "strange:app"):
        assert node.job(job, wait="30s")["outcome"]["value"] == "known"
