"""Warm adapters of a whole node: from `--adapter` and `--rails` to the outcome of a job."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.rails_app import make_app
from tests.integration.warm_children import CHILD, EXAMPLE, HERE
from tests.packages import find_node, find_rails
from tests.running import RunningNode

pytestmark = pytest.mark.timeout(400)  # a package may have to be installed


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    """A node whose worker has four kinds of tasks, some of the same name."""
    folder = tmp_path_factory.mktemp("node")
    find_rails()
    arguments = [
        "--slots", "2",
        "--app", "tests.faults.tasks:app",
        "--adapter", f"node={shlex.join([find_node(), str(EXAMPLE)])}",
        "--adapter", f"warm={shlex.join(CHILD)}",
        "--rails", str(make_app(folder / "rails")),
    ]  # fmt: skip
    node = RunningNode(folder, *arguments)
    node.start()
    try:
        node.until_ready(120)
        run(node, adapter="node", task="add", args=[1, 1])  # its worker has started too
        yield node
    finally:
        node.__exit__()


def run(node: RunningNode, **work: Any) -> dict[str, Any]:
    """Run a job to its end."""
    return node.job(node.submit(work=work), wait="60s")


@pytest.mark.parametrize(
    ("work", "value"),
    [
        ({"adapter": "node", "task": "add", "args": [1, 2]}, 3),
        ({"adapter": "warm", "task": "add", "args": [1], "kwargs": {"other": 4}}, 5),
        ({"adapter": "rails", "job": "Add", "args": ["a", "b"]}, "ab"),
        ({"adapter": "rails", "call": "Mail::Box.empty", "args": ["inbox"]}, "inbox emptied"),
    ],
)
def test_work_is_run_by_its_adapter(node: RunningNode, work: dict[str, Any], value: object) -> None:
    job = run(node, **work)
    assert (job["state"], job["outcome"]) == ("succeeded", {"ok": True, "value": value})
    assert (job["work"], job["args"]) == (work, None)
    assert job["task"] in (work.get("task"), work.get("job"), work.get("call"))


def test_what_a_job_prints_is_its_log(node: RunningNode) -> None:
    job = run(node, adapter="node", task="shout", args=["hallo"])
    log = node.http.get(f"/v1/jobs/{job['id']}/log").text
    assert "hallo" in log and "HALLO" in log


def test_a_job_fails_with_the_words_of_its_language(node: RunningNode) -> None:
    job = node.submit(work={"adapter": "rails", "job": "Refuse", "args": ["never"]})
    outcome = node.job(job, wait="60s")["outcome"]
    assert (outcome["ok"], outcome["reason"]) == (False, "permanent")
    assert (outcome["error"]["type"], outcome["error"]["message"]) == ("Fairway::PermanentFailure", "never")


@pytest.mark.parametrize(
    ("work", "missing"),
    [
        ({"adapter": "node", "task": "nosuch"}, "task nosuch"),
        ({"adapter": "rails", "job": "NoSuch::Job"}, "task NoSuch::Job"),
        ({"adapter": "rails", "job": "add"}, "task add"),  # which others have
        ({"adapter": "node", "task": "tests.faults.tasks.work"}, "task tests.faults.tasks.work"),
        ({"adapter": "golang", "task": "add"}, "adapter golang"),
    ],
)
def test_what_no_worker_can_run_waits_and_says_what_is_missing(
    node: RunningNode, work: dict[str, Any], missing: str
) -> None:
    job = node.job(node.submit(work=work))
    assert job["state"] == "queued"
    assert job["waiting"]["reason"] == "no_worker" and missing in job["waiting"]["detail"]


def test_a_running_job_is_cancelled(node: RunningNode) -> None:
    job = node.submit(work={"adapter": "rails", "job": "Sleep", "args": [60]})
    node.until_state(job, "running")
    assert node.http.delete(f"/v1/jobs/{job}").status_code in (200, 202)
    assert node.until_state(job, "cancelled")["outcome"]["reason"] == "cancelled"


def test_an_adapter_that_does_not_start_is_told_at_once(tmp_path: Path) -> None:
    broken = shlex.join([sys.executable, str(HERE / "no_such_file.py")])
    node = RunningNode(tmp_path, "--adapter", f"mine={broken}")
    node.start()
    assert node.process is not None and node.process.wait(60) == 1
    assert "adapter mine: " in node.said() and "can't open file" in node.said()
