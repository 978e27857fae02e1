"""Secrets of work are stored and never shown."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fairway.core.schedules import Progress
from fairway.desk import ScheduleView
from fairway.masking import MASK, is_secret_header, is_secret_variable, mask_address, mask_work
from fairway.schedule_spec import ScheduleSpec
from fairway.spec import new_job, read_spec
from fairway.strict import convert
from fairway.views import accepted_job, job_view, schedule_view

WORK = {
    "adapter": "command",
    "run": [["deploy"]],
    "env": {"COLOUR": "red", "DB_PASSWORD": "hunter2", "api_key": "hunter2"},
    "secrets": {"ANYTHING": "hunter2"},
}
REQUEST = {
    "adapter": "http",
    "url": "https://example.org",
    "headers": {"Authorization": "Bearer hunter2", "X-Colour": "red", "X-Api-Key": "hunter2"},
}


@pytest.mark.parametrize("work", [WORK, REQUEST])
def test_a_job_does_not_show_its_secrets_but_keeps_them(work: dict[str, Any]) -> None:
    job = new_job(read_spec({"work": work}), 7, 0)
    assert msgspec.json.decode(job.payload)["work"] == work
    shown = msgspec.json.encode(job_view(accepted_job(job), 0))
    assert b"hunter2" not in shown
    assert b"red" in shown and MASK.encode() in shown


def test_a_schedule_does_not_show_the_secrets_of_its_job() -> None:
    spec = convert({"cron": "0 3 * * *", "job": {"work": WORK}}, ScheduleSpec)
    shown = msgspec.json.encode(schedule_view(ScheduleView("nightly", spec, Progress(0), [], 0, 0)))
    assert b"hunter2" not in shown and b"red" in shown
    assert spec.job.work == WORK


def test_work_without_secrets_is_shown_as_it_is() -> None:
    work = {"adapter": "command", "run": [["echo", "secrets", "env"]], "env": {"A": "1"}}
    assert mask_work(work) == work
    assert msgspec.json.decode(msgspec.json.encode(
        job_view(accepted_job(new_job(read_spec({"work": work}), 7, 0)), 0)["work"]
    )) == work  # fmt: skip


@pytest.mark.parametrize(
    ("name", "secret"),
    [("GITHUB_TOKEN", True), ("DB_PASSWORD", True), ("AWS_SECRET_ACCESS_KEY", True), ("CLIENT_SECRET", True),
     ("TOKEN", True), ("PGPASSWORD", True), ("apikey", True), ("MYSQL_PWD", True), ("MONKEY", False),
     ("KEYBOARD", False), ("PATH", False), ("COMPASS", False)],
)  # fmt: skip
def test_variables_are_secret_by_their_names(name: str, secret: bool) -> None:
    assert is_secret_variable(name) == secret


@pytest.mark.parametrize(
    ("name", "secret"),
    [("Authorization", True), ("proxy-authorization", True), ("Cookie", True), ("X-Api-Key", True),
     ("X-Auth-Token", True), ("X-Hub-Signature-256", True), ("Accept", False), ("Idempotency-Key", False),
     ("Content-Type", False), ("User-Agent", False)],
)  # fmt: skip
def test_headers_are_secret_by_their_names(name: str, secret: bool) -> None:
    assert is_secret_header(name) == secret


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("postgresql://ann:hunter2@db/shop", "postgresql://ann:***@db/shop"),
        ("https://x.org/a?api_key=hunter2&page=2", "https://x.org/a?api_key=***&page=2"),
        ("https://x.org/a?page=2&Token=hunter2#top", "https://x.org/a?page=2&Token=***#top"),
        ("https://x.org:8080/a@b?keyboard=1", "https://x.org:8080/a@b?keyboard=1"),
    ],
)
def test_addresses_are_shown_without_their_secrets(address: str, shown: str) -> None:
    assert mask_address(address) == shown
    assert mask_work({"adapter": "http", "url": address})["url"] == shown
    assert mask_work({"adapter": "command", "env": {"DATABASE_URL": address}})["env"]["DATABASE_URL"] == shown
