"""Thousands of failed jobs retried by one call on a real node, a few of them first."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.running import RunningNode

TASKS = "tests.faults.tasks"
COUNT = 5000
SECONDS = 110.0


@pytest.fixture
def node(tmp_path: Path) -> Iterator[RunningNode]:
    with RunningNode(tmp_path, "--app", f"{TASKS}:app", "--slots", "2") as node:
        yield node


def until_counted(node: RunningNode, query: str, count: int) -> None:
    began = time.monotonic()
    while node.counts(query) != [count]:
        assert time.monotonic() - began < SECONDS, f"{query}: {node.counts(query)}, not {count}"
        time.sleep(0.1)


def retried(node: RunningNode, **more: Any) -> dict[str, Any]:
    """Retry what failed, and return the operation when it is over."""
    body = {"q": "state:failed queue:mass", "action": "retry", **more}
    answer = node.http.post("/v1/jobs/actions", json=body)
    assert answer.status_code == 202, answer.text
    began, operation = time.monotonic(), dict(answer.json())
    while operation["state"] == "running":
        assert time.monotonic() - began < SECONDS, operation
        time.sleep(0.05)
        operation = node.http.get(f"/v1/operations/{operation['id']}").json()
    return operation


def test_what_failed_is_retried_once_its_canary_succeeds(node: RunningNode, tmp_path: Path) -> None:
    file = tmp_path / "needed"
    job = {"task": f"{TASKS}.need", "args": [str(file)], "queue": "mass", "max_attempts": 1}
    assert len(node.http.post("/v1/jobs/bulk", json={"jobs": [job] * COUNT}).json()["ids"]) == COUNT
    until_counted(node, "state:failed", COUNT)

    stopped = retried(node, canary=5)
    assert (stopped["state"], stopped["found"], stopped["done"]) == ("stopped", COUNT, 5)
    assert "0 of the 5" in stopped["reason"] and "LookupError: there is no" in stopped["reason"]
    assert node.counts("state:failed generation:0", "state:failed generation:1") == [COUNT - 5, 5]

    file.touch()
    over = retried(node, canary=5)
    assert (over["state"], over["found"], over["done"], over["refused"]) == ("done", COUNT, COUNT, 0)
    assert over["canary"] == {"jobs": 5, "succeeded": 5, "failed": 0, "passed": True}
    until_counted(node, "state:succeeded", COUNT)
    assert node.counts("generation:1", "generation:2", "generation:>2") == [COUNT - 5, 5, 0]
