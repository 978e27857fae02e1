"""Unique keys over HTTP: payloads as keys, keys that last, and newer jobs that replace older ones."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from fairway.clock import wall
from fairway.node.app import Node
from fairway.wire.messages import Begin, Result, Results, Task
from tests.api.from_outside import Api, SocketWorker

Connect = Callable[[], Awaitable[SocketWorker]]
KWARGS = {"a": [1, {"x": None, "y": "é"}], "b": 2.5}
SAME = {"b": 2.5, "a": [1, {"y": "é", "x": None}]}


async def refuse(api: Api, field: str, **spec: Any) -> Any:
    problem = await api("POST", "/v1/jobs", {"task": "mail.send", **spec}, 422)
    assert problem["field"] == field
    return problem


async def run(connect_worker: Connect) -> None:
    """Let a worker run one job well."""
    worker = await connect_worker()
    await worker.join(tasks=[Task("mail.send")])
    begin = await worker.read_until(Begin)
    [assignment] = begin.assignments
    await worker.send(Results([Result(assignment.job, assignment.attempt, "ok", b"7", 0.1)]))


async def test_equal_jobs_are_one_however_their_names_are_ordered(api: Api) -> None:
    first = await api.submit(unique=True, kwargs=KWARGS)
    assert first["unique"].startswith("payload=")
    again = await api("POST", "/v1/jobs", {"task": "mail.send", "kwargs": SAME, "unique": True}, 200)
    assert (again["id"], again["unique"]) == (first["id"], first["unique"])
    for other in ({"args": [1]}, {"kwargs": {"a": 1}}, {"task": "mail.other"}, {"queue": "elsewhere"}):
        spec = {"unique": True, "kwargs": SAME, **other}
        assert (await api.submit(**spec))["id"] != first["id"]


async def test_equal_commands_are_one(api: Api) -> None:
    work = {"adapter": "command", "run": [["echo", "a"]], "env": {"A": "1", "B": "2"}}
    same = {"env": {"B": "2", "A": "1"}, "run": [["echo", "a"]], "adapter": "command"}
    first = await api.submit(work=work, unique=True)
    assert (await api("POST", "/v1/jobs", {"work": same, "unique": True}, 200))["id"] == first["id"]


async def test_a_queue_in_set_mode_gives_jobs_below_it_their_keys(api: Api) -> None:
    queue = await api("PATCH", "/v1/queues/acme", {"unique": True})
    assert queue["settings"]["unique"] is True
    first = await api.submit(queue="acme/emails", args=[1])
    assert first["unique"].startswith("payload=")
    ids = await api(
        "POST",
        "/v1/jobs/bulk",
        {"jobs": [{"task": "mail.send", "queue": "acme/emails", "args": [n]} for n in (1, 2, 2)]},
    )
    assert ids["ids"][0] == first["id"] and ids["ids"][1] == ids["ids"][2]
    assert (await api.submit(queue="acme/emails", args=[1], unique="own"))["unique"] == "own"
    await api("PATCH", "/v1/queues/acme", {"unique": None})
    assert (await api.submit(queue="acme/emails", args=[1]))["unique"] is None


async def test_false_is_no_key(api: Api) -> None:
    assert (await api.submit(unique=False))["unique"] is None


async def test_a_key_that_lasts_answers_with_the_ended_job(
    api: Api, connect_worker: Connect, node: Node
) -> None:
    first = await api.submit(unique="k", unique_for="1h")
    assert first["unique_for"] == 3600
    await run(connect_worker)
    ended = await api("GET", f"/v1/jobs/{first['id']}?wait=10")
    assert ended["state"] == "succeeded"
    again = await api("POST", "/v1/jobs", {"task": "mail.send", "unique": "k"}, 200)
    assert (again["id"], again["outcome"]) == (first["id"], {"ok": True, "value": 7})
    await node.store.tidy(wall(), keep_ended_seconds=-1)  # as when it was kept for long enough
    problem = await api("POST", "/v1/jobs", {"task": "mail.send", "unique": "k"}, 409)
    assert problem["code"] == "unique_taken"


async def test_the_newest_job_replaces_the_one_that_waits(api: Api) -> None:
    first = await api.submit(unique="k", delay="1h")
    second = await api.submit(unique="k", replace=True, delay="1h")
    third = await api.submit(unique="k", replace=True, delay="1h")
    assert len({first["id"], second["id"], third["id"]}) == 3
    for old in (first, second):
        ended = await api("GET", f"/v1/jobs/{old['id']}?wait=10")
        assert (ended["state"], ended["outcome"]["reason"]) == ("cancelled", "replaced")
    assert (await api("GET", f"/v1/jobs/{third['id']}"))["state"] == "scheduled"
    found = await api("GET", "/v1/jobs?q=state:waiting")
    assert [job["id"] for job in found["jobs"]] == [third["id"]]


async def test_payloads_may_be_replaced_too(api: Api) -> None:
    first = await api.submit(unique=True, args=[1])
    second = await api.submit(unique=True, replace=True, args=[1])
    assert (await api("GET", f"/v1/jobs/{first['id']}?wait=10"))["outcome"]["reason"] == "replaced"
    assert (await api("GET", f"/v1/jobs/{second['id']}"))["state"] == "queued"


async def test_what_needs_a_key_is_refused_without_one(api: Api) -> None:
    await refuse(api, "unique_for", unique_for="1h")
    await refuse(api, "replace", replace=True)
    await refuse(api, "unique_for", unique="k", unique_for=0)
    await refuse(api, "unique_for", unique="k", unique_for="soon")
    await refuse(api, "unique", unique="payload=abc")
    await refuse(api, "unique", unique=7)
    await refuse(api, "replace", unique="k", replace="yes")
    assert (await api("GET", "/v1/jobs"))["jobs"] == []
    schedule = {"every": "1h", "job": {"task": "mail.send", "replace": True}}
    assert (await api("PUT", "/v1/schedules/s", schedule, 422))["field"] == "replace"


async def test_the_jobs_of_a_schedule_may_have_their_payload_as_key(api: Api) -> None:
    job = {"task": "mail.send", "unique": True, "unique_for": "1d"}
    await api("PUT", "/v1/schedules/s", {"every": "1h", "job": job}, 201)
    first = await api("POST", "/v1/schedules/s/run", None, 201)
    second = await api("POST", "/v1/schedules/s/run", None, 201)
    assert first["id"] == second["id"] and first["unique"].startswith("payload=")


@pytest.mark.parametrize("spec", [{"unique": True}, {"unique": "k"}])
async def test_a_job_that_is_moved_or_tried_again_meets_the_key(api: Api, spec: dict[str, Any]) -> None:
    first = await api.submit(queue="a", **spec)
    second = await api.submit(queue="b", unique_for="1h", **spec)
    await api("DELETE", f"/v1/jobs/{second['id']}")
    problem = await api("PATCH", f"/v1/jobs/{first['id']}", {"queue": "b"}, 409)
    assert problem["code"] == "unique_taken"
    third = await api.submit(queue="b", replace=True, **spec)
    assert (await api("POST", f"/v1/jobs/{second['id']}/retry", None, 409))["code"] == "unique_taken"
    await api("DELETE", f"/v1/jobs/{third['id']}")
    assert (await api("POST", f"/v1/jobs/{second['id']}/retry"))["state"] == "queued"
