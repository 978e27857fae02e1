"""`fairway queues` history, revert, apply, rename and delete --move-to: what is sent, and what is shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cli.stand_in import StandIn

CHANGE = {
    "number": 7, "path": "acme", "by": "ann@desk", "at": "2026-01-01T00:00:00.000000Z",
    "old": {"limit": 3, "paused": True}, "new": {"limit": 10, "rate": "5/s"},
}  # fmt: skip
OPERATION = {
    "id": "06abcdefghjkm", "kind": "rename", "from": "old", "to": "new", "by": "ann@desk", "state": "running",
    "started_at": "2026-01-01T00:00:00.000000Z", "ended_at": None, "jobs": 100, "left": 40, "running": 1,
    "warnings": ["schedule 'hourly' submits to 'old'"],
}  # fmt: skip
DONE = OPERATION | {"state": "done", "left": 0, "running": 0, "warnings": []}


def test_the_history_says_when_who_and_what(node: StandIn) -> None:
    made = CHANGE | {"number": 6, "old": None, "new": {"limit": 3}}
    gone = CHANGE | {"number": 5, "new": None}
    node.answer("GET /v1/queues/acme/-/history", {"changes": [CHANGE, made, gone], "next": None})
    _, *rows = node.run("queues", "history", "acme", "--limit", "3").stdout.splitlines()
    assert node.asked[-1].params == {"limit": "3"}
    assert rows[0].split()[:2] == ["7", "acme"]
    assert "2026-01-01T00:00:00Z" in rows[0]
    assert rows[0].endswith("ann@desk  limit 3 → 10, paused true → none, rate none → 5/s")
    assert rows[1].endswith("made, limit none → 3")
    assert rows[2].endswith("deleted")


def test_the_history_of_all_queues_is_asked_for_without_a_name(node: StandIn) -> None:
    node.answer("GET /v1/queues/-/history", {"changes": [], "next": None})
    assert node.run("queues", "history").stderr == "no changes yet\n"


def test_no_history_of_a_queue_that_is_not_there_is_no_success(node: StandIn) -> None:
    node.answer("GET /v1/queues/nope/-/history", {"changes": [], "next": None})
    missing = {"code": "not_found", "detail": "there is no queue 'nope'", "status": 404}
    node.answer("GET /v1/queues/nope", missing, status=404)
    for more in ([], ["--json"]):
        result = node.run("queues", "history", "nope", *more)
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr == "fairway: there is no queue 'nope'\n"
    node.answer("GET /v1/queues/nope", {"path": "nope"})
    assert node.run("queues", "history", "nope").stderr == "no changes yet\n"
    node.answer("GET /v1/queues/nope", {"code": "no_leader", "detail": "nobody", "status": 503}, status=503)
    assert node.run("queues", "history", "nope").exit_code == 0


@pytest.mark.parametrize(("words", "sent"), [(["acme", "7"], {"to": 7}), (["acme"], {"to": None})])
def test_a_revert_names_the_change_or_none(node: StandIn, words: list[str], sent: dict[str, Any]) -> None:
    node.answer("POST /v1/queues/acme/-/revert", {"path": "acme"})
    assert node.run("queues", "revert", *words).exit_code == 0
    assert node.asked[-1].body == sent


def test_a_file_is_applied_whole_and_the_difference_shown(node: StandIn, tmp_path: Path) -> None:
    file = tmp_path / "queues.yaml"
    file.write_text("queues:\n  acme: {limit: 10}\n  acme/emails:\n  b: {flow_weights: {gold: 3}}\n")
    node.answer("POST /v1/queues/-/apply", {"changes": [CHANGE], "applied": False})
    said = node.run("queues", "apply", str(file), "--dry-run")
    wanted = {"acme": {"limit": 10}, "acme/emails": {}, "b": {"flow_weights": {"gold": 3}}}
    assert node.asked[-1].body == {"queues": wanted, "dry_run": True}
    assert said.stdout == "acme: limit 3 → 10, paused true → none, rate none → 5/s\n"
    assert said.stderr == "1 queue would change, 2 as it should be\n"


@pytest.mark.parametrize(
    "text", ["- a\n", "queues: [a]\n", "queues: {a: 3}\n", "queues: {}\nschedules: []\n", "queues: {1: {}}\n"]
)
def test_a_file_that_holds_something_else_is_refused(node: StandIn, tmp_path: Path, text: str) -> None:
    file = tmp_path / "queues.yml"
    file.write_text(text)
    said = node.run("queues", "apply", str(file))
    assert (said.exit_code, node.asked) == (2, [])
    assert "queues.yml" in said.stderr


def test_a_rename_waits_until_it_is_done_and_shows_the_warnings(node: StandIn) -> None:
    node.answer("POST /v1/queues/old/-/rename", OPERATION, status=202)
    node.answer("GET /v1/operations/06abcdefghjkm", OPERATION, DONE)
    said = node.run("queues", "rename", "old", "new")
    assert (said.exit_code, said.stdout) == (0, "queue old is new now\n")
    assert "note: schedule 'hourly' submits to 'old'" in said.stderr
    assert [asked.method for asked in node.asked] == ["POST", "GET", "GET"]
    assert node.asked[0].body == {"to": "new"}


def test_a_queue_is_deleted_after_its_jobs_went_elsewhere(node: StandIn) -> None:
    node.answer("DELETE /v1/queues/old", OPERATION, status=202)
    node.answer("GET /v1/operations/06abcdefghjkm", DONE)
    said = node.run("queues", "delete", "old", "--move-to", "other/x")
    assert (said.exit_code, said.stdout) == (0, "queue old is forgotten\n")
    assert node.asked[0].params == {"move_to": "other/x"}


def test_what_is_deleted_stands_in_the_document(node: StandIn) -> None:
    node.answer("DELETE /v1/queues/old", None)
    assert node.run("queues", "delete", "old", "--json").stdout == '{"deleted": "old"}\n'


def test_a_queue_that_is_not_empty_can_be_emptied(node: StandIn) -> None:
    problem = {"code": "not_empty", "detail": "queue 'old' is not empty: 3 waiting", "status": 409}
    node.answer("DELETE /v1/queues/old", problem, status=409)
    result = node.run("queues", "delete", "old")
    assert result.stderr.startswith("fairway: queue 'old' is not empty: 3 waiting; --move-to QUEUE moves ")
    assert result.exit_code == 1


def test_durations_of_a_queue_have_units(node: StandIn) -> None:
    settings = {
        "timeout": 90.0,
        "grace": 0.5,
        "retention": 2592000.0,
        "backoff": {"first": 1.0, "max": 3600.0},
    }
    node.answer("PATCH /v1/queues/acme", {"path": "acme", "settings": settings})
    shown = [
        line.split(None, 1) for line in node.run("queues", "set", "acme", "timeout=90s").stdout.splitlines()
    ]
    for fact in (
        ["timeout", "90 s"], ["grace", "0.5 s"], ["retention", "30 d"], ["backoff", "first 1 s, max 1 h"]
    ):  # fmt: skip
        assert fact in shown
