"""Schedules from outside: made, shown, paused, run and deleted on a real node."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fairway.core.model import Extras
from fairway.schedule_spec import ScheduleSpec, job_of, read_schedule
from fairway.strict import convert
from fairway.times import MICRO
from tests.api.from_outside import Api

NOW = 1_800_000_000 * MICRO
PATH = "/v1/schedules/report"
SPEC = {"cron": "30 6 * * mon", "zone": "Europe/Berlin", "job": {"task": "mail.send", "args": [1]}}


async def test_a_schedule_is_made_shown_and_replaced(api: Api) -> None:
    made = await api("PUT", PATH, {**SPEC, "overlap": "skip", "missed": "all", "jitter": "5s"}, 201)
    assert (made["name"], made["cron"], made["zone"]) == ("report", "30 6 * * mon", "Europe/Berlin")
    assert (made["overlap"], made["missed"], made["missed_most"], made["jitter"]) == (
        "skip",
        "all",
        100,
        "5s",
    )
    assert len(made["next"]) == 5 and all(fire[14:16] == "30" for fire in made["next"])
    assert (made["last"], made["paused"], made["pending"]) == (None, False, 0)
    assert (made["job"]["task"], made["job"]["args"]) == ("mail.send", [1])
    replaced = await api("PUT", PATH, {"every": "10m", "job": {"task": "mail.send"}})
    assert (replaced["cron"], replaced["every"], replaced["created_at"]) == (None, "10m", made["created_at"])
    assert await api("GET", PATH) == replaced
    assert await api("GET", "/v1/schedules") == {"schedules": [replaced]}


async def test_a_dry_run_says_what_would_be_and_changes_nothing(api: Api) -> None:
    shown = await api("PUT", f"{PATH}?dry_run=true", SPEC)
    assert len(shown["next"]) == 5
    assert await api("GET", "/v1/schedules") == {"schedules": []}
    made = await api("PUT", PATH, SPEC, 201)
    assert made["next"] == shown["next"]
    shown = await api("PUT", f"{PATH}?dry_run=true", {"every": "10m", "job": {"task": "mail.send"}})
    assert (shown["every"], shown["created_at"]) == ("10m", made["created_at"])
    assert await api("GET", PATH) == made
    await api("PUT", f"{PATH}?dry_run=true", {**SPEC, "zone": "Nowhere"}, 422)


async def test_pause_and_resume(api: Api) -> None:
    await api("PUT", PATH, SPEC, 201)
    paused = await api("PATCH", PATH, {"paused": True})
    assert paused["paused"] and paused["next"] == []
    assert (await api("PUT", PATH, SPEC))["paused"], "who deploys does not resume"
    assert (await api("PATCH", PATH, {"paused": False}))["next"] != []


async def test_run_by_hand(api: Api) -> None:
    await api("PUT", PATH, SPEC, 201)
    job = await api("POST", f"{PATH}/run", status=201)
    assert (job["task"], job["args"], job["state"]) == ("mail.send", [1], "queued")
    last = (await api("GET", PATH))["last"]
    assert (last["job"], last["what"]) == (job["id"], "run")
    assert (await api("GET", f"/v1/jobs/{job['id']}"))["id"] == job["id"]


async def test_a_job_that_the_unique_key_had_already_is_the_last_one(api: Api) -> None:
    await api("PUT", PATH, {**SPEC, "job": {"task": "mail.send", "unique": "k"}}, 201)
    first = await api("POST", f"{PATH}/run", status=201)
    again = await api("POST", f"{PATH}/run", status=201)
    assert again["id"] == first["id"]
    last = (await api("GET", PATH))["last"]
    assert (last["job"], last["what"]) == (first["id"], "existed")


async def test_delete(api: Api) -> None:
    await api("PUT", PATH, SPEC, 201)
    await api("DELETE", PATH, status=204)
    for method, path, body in (
        ("GET", PATH, None),
        ("DELETE", PATH, None),
        ("PATCH", PATH, {"paused": True}),
        ("POST", f"{PATH}/run", None),
    ):
        assert (await api(method, path, body, 404))["code"] == "no_such_schedule"


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"job": {"task": "t"}}, "cron"),
        ({**SPEC, "every": 5}, "cron"),
        ({**SPEC, "cron": "61 * * * *"}, "cron"),
        ({**SPEC, "cron": "0 0 30 2 *"}, "cron"),
        ({**SPEC, "zone": "Mars/Olympus"}, "zone"),
        ({**SPEC, "anchor": "2026-01-01T00:00:00Z"}, "anchor"),
        ({"every": "0.5s", "job": {"task": "t"}}, "every"),
        ({"every": "soon", "job": {"task": "t"}}, "every"),
        ({"every": 5, "zone": "UTC", "job": {"task": "t"}}, "zone"),
        ({"every": 5, "anchor": "yesterday", "job": {"task": "t"}}, "anchor"),
        ({**SPEC, "jitter": -1}, "jitter"),
        ({**SPEC, "missed": "maybe"}, "missed"),
        ({**SPEC, "missed_most": 0}, "missed_most"),
        ({**SPEC, "overlap": 1}, "overlap"),
        ({**SPEC, "colour": 1}, "colour"),
        ({**SPEC, "job": {}}, "job.task"),
        ({**SPEC, "job": {"task": "t", "delay": 5}}, "job.delay"),
        ({**SPEC, "job": {"task": "t", "run_at": "2026-01-01T00:00:00Z"}}, "job.run_at"),
        ({**SPEC, "job": {"task": "t", "deadline": "2036-01-01T00:00:00Z"}}, "job.deadline"),
        ({**SPEC, "job": {"task": "t", "deadline": 0}}, "job.deadline"),
        ({**SPEC, "job": {"task": "t", "queue": ".."}}, "job.queue"),
        ({**SPEC, "job": {"task": "t", "priority": "x"}}, "job.priority"),
        ({"cron": "@daily"}, "job"),
    ],
    ids=json.dumps,
)
async def test_a_bad_schedule_is_refused_and_changes_nothing(api: Api, spec: Any, field: str) -> None:
    kept = await api("PUT", PATH, SPEC, 201)
    assert (await api("PUT", PATH, spec, 422))["field"] == field
    assert await api("GET", "/v1/schedules") == {"schedules": [kept]}


def test_the_deadline_of_a_fire_counts_from_when_its_job_is_due() -> None:
    spec = convert({"every": 60, "job": {"task": "t", "deadline": "5m"}, "jitter": "10m"}, ScheduleSpec)
    schedule = read_schedule("report", spec)
    for fire in (NOW, NOW - 10 * 86_400 * MICRO):  # the second is made up for: it is due now
        job = job_of(schedule, spec, fire, 7, NOW)
        assert job.extras == Extras(deadline=job.run_at + 300 * MICRO)


async def test_a_name_that_is_none_is_refused(api: Api) -> None:
    assert (await api("PUT", "/v1/schedules/a%20b", SPEC, 422))["field"] == "name"
