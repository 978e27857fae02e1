"""Tables in a window of so many columns: what people copy stays whole, free text gives way."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from typing import Any

import pytest

from tests.cli.stand_in import StandIn, job

ID = "06abcdefghjkm"
LONG = "the server said " + "something very long " * 20
FAILED = job(
    state="failed",
    queue="acme/emails/transactional/eu-west",
    attempt=10,
    outcome={"reason": "permanent", "error": {"type": "ValueError", "message": LONG}},
)
CANCELLED = job(state="cancelled", queue="b", work={"adapter": "command", "run": [["x"]]})
BUSY = {
    "path": "acme",
    "settings": {"limit": 10, "weight": 2.5, "rate": "100/min", "discipline": "sfq"},
    "waiting": 123456,
    "scheduled": 2345,
    "running": 17,
    "oldest_wait": 61.0,
    "limited_by": "limit of 'acme/transactional-emails'",
    "rates": {"in": 2.5, "begun": 1.5, "out": 1.25},
    "wait": {"p90": 4.0},
    "run": {"p50": 0.25},
    "errors": 0.125,
}
QUEUES = {"queues": [BUSY, BUSY | {"path": "acme/transactional-emails"}], "next": None}
CHANGE = {
    "number": 1234, "path": "acme/emails/transactional", "by": "deployer@build-machine-17.internal",
    "at": "2026-01-01T00:00:00.123456Z", "old": {"limit": 3, "paused": True},
    "new": {"limit": 10, "rate": "5/s", "discipline": "sfq"},
}  # fmt: skip
WORKER: dict[str, Any] = {
    "name": "build-machine-17.internal-4f2a", "state": "draining", "slots": 16, "busy": 12.5, "running": 50,
    "tags": ["gpu", "eu-west", "large-memory"], "queues": ["acme/*", "b/*", "c/*"],
    "joined_at": "2026-01-01T00:00:00Z", "last_beat_seconds": 0.35,
}  # fmt: skip


def shown(node: StandIn, columns: int, *arguments: str) -> tuple[list[str], str]:
    """Run `fairway` in a terminal of so many columns; return the lines drawn there, and its stderr."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": str(columns), "FAIRWAY_URL": node.url}
    line = [sys.executable, "-m", "fairway.cli", *arguments]
    done = subprocess.run(
        line, stdout=theirs, stderr=subprocess.PIPE, env=environment, timeout=30, check=True, text=True
    )
    os.close(theirs)
    drawn = os.read(ours, 65536).decode()
    os.close(ours)
    return [text.rstrip() for text in re.sub(r"\x1b\[[\d;]*m", "", drawn).splitlines()], done.stderr


@pytest.mark.parametrize("columns", [80, 100, 120])
def test_a_job_is_one_line_with_its_id_and_state_whole(node: StandIn, columns: int) -> None:
    node.answer("GET /v1/jobs", {"jobs": [FAILED, CANCELLED], "next": None, "total": 2})
    lines, _ = shown(node, columns, "jobs", "list")
    assert [line.split()[:2] for line in lines] == [["id", "state"], [ID, "failed"], [ID, "cancelled"]]
    assert max(map(len, lines)) <= columns
    assert lines[1].endswith("…")  # the long message gives way first
    assert "(permanent): V" in lines[1] or columns == 80  # but keeps a little while other text is long


@pytest.mark.parametrize("columns", [80, 100, 120])
def test_a_queue_keeps_its_name_and_its_numbers(node: StandIn, columns: int) -> None:
    node.answer("GET /v1/queues", QUEUES)
    lines, said = shown(node, columns, "queues", "list")
    rows = [line.split()[:5] for line in lines if "123456" in line]
    numbers = ["123456", "2345", "17", "10"]
    assert rows == [["acme", *numbers], ["transactional-emails", *numbers]]
    assert max(map(len, lines)) <= columns
    assert ("too narrow for: " in said and "run p50" in said) or columns == 120


@pytest.mark.parametrize("columns", [80, 100])
def test_a_change_of_a_queue_is_folded_and_nothing_of_it_lost(node: StandIn, columns: int) -> None:
    node.answer("GET /v1/queues/-/history", {"changes": [CHANGE], "next": None})
    lines, _ = shown(node, columns, "queues", "history")
    assert "1234" in lines[1] and "2026-01-01T00:00:00Z" in lines[1]
    what = lines[0].index("what")
    told = " ".join(line[what:] for line in lines[1:])
    assert (
        re.sub(r"\s+", " ", told)
        == "discipline none → sfq, limit 3 → 10, paused true → none, rate none → 5/s"
    )
    assert max(map(len, lines)) <= columns


@pytest.mark.parametrize("columns", [80, 100])
def test_a_worker_keeps_its_name_and_state(node: StandIn, columns: int) -> None:
    node.answer("GET /v1/workers", {"workers": [WORKER]})
    lines, _ = shown(node, columns, "workers", "list")
    (row,) = [line for line in lines if "draining" in line]
    assert row.split()[:4] == ["build-machine-17.internal-4f2a", "draining", "16", "12.5"]
    assert max(map(len, lines)) <= columns


def test_a_name_longer_than_the_window_is_left_to_the_terminal(node: StandIn) -> None:
    node.answer("GET /v1/workers", {"workers": [WORKER | {"name": "w" * 90}]})
    lines, _ = shown(node, 80, "workers", "list")
    assert any("w" * 90 in line for line in lines)


def test_columns_that_say_nothing_are_the_first_to_go(node: StandIn) -> None:
    quiet = BUSY | {"rates": {}, "wait": {}, "run": {}, "errors": None, "oldest_wait": None, "settings": {}}
    node.answer("GET /v1/queues", {"queues": [quiet], "next": None})
    lines, said = shown(node, 80, "queues", "list")
    assert lines[0].split() == ["queue", "waiting", "scheduled", "running", "held", "up", "by"]
    assert said == ""
