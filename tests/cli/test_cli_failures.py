"""`fairway failures` against a stand-in."""

from __future__ import annotations

import json
from typing import Any

from fairway.cli.checks import check_webhooks
from tests.cli.stand_in import StandIn

CAUSE = "5e1f0c22a9b7"


def failure(**changes: Any) -> dict[str, Any]:
    return {
        "id": CAUSE, "task": "mail.send", "type": "LookupError", "message": "no user <n>\x1b[31m",
        "failures": 12, "frame": "m.py:f", "first_at": "2026-01-01T00:00:00Z", "jobs": 4,
        "last_at": "2026-01-01T00:00:00Z",
        "samples": ["0123456789abc"], "muted": False, "muted_until": None,
    } | changes  # fmt: skip


def test_failures_are_listed(node: StandIn) -> None:
    node.answer("GET /v1/failures", {"failures": [failure(), failure(jobs=None)], "next": None})
    heading, row, other = node.run("failures", "list", "task:mail.*").stdout.splitlines()
    assert heading.split()[:4] == ["cause", "failures", "jobs", "last"]
    assert row.split()[:3] == [CAUSE, "12", "4"] and "\x1b" not in row and "LookupError" in row
    assert "more than 10000" in other


def test_a_failure_is_shown_with_its_jobs(node: StandIn) -> None:
    node.answer(f"GET /v1/failures/{CAUSE}", failure())
    said = node.run("failures", "show", CAUSE).stdout
    assert "m.py:f" in said and "0123456789abc" in said and f"cause:{CAUSE}" in said and "muted" not in said


def test_mute_and_unmute(node: StandIn) -> None:
    node.answer(f"PATCH /v1/failures/{CAUSE}", failure(muted=True))
    assert node.run("failures", "mute", CAUSE).stdout == f"{CAUSE} is muted for good\n"
    node.answer(f"PATCH /v1/failures/{CAUSE}", failure(muted=True, muted_until="2026-01-01T02:00:00Z"))
    assert "until 2026" in node.run("failures", "mute", CAUSE, "--for", "2h").stdout
    node.answer(f"PATCH /v1/failures/{CAUSE}", failure())
    assert node.run("failures", "unmute", CAUSE).stdout == f"{CAUSE} is not muted\n"
    assert [asked.body for asked in node.asked] == [{"muted": True}, {"muted": "7200s"}, {"muted": False}]


def test_delete_goes_on_until_nothing_is_left(node: StandIn) -> None:
    node.answer(f"DELETE /v1/failures/{CAUSE}", {"deleted": 7, "left": 0})
    assert node.run("failures", "delete", CAUSE).stdout == f"{CAUSE} is gone with 7 failed jobs\n"
    assert json.loads(node.run("failures", "delete", CAUSE, "--json").stdout) == {"deleted": 7, "left": 0}


def test_the_doctor_says_whether_calls_are_signed() -> None:
    assert "not signed" in check_webhooks("").found
    assert check_webhooks("s").found == "signed"
