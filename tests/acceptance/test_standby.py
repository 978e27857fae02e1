"""A second node on the same file stands by, and takes over when the first is gone."""

from __future__ import annotations

import time
from pathlib import Path

import httpx

from tests.running import RunningNode


def asked(node: RunningNode, path: str) -> httpx.Response:
    """Ask a node, again and again while it says that it does not reach the leader yet."""
    for _ in range(40):
        answer = node.http.get(path)
        if answer.status_code != 503:
            break
        assert answer.headers["retry-after"]
        time.sleep(0.5)
    return answer


def test_the_standby_takes_over_and_runs_what_waited(tmp_path: Path) -> None:
    first = RunningNode(tmp_path / "a", "--name", "first", "--no-worker")
    second = RunningNode(tmp_path / "b", "--name", "second")
    for node in (first, second):
        node.folder.mkdir()
        node.database = tmp_path / "shared.db"
    with first:
        second.start()
        try:
            second.until_ready(leading=False)
            assert asked(second, "/v1/queues").status_code == 200  # it asks the leader
            job = second.submit(work={"adapter": "command", "run": [["true"]]})  # submits work everywhere
            assert second.job(job, wait="20s")["state"] == "succeeded"  # its worker joined the leader
            assert second.http.get("/v1/cluster").json()["term"] == 1
            first.kill()
            second.until_ready()
            cluster = second.http.get("/v1/cluster").json()
            assert (cluster["leader"], cluster["term"]) == ("second", 2)
            after = second.submit(work={"adapter": "command", "run": [["true"]]})
            assert second.job(after, wait="20s")["state"] == "succeeded"
        finally:
            second.stop()
