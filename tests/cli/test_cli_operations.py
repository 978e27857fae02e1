"""A query acted upon by the node: begun, followed, aborted, and told of."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from typing import Any

import pytest

from tests.cli.stand_in import StandIn, job, operation

ID = "06abcdefghjkz"
ONE = f"/v1/operations/{ID}"
RETRY = ("jobs", "retry", "--all-matching", "--yes", "queue:acme")


def begins(node: StandIn, *then: dict[str, Any]) -> None:
    """Let the node count 312 jobs, begin an operation, and tell of it so."""
    node.answer("GET /v1/jobs", {"jobs": [job()], "next": "c", "total": 312})
    node.answer("POST /v1/jobs/actions", operation(), status=202)
    node.answer(f"GET {ONE}", *then)


def test_a_query_is_followed_until_it_is_over(node: StandIn) -> None:
    begins(node, operation(done=100), operation(state="done", done=312))
    result = node.run(*RETRY)
    assert (result.exit_code, result.stdout, result.stderr) == (0, "312 jobs queued again\n", "")
    assert [asked.method for asked in node.asked] == ["GET", "POST", "GET", "GET"]
    query = "queue:acme state:failed,unknown"  # not what went well, nor what nobody wanted
    assert node.asked[1].body == {"q": query, "action": "retry"}


def test_refusals_are_told_and_counted(node: StandIn) -> None:
    refusals = [{"id": f"0{number}", "code": "ended", "detail": "it has ended"} for number in range(4)]
    begins(node, operation(state="done", done=300, refused=12, refusals=refusals))
    result = node.run(*RETRY)
    assert (result.exit_code, result.stdout) == (1, "300 jobs queued again\n")
    assert result.stderr.splitlines()[0] == "00 was not queued again: it has ended"
    assert result.stderr.splitlines()[-1] == "... and 9 more"


def test_a_canary_that_fails_is_an_error_with_its_reason(node: StandIn) -> None:
    begins(node, operation(state="stopped", done=5, reason="0 of 5 succeeded"))
    result = node.run(*RETRY, "--canary", "5", "--canary-timeout", "1m", "--canary-pass", "0.8")
    assert (result.exit_code, result.stdout) == (1, "5 jobs queued again; stopped: 0 of 5 succeeded\n")
    sent = node.asked[1].body
    assert (sent["canary"], sent["canary_timeout"], sent["canary_pass"]) == (5, 60.0, 0.8)
    node.run(*RETRY, "--canary", "5%")
    assert node.asked[-2].body["canary"] == "5%"


def test_detached_it_is_only_begun(node: StandIn) -> None:
    begins(node)
    result = node.run(*RETRY, "--detach")
    assert (result.exit_code, result.stdout) == (0, f"{ID}\n")
    assert node.asked[-1].method == "POST"


def test_as_json_the_operation_is_shown(node: StandIn) -> None:
    over = operation(state="done", done=312)
    begins(node, over)
    assert json.loads(node.run(*RETRY, "--json").stdout) == over


def test_jobs_are_deleted_by_their_ids_or_by_a_query(node: StandIn) -> None:
    begins(node, operation(action="delete", state="done", done=2))
    node.answer("GET /v1/jobs", {"jobs": [job(), job(id="06abcdefghjk0")], "next": None, "total": 2})
    result = node.run("jobs", "delete", "06abcdefghjkm", "06abcdefghjk0")
    assert (result.exit_code, result.stdout) == (0, "2 jobs deleted\n")
    assert node.asked[1].body == {"q": "id:06abcdefghjkm,06abcdefghjk0", "action": "delete"}
    assert node.run("jobs", "delete", "--all-matching", "queue:a", input="n\n").exit_code == 1
    assert node.run("jobs", "delete", *["06abcdefghjkm"] * 51).exit_code == 2


def test_a_job_that_cannot_be_deleted_because_it_is_not_there_is_named(node: StandIn) -> None:
    begins(node, operation(action="delete", state="done", done=1))
    node.answer("GET /v1/jobs", {"jobs": [job()], "next": None, "total": 1})
    result = node.run("jobs", "delete", "06abcdefghjkm", "06abcdefghjk0")
    assert (result.exit_code, result.stdout) == (1, "1 job deleted\n")
    assert result.stderr == "06abcdefghjk0 was not deleted: there is no job 06abcdefghjk0\n"


@pytest.mark.parametrize("state", ["aborted", "done"])
def test_ctrl_c_aborts_the_operation(node: StandIn, state: str) -> None:
    begins(node, operation(done=1))
    node.answer(f"DELETE {ONE}", operation(state="aborting", done=2))
    asked_again = threading.Event()
    take = node.take

    def watch(asked: Any) -> Any:
        if asked.method == "DELETE":
            node.answer(f"GET {ONE}", operation(state=state, done=3))
        elif asked.path == ONE:
            asked_again.set()
        return take(asked)

    node.take = watch  # type: ignore[method-assign]
    process = subprocess.Popen(
        [sys.executable, "-m", "fairway.cli", *RETRY],
        env={**os.environ, "FAIRWAY_URL": node.url},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert asked_again.wait(60)
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=60)
    end = ("3 jobs queued again; aborted\n", 130) if state == "aborted" else ("3 jobs queued again\n", 0)
    assert (out, process.returncode) == end, errors
    assert errors.startswith("aborting after the jobs under way")


def test_operations_are_listed_with_moves_of_queues(node: StandIn) -> None:
    move = {
        "id": "06abcdefghjky", "kind": "rename", "from": "a", "to": "b", "by": "bob", "state": "running",
        "started_at": "2026-01-01T00:00:00Z", "ended_at": None, "jobs": 9, "left": 4, "running": 0,
        "warnings": [],
    }  # fmt: skip
    node.answer("GET /v1/operations", {"operations": [operation(done=12, refused=3), move]})
    lines = node.run("operations", "list").stdout.splitlines()
    assert "15 of 312 jobs, 3 refused" in lines[1] and "queue:acme" in lines[1]
    assert "4 jobs left" in lines[2] and "a → b" in lines[2]


@pytest.mark.parametrize(
    ("state", "of"), [("running", "more than 10000"), ("aborted", "more than 10000"), ("done", "10001")]
)
def test_more_than_are_counted_are_known_at_the_end(node: StandIn, state: str, of: str) -> None:
    node.answer(f"GET {ONE}", operation(found=10_001, done=10_001, state=state))
    assert f"10001 of {of} jobs" in node.run("operations", "show", ID).stdout


def test_one_operation_is_shown_with_its_refusals(node: StandIn) -> None:
    refusal = {"id": "06abcdefghjkm", "code": "ended", "detail": "it has \x1b[31mended"}
    canary = {"jobs": 5, "succeeded": 2, "failed": 0, "passed": None}
    node.answer(f"GET {ONE}", operation(refusals=[refusal], refused=1, canary=canary))
    shown = node.run("operations", "show", ID).stdout
    assert "1 of 312 jobs, 1 refused; canary: 2 of 5 succeeded" in shown
    assert "refused 06abcdefghjkm: it has \\x1b[31mended" in shown


def test_an_operation_is_aborted(node: StandIn) -> None:
    node.answer(f"DELETE {ONE}", operation(state="aborting", done=2), operation(state="done", done=312))
    assert node.run("operations", "abort", ID).stdout == f"{ID}  aborting, 2 of 312 jobs\n"
    assert "over already: done" in node.run("operations", "abort", ID).stderr
