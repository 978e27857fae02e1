"""`fairway schedules` against a stand-in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.stand_in import StandIn, job

SCHEDULE: dict[str, Any] = {
    "name": "report", "cron": "0 6 * * *", "zone": "UTC", "every": None, "anchor": None,
    "job": {"task": "mail.send", "queue": "acme"}, "missed": "once", "missed_most": 100, "overlap": "skip",
    "jitter": 0, "paused": False, "next": ["2099-01-01T06:00:00Z"], "pending": 0,
    "last": {"at": "2026-01-01T06:00:00Z", "job": "06abcdefghjkm", "what": "submitted"},
    "created_at": "2026-01-01T00:00:00Z", "changed_at": "2026-01-01T00:00:00Z",
}  # fmt: skip
YAML = """
schedules:
  - name: report
    cron: "0 6 * * *"
    job: {task: mail.send}
  - name: sweep
    every: 10m
    anchor: 2026-01-01T00:00:00Z
    job: {task: sweep}
"""


def test_schedules_are_applied_from_yaml_and_json(node: StandIn, tmp_path: Path) -> None:
    node.answer("PUT /v1/schedules/report", SCHEDULE)
    node.answer("PUT /v1/schedules/sweep", {**SCHEDULE, "name": "sweep", "paused": True, "next": []})
    file = tmp_path / "s.yaml"
    file.write_text(YAML)
    result = node.run("schedules", "apply", str(file))
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[1] == "sweep fires next paused"
    bodies = [
        {"cron": "0 6 * * *", "job": {"task": "mail.send"}},
        {"every": "10m", "anchor": "2026-01-01T00:00:00Z", "job": {"task": "sweep"}},
    ]
    asked = [(one.body, one.params) for one in node.asked]
    checked = [(body, {"dry_run": "true"}) for body in bodies]
    assert asked == [*checked, *((body, {}) for body in bodies)]
    node.asked.clear()
    assert node.run("schedules", "apply", str(file), "--dry-run").stdout == result.stdout
    assert [(one.body, one.params) for one in node.asked] == checked
    one = tmp_path / "s.json"
    one.write_text(json.dumps({"name": "report", "every": 5, "job": {"task": "t"}}))
    assert node.run("schedules", "apply", str(one)).exit_code == 0
    assert node.asked[-1].body == {"every": 5, "job": {"task": "t"}}


def test_if_one_is_refused_none_is_made(node: StandIn, tmp_path: Path) -> None:
    node.answer("PUT /v1/schedules/report", SCHEDULE)
    problem = {"code": "invalid", "detail": "there is no zone 'Nowhere'", "status": 422, "field": "zone"}
    node.answer("PUT /v1/schedules/sweep", problem, status=422)
    file = tmp_path / "s.yaml"
    file.write_text(YAML)
    result = node.run("schedules", "apply", str(file))
    assert result.exit_code == 2
    assert "schedule sweep: there is no zone 'Nowhere'" in result.stderr
    assert all(one.params == {"dry_run": "true"} for one in node.asked)


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("a.yaml", "a: [", "is not YAML"),
        ("a.yaml", "3", "no schedule with a name"),
        ("a.json", "{", "is not JSON"),
        ("a.json", '[{"name": "x"}, {"name": "x"}]', "twice"),
        (
            "a.yaml",
            "{name: x/y, every: 5, job: {task: t}}",
            "name 'x/y' is not a schedule's name",
        ),
        ("a.json", '[{"cron": "@daily"}]', "no schedule with a name"),
    ],
)
def test_a_file_that_holds_no_schedules_is_explained(
    node: StandIn, tmp_path: Path, name: str, text: str, says: str
) -> None:
    file = tmp_path / name
    file.write_text(text)
    result = node.run("schedules", "apply", str(file))
    assert (result.exit_code, node.asked) == (2, []) and says in result.stderr


def test_they_are_listed_and_shown(node: StandIn) -> None:
    node.answer("GET /v1/schedules", {"schedules": [SCHEDULE, {**SCHEDULE, "name": "x", "last": None}]})
    heading, first, second = node.run("schedules", "list").stdout.splitlines()
    assert heading.startswith("schedule  when") and first.startswith("report    0 6 * * *  UTC   in ")
    assert "submitted" in first and second.startswith("x ") and "submitted" not in second
    node.answer("GET /v1/schedules/report", {**SCHEDULE, "every": 90, "cron": None})
    shown = node.run("schedules", "show", "report").stdout
    assert "every 90" in shown and "2099-01-01T06:00:00Z" in shown and "06abcdefghjkm" in shown
    assert json.loads(node.run("schedules", "list", "--json").stdout)["schedules"][0] == SCHEDULE


def test_pause_resume_run_and_delete(node: StandIn) -> None:
    node.answer("PATCH /v1/schedules/report", SCHEDULE)
    node.answer("POST /v1/schedules/report/run", job(), status=201)
    node.answer("DELETE /v1/schedules/report", None)
    assert node.run("schedules", "pause", "report").stdout == "report is paused\n"
    assert node.run("schedules", "resume", "report").stdout.startswith("report fires next in")
    assert [asked.body for asked in node.asked] == [{"paused": True}, {"paused": False}]
    assert node.run("schedules", "run", "report").stdout == "06abcdefghjkm\n"
    assert node.run("schedules", "delete", "report").exit_code == 0
