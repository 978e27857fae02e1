"""The API from outside: every call on a real node."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

import httpx
import pytest

from fairway.api.answers import Receive, Scope, Send
from fairway.api.app import build_api
from fairway.api.guard import Guard
from fairway.api.queues import SettingsChanges
from fairway.api.server import CannotListen, Server
from fairway.api.tally import Tally
from fairway.client.problems import error_from
from fairway.node.app import Node
from fairway.wire.messages import (
    Acks,
    Adjust,
    Beat,
    Begin,
    Heard,
    Held,
    LogPiece,
    Logs,
    Note,
    Notes,
    Result,
    Results,
    Stop,
    Task,
    Welcome,
)
from tests.api.from_outside import SECONDS, Api, SocketWorker

Connect = Callable[[], Awaitable[SocketWorker]]
MAIL = [Task("mail.send")]


async def eventually(look: Callable[[], Awaitable[Any]]) -> Any:
    """Look until there is something to see."""
    for _ in range(500):
        if seen := await look():
            return seen
        await asyncio.sleep(0.02)
    raise AssertionError("it never came")


# --- submitting --------------------------------------------------------------------------------------
async def test_a_submitted_job_can_be_read_back(api: Api) -> None:
    spec = {
        "task": "mail.send",
        "args": ["é", {"a": [None]}],
        "queue": "acme/emails",
        "flow": "<b>",
        "priority": 3,
    }
    answer = await api.client.post("/v1/jobs", json=spec)
    job = answer.json()
    assert answer.status_code == 201
    assert answer.headers["location"] == f"/v1/jobs/{job['id']}"
    again = await api("GET", answer.headers["location"])
    assert {name: again[name] for name in spec} == {name: job[name] for name in spec} == spec
    assert again["state"] == job["state"] == "queued"


async def test_the_same_idempotency_key_gives_the_same_job(api: Api) -> None:
    key = {"Idempotency-Key": "k-1"}
    first = await api("POST", "/v1/jobs", {"task": "a", "args": [1]}, 201, headers=key)
    second = await api.client.post(
        "/v1/jobs",
        content=b'{ "args": [1],\n "task": "a" }',
        headers={**key, "content-type": "application/json"},
    )
    assert (second.status_code, second.json()["id"]) == (200, first["id"])
    problem = await api("POST", "/v1/jobs", {"task": "a", "args": [2]}, 409, headers=key)
    assert problem["code"] == "idempotency_conflict"


async def test_the_same_unique_key_gives_the_existing_job(api: Api) -> None:
    first = await api.submit(unique="one")
    second = await api("POST", "/v1/jobs", {"task": "other.task", "unique": "one"}, 200)
    assert second["id"] == first["id"]
    assert second["task"] == "mail.send"


async def test_many_jobs_are_accepted_in_their_order(api: Api) -> None:
    jobs = [{"task": "a", "args": [number]} for number in range(300)]
    ids = (await api("POST", "/v1/jobs/bulk", {"jobs": jobs}))["ids"]
    assert len(set(ids)) == 300
    assert (await api("GET", f"/v1/jobs/{ids[123]}"))["args"] == [123]


async def test_jobs_of_one_queue_get_ids_that_follow_each_other(api: Api) -> None:
    jobs = [{"task": "a", "args": [number], "queue": f"q{number % 3}"} for number in range(30)]
    ids = (await api("POST", "/v1/jobs/bulk", {"jobs": jobs}))["ids"]
    assert [(await api("GET", f"/v1/jobs/{job}"))["args"] for job in ids] == [
        [number] for number in range(30)
    ]
    assert sorted(ids) == ids[0::3] + ids[1::3] + ids[2::3]


async def test_one_bad_job_among_many_refuses_them_all(api: Api) -> None:
    jobs = [{"task": "a"}, {"task": "a", "queue": "not a queue"}]
    problem = await api("POST", "/v1/jobs/bulk", {"jobs": jobs}, 422)
    assert problem["field"] == "jobs[1].queue"
    problem = await api("POST", "/v1/jobs/bulk", {"jobs": [*jobs[:1], {"task": "a", "priority": "x"}]}, 422)
    assert problem["field"] == "jobs[1].priority"
    assert (await api("GET", "/v1/jobs"))["jobs"] == []


async def test_a_job_may_bring_the_limit_of_its_queue(api: Api) -> None:
    await api.submit(queue="acme/gpu", concurrency=2)
    assert (await api("GET", "/v1/queues/acme/gpu"))["settings"]["limit"] == 2


# --- looking -----------------------------------------------------------------------------------------
async def test_a_search_goes_to_the_end_page_by_page(api: Api) -> None:
    wanted = (await api("POST", "/v1/jobs/bulk", {"jobs": [{"task": "a", "queue": "x/y"}] * 7}))["ids"]
    await api.submit(queue="other")
    found: list[str] = []
    cursor = None
    for _ in range(9):
        params = {"q": "queue:x/* state:waiting", "sort": "created_at", "limit": 3}
        page = await api("GET", "/v1/jobs", params={**params, **({"cursor": cursor} if cursor else {})})
        found += [job["id"] for job in page["jobs"]]
        cursor = page["next"]
        if cursor is None:
            break
    assert found == wanted
    assert page["total"] == 7


async def test_a_waiting_job_says_why(api: Api) -> None:
    job = await api.submit()
    assert (await api("GET", f"/v1/jobs/{job['id']}"))["waiting"]["reason"] == "no_worker"
    later = await api.submit(delay="1h")
    shown = await api("GET", f"/v1/jobs/{later['id']}")
    assert (shown["state"], shown["waiting"]["reason"]) == ("scheduled", "not_due")


async def test_waiting_for_a_job_ends_with_the_job(api: Api) -> None:
    job = await api.submit()
    waiting = asyncio.create_task(api("GET", f"/v1/jobs/{job['id']}?wait=10s"))
    await asyncio.sleep(0)
    await api("DELETE", f"/v1/jobs/{job['id']}")
    ended = await waiting
    assert (ended["state"], ended["outcome"]["reason"]) == ("cancelled", "cancelled")


async def test_waiting_for_a_job_ends_with_the_time(api: Api) -> None:
    job = await api.submit()
    assert (await api("GET", f"/v1/jobs/{job['id']}?wait=100ms"))["state"] == "queued"


async def test_what_does_not_exist_is_not_found(api: Api) -> None:
    for path in (
        "/v1/jobs/0000000000000",
        "/v1/jobs/junk",
        "/v1/queues/none",
        "/v1/workers/none",
        "/v2",
        "/v1/jobs/",
    ):
        await api("GET", path, status=404)
    for action in ("retry", "log"):
        await api("POST" if action == "retry" else "GET", f"/v1/jobs/0000000000000/{action}", status=404)


# --- changing ----------------------------------------------------------------------------------------
async def test_a_waiting_job_can_be_changed(api: Api) -> None:
    job = await api.submit()
    path = f"/v1/jobs/{job['id']}"
    changed = await api(
        "PATCH", path, {"queue": "b/c", "flow": "u1", "priority": -5, "tags": ["gpu"], "max_attempts": None}
    )
    assert (changed["queue"], changed["flow"], changed["priority"]) == ("b/c", "u1", -5)
    assert (changed["tags"], changed["max_attempts"]) == (["gpu"], None)
    assert (await api("PATCH", path, {"delay": "1h"}))["state"] == "scheduled"
    assert (await api("PATCH", path, {"run_at": "2020-01-01T00:00:00Z", "flow": None}))["state"] == "queued"
    assert (await api("GET", path))["flow"] is None


async def test_the_deadline_of_a_waiting_job_can_be_changed(api: Api) -> None:
    job = await api.submit(deadline="2035-01-01T00:00:00Z")
    path = f"/v1/jobs/{job['id']}"
    assert job["deadline"] == "2035-01-01T00:00:00.000000Z"
    assert (await api("PATCH", path, {"priority": 1}))["deadline"] == job["deadline"]
    for changes, field in (
        ({"run_at": "2036-01-01T00:00:00Z"}, "run_at"),
        ({"run_at": "2034-01-01T00:00:00Z", "deadline": "2033-01-01T00:00:00Z"}, "deadline"),
    ):
        assert (await api("PATCH", path, changes, 422))["field"] == field
    assert (await api("PATCH", path, {"deadline": None, "delay": "1h"}))["deadline"] is None
    later = await api("PATCH", path, {"deadline": "2h"})
    assert later["run_at"] < later["deadline"]
    assert (await api("GET", path))["deadline"] == later["deadline"]


async def test_a_job_that_does_not_begin_in_time_fails_and_may_be_tried_again(api: Api) -> None:
    job = await api.submit(deadline="200ms", queue="acme")
    ended = await api("GET", f"/v1/jobs/{job['id']}?wait=20s")
    assert (ended["state"], ended["outcome"]["reason"], ended["attempt"]) == ("failed", "expired", 0)
    again = await api("POST", f"/v1/jobs/{job['id']}/retry")
    assert (again["state"], again["deadline"]) == ("queued", None)


async def test_an_at_most_once_job_gets_no_more_attempts(api: Api) -> None:
    job = await api.submit(delivery="at_most_once")
    for attempts in (2, None):
        problem = await api("PATCH", f"/v1/jobs/{job['id']}", {"max_attempts": attempts}, 422)
        assert problem["field"] == "max_attempts"


async def test_a_cancelled_job_can_be_retried(api: Api) -> None:
    job = await api.submit()
    path = f"/v1/jobs/{job['id']}"
    await api("POST", f"{path}/retry", status=409)
    assert (await api("DELETE", path))["state"] == "cancelled"
    assert (await api("DELETE", path))["state"] == "cancelled"
    await api("PATCH", path, {"priority": 1}, 409)
    revived = await api("POST", f"{path}/retry")
    assert (revived["state"], revived["generation"]) == ("queued", 1)


async def test_a_body_that_was_not_asked_for_changes_nothing(api: Api) -> None:
    path = f"/v1/jobs/{(await api.submit())['id']}"
    term = (await api("GET", "/v1/cluster"))["term"]
    await api("DELETE", path)
    await api("POST", f"{path}/retry", status=415, data={"x": "1"})
    await api("POST", f"{path}/retry", {"soon": True}, status=422)
    await api("POST", "/v1/cluster/step-down", status=415, content=b"garbage")
    assert (await api("GET", path))["state"] == "cancelled"
    assert (await api("GET", "/v1/cluster"))["term"] == term
    assert (await api("POST", f"{path}/retry", {}))["state"] == "queued"


async def test_only_an_unknown_job_can_be_resolved(api: Api) -> None:
    job = await api.submit()
    await api("POST", f"/v1/jobs/{job['id']}/resolve", {"succeeded": True, "value": 1}, 409)
    await api("POST", f"/v1/jobs/{job['id']}/resolve", {"succeeded": False, "value": 1}, 422)


# --- queues ------------------------------------------------------------------------------------------
USUAL = dict.fromkeys(SettingsChanges.__struct_fields__) | {
    "lend": True, "priority": 0, "weight": 1.0, "paused": False,
}  # fmt: skip


async def test_a_queue_is_set_changed_and_forgotten(api: Api) -> None:
    put = await api("PUT", "/v1/queues/acme/a", {"limit": 3, "paused": True})
    assert put["settings"] == USUAL | {"limit": 3, "paused": True}
    patched = await api("PATCH", "/v1/queues/acme/a", {"limit": None})
    assert patched["settings"] == USUAL | {"paused": True}
    assert (await api("PUT", "/v1/queues/acme/a", {}))["settings"]["paused"] is False
    await api("DELETE", "/v1/queues/acme/a", status=204)
    await api("GET", "/v1/queues/acme/a", status=404)


@pytest.mark.parametrize(("name", "value", "usual"), [("quantum", 5, "auto"), ("perturb", 30.0, 0)])
async def test_a_default_may_be_set_by_its_name(api: Api, name: str, value: float, usual: Any) -> None:
    put = await api("PUT", "/v1/queues/q", {"discipline": "sfq", name: value})
    assert put["settings"][name] == value
    assert (await api("PATCH", "/v1/queues/q", {name: usual}))["settings"][name] is None
    applied = await api("POST", "/v1/queues/-/apply", {"queues": {"q": {"discipline": "sfq", name: usual}}})
    assert applied["changes"] == []


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("quantum", "none", "quantum: expected a whole number, auto or null, got 'none'"),
        ("perturb", 0.5, "perturb is 0 (never) or 1 second and more"),
    ],
)
async def test_what_is_no_default_by_name_is_refused(api: Api, name: str, value: Any, says: str) -> None:
    refused = await api("PUT", "/v1/queues/q", {name: value}, 422)
    assert (refused["field"], refused["detail"]) == (name, says)


async def test_a_queue_may_have_no_bound_below_one_that_has(api: Api) -> None:
    none = {"max_attempts": "none", "max_crashes": "none", "timeout": "none"}
    file = {"acme": {"max_attempts": 3, "max_crashes": 2, "timeout": "90s"}, "acme/a": none}
    await api("POST", "/v1/queues/-/apply", {"queues": file})
    assert (await api("GET", "/v1/queues/acme/a"))["settings"] == USUAL | none
    job = await api("GET", f"/v1/jobs/{(await api.submit(queue='acme/a'))['id']}")
    assert {name: job[name] for name in none} == dict.fromkeys(none)
    patched = await api("PATCH", "/v1/queues/acme/a", {**none, "timeout": None})
    assert patched["settings"]["timeout"] is None
    assert (await api("GET", f"/v1/jobs/{job['id']}"))["timeout"] == 90.0
    for name in ("grace", "retention"):
        assert (await api("PATCH", "/v1/queues/acme/a", {name: "none"}, 422))["field"] == name


async def test_a_job_shows_what_its_queue_says_where_it_said_nothing(api: Api) -> None:
    jobs = [await api.submit(queue="acme/a", **said) for said in ({}, {"timeout": None, "max_attempts": 10})]
    settings = {"max_attempts": 3, "timeout": "90s", "backoff": {"first": "2s"}, "retention": "30d"}
    put = await api("PUT", "/v1/queues/acme", settings)
    assert put["settings"] == USUAL | {
        "max_attempts": 3,
        "timeout": 90.0,
        "backoff": {"first": 2.0, "max": 3600.0},
        "retention": 30 * 86_400.0,
    }
    shown = [await api("GET", f"/v1/jobs/{job['id']}") for job in jobs]
    assert [(job["max_attempts"], job["timeout"]) for job in shown] == [(3, 90.0), (10, None)]
    assert [job["backoff"]["first"] for job in shown] == [2.0, 2.0]
    await api("DELETE", f"/v1/jobs/{jobs[0]['id']}")
    listed = (await api("GET", "/v1/jobs?q=state:cancelled"))["jobs"]
    assert [job["max_attempts"] for job in listed] == [3]
    changed = await api("PATCH", f"/v1/jobs/{jobs[1]['id']}", {"max_attempts": 7})
    assert (changed["max_attempts"], changed["timeout"]) == (7, None)


async def test_a_queue_that_holds_jobs_is_not_forgotten(api: Api) -> None:
    await api.submit(queue="acme/a")
    await api("DELETE", "/v1/queues/acme/a", status=409)


async def test_the_tree_counts_what_is_below(api: Api) -> None:
    await api.submit(queue="acme/a")
    await api.submit(queue="acme/b", delay=60)
    tree = {queue["path"]: queue for queue in (await api("GET", "/v1/queues"))["queues"]}
    assert list(tree) == ["acme", "acme/a", "acme/b"]
    assert (tree["acme"]["waiting"], tree["acme"]["scheduled"]) == (1, 1)


async def test_the_next_jobs_come_in_the_order_they_will_begin(api: Api) -> None:
    first, second, third = [(await api.submit(priority=priority))["id"] for priority in (0, 5, 0)]
    page = await api("GET", "/v1/queues/default/-/next?n=10")
    assert [job["id"] for job in page["jobs"]] == [second, first, third]


async def test_the_next_jobs_of_a_branch_take_turns(api: Api) -> None:
    jobs = [(await api.submit(queue=queue))["id"] for queue in ("acme/a", "acme/a", "acme/b")]
    page = await api("GET", "/v1/queues/acme/-/next?n=2")
    assert [job["id"] for job in page["jobs"]] == [jobs[0], jobs[2]]
    await api("GET", "/v1/queues/nobody/-/next", status=404)


async def test_a_queue_its_flows_and_its_tenant_have_numbers(api: Api, connect_worker: Connect) -> None:
    await api("PUT", "/v1/queues/acme/a", {"discipline": "sfq"})
    worker = await connect_worker()
    await worker.join(tasks=MAIL)
    assert isinstance(await worker.read(), Welcome)
    job = await api.submit(queue="acme/a", flow="ann")
    (assignment,) = (await worker.read_until(Begin)).assignments
    await finish(worker, assignment.job, b"1")
    await api("GET", f"/v1/jobs/{job['id']}?wait=10s")
    shown = await api("GET", "/v1/queues/acme/a")
    for found in (shown, *(await api("GET", "/v1/queues"))["queues"]):
        assert (found["begun"], found["ended"], found["errors"]) == (1, 1, 0.0)
        assert found["rates"]["in"] > 0 and found["rates"]["out"] > 0
        assert found["wait"]["p50"] <= found["wait"]["p99"] and found["run"]["p50"] > 0
        assert found["slot_seconds"] > 0
    assert [(flow["flow"], flow["ended"]) for flow in shown["flows"]] == [("ann", 1)]
    assert shown["flows"][0]["rates"]["in"] > 0
    assert (shown["flows"][0]["weight"], shown["flows"][0]["share"]) == (1.0, 1.0)
    numbers = (await api.client.get("/metrics")).text
    assert 'fairway_tenant_ended_total{tenant="acme"} 1' in numbers
    assert 'fairway_tenant_failed_total{tenant="acme"} 0' in numbers
    assert 'fairway_tenant_error_share{tenant="acme"} 0.0' in numbers
    assert 'fairway_tenant_limited{tenant="acme",by="limit"} 0' in numbers


async def test_a_flow_that_is_held_back_is_shown_with_its_wait_and_what_limits_it(api: Api) -> None:
    await api("PUT", "/v1/queues/acme", {"discipline": "sfq", "paused": True})
    for flow in ("ann", "ann", "bob"):
        await api.submit(queue="acme", flow=flow)
    shown = (await api("GET", "/v1/queues/acme"))["flows"]
    assert [(one["flow"], one["waiting"], one["running"]) for one in shown] == [("ann", 2, 0), ("bob", 1, 0)]
    for one in shown:
        assert one["limited_by"] == "paused of 'acme'"
        assert one["oldest_wait"] >= 0
        assert one["wait"] is None and one["share"] is None


async def test_demand_is_what_waits_for_slots(api: Api, connect_worker: Connect) -> None:
    assert await api("GET", "/v1/demand") == {"slots": 0, "free": 0.0, "shapes": [], "more": 0}
    worker = await connect_worker()
    await worker.join(tasks=MAIL)
    assert isinstance(await worker.read(), Welcome)
    await api("PUT", "/v1/queues/shut", {"paused": True})
    await api.submit(tags=["gpu"])
    await api.submit(tags=["gpu"], queue="shut")
    answer = await api("GET", "/v1/demand")
    (shape,) = answer["shapes"]
    assert (shape["adapter"], shape["task"], shape["tags"]) == ("python", "mail.send", ["gpu"])
    assert (shape["jobs"], shape["slots"], shape["slots_there"]) == (1, 1.0, 0)
    assert answer["slots"] == answer["free"] > 0


# --- workers -----------------------------------------------------------------------------------------
async def test_a_worker_gets_a_job_and_its_value_comes_back(api: Api, connect_worker: Connect) -> None:
    worker = await connect_worker()
    await worker.join(tasks=MAIL)
    assert isinstance(await worker.read(), Welcome)
    job = await api.submit(args=[1])
    (assignment,) = (await worker.read_until(Begin)).assignments
    assert (assignment.task, json.loads(assignment.payload)) == ("mail.send", {"args": [1], "kwargs": {}})
    running = await api("GET", f"/v1/jobs/{job['id']}")
    assert (running["state"], running["worker"], running["attempt"]) == ("running", "w1", 1)
    await finish(worker, assignment.job, b'{"sent":true}')
    ended = await api("GET", f"/v1/jobs/{job['id']}?wait=10s")
    assert ended["outcome"] == {"ok": True, "value": {"sent": True}}


async def finish(worker: SocketWorker, job: int, value: bytes, attempt: int = 1) -> None:
    await worker.send(Results([Result(job, attempt, "ok", value, 0.01)]))
    assert (await worker.read_until(Acks)).done == [(job, attempt)]


async def test_notes_of_a_worker_are_seen_in_the_job_and_in_its_events(
    api: Api, connect_worker: Connect
) -> None:
    worker = await connect_worker()
    await worker.join(tasks=MAIL)
    job = await api.submit()
    path = f"/v1/jobs/{job['id']}"
    number = (await worker.read_until(Begin)).assignments[0].job
    assert (await api("GET", path + "/attempts"))["attempts"][0]["progress"] is None
    await worker.send(Notes([Note(number, 1, 0.25, "a quarter", b"{}", 0.5, 1000)]))

    async def progress() -> Any:
        return (await api("GET", path))["progress"]

    await eventually(progress)
    found = await api("GET", path)
    assert (found["progress"]["fraction"], found["progress"]["text"]) == (0.25, "a quarter")
    assert found["usage"] == {"cpu_seconds": 0.5, "memory_bytes": 1000} and found["checkpoint_at"]
    (listed,) = (await api("GET", "/v1/jobs"))["jobs"]
    assert listed["progress"] == found["progress"]
    (attempt,) = (await api("GET", path + "/attempts"))["attempts"]
    assert (attempt["attempt"], attempt["worker"], attempt["usage"]) == (1, "w1", found["usage"])
    event = await first_event(api, "kind:job.progress")
    assert (event["job"], event["detail"]) == (job["id"], {"fraction": 0.25, "text": "a quarter"})
    await api("GET", "/v1/jobs/0000000000000/attempts", status=404)


async def first_event(api: Api, query: str) -> Any:
    """Return the first event of a query, told before or from now on."""
    async with asyncio.timeout(SECONDS):
        params = {"q": query, "after": "0.0"}
        async with api.client.stream("GET", "/v1/events", params=params) as stream:
            lines = (line async for line in stream.aiter_lines() if line.startswith("data: "))
            return json.loads((await anext(lines)).removeprefix("data: "))


async def test_a_bad_note_is_left_out_counted_and_logged_and_its_worker_stays(
    api: Api, connect_worker: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    worker = await connect_worker()
    await worker.join(tasks=MAIL)
    job = await api.submit()
    number = (await worker.read_until(Begin)).assignments[0].job
    await worker.send(
        Notes([Note(number, 1, checkpoint=b"1e999"), Note(number, 1, 0.5), Note(number, 1, 2.0)])
    )
    await worker.send(Beat([Held(number, 1)], number=1))
    await worker.read_until(Heard)
    found = await api("GET", f"/v1/jobs/{job['id']}")
    assert (found["progress"]["fraction"], found["checkpoint_at"]) == (0.5, None)
    assert "fairway_worker_notes_refused_total 2" in (await api.client.get("/metrics")).text
    assert caplog.text.count("note is left out") == 1
    await finish(worker, number, b"1")


async def test_a_note_of_an_attempt_that_is_not_its_own_changes_nothing(
    api: Api, connect_worker: Connect
) -> None:
    honest = await connect_worker()
    await honest.join(tasks=MAIL)
    job = await api.submit()
    number = (await honest.read_until(Begin)).assignments[0].job
    stranger = await connect_worker()
    await stranger.join("w3", tasks=MAIL)
    await stranger.send(Notes([Note(number, 1, 0.9, checkpoint=b"9")]))  # of an attempt that is not its own
    await stranger.send(Beat([], number=1))
    await stranger.read_until(Heard)
    found = await api("GET", f"/v1/jobs/{job['id']}")
    assert (found["progress"], found["checkpoint_at"], found["state"]) == (None, None, "running")
    await finish(honest, number, b"1")


async def test_the_log_of_a_job_is_shown_and_followed(api: Api, connect_worker: Connect) -> None:
    worker = await connect_worker()
    await worker.join(tasks=MAIL)
    job = await api.submit()
    number = (await worker.read_until(Begin)).assignments[0].job
    path = f"/v1/jobs/{job['id']}/log"
    following = asyncio.create_task(read_events(api.client, path, {"follow": "true"}))
    await worker.send(
        Logs([LogPiece(number, 1, 0, 5, "stdout", "<one>\n"), LogPiece(number, 1, 1, 6, "stderr", "two\0")])
    )
    await eventually(lambda: read_text(api, path))
    await finish(worker, number, b"null")
    assert await read_text(api, path) == "<one>\ntwo\ufffd", "not every database keeps a NUL"
    assert await read_text(api, f"{path}?attempt=2") == ""
    events = await following
    assert [json.loads(event["data"])["text"] for event in events if event["event"] == "log"] == [
        "<one>\n",
        "two\ufffd",
    ]
    assert events[-1]["event"] == "end"


async def read_text(api: Api, path: str) -> str:
    answer = await api.client.get(path)
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    return answer.text


async def test_a_worker_is_shown_and_drained(api: Api, connect_worker: Connect) -> None:
    worker = await connect_worker()
    await worker.join("w7", tasks=MAIL, tags=["gpu"], slots=3)
    await worker.read_until(Welcome)
    (shown,) = await eventually(lambda: list_workers(api))
    assert (shown["name"], shown["state"], shown["slots"], shown["tags"]) == ("w7", "up", 3, ["gpu"])
    changed = await api("PATCH", "/v1/workers/w7", {"draining": True, "queues": ["acme/*"]})
    assert (changed["state"], changed["queues"]) == ("draining", ["acme/*"])
    assert (await api("GET", "/v1/workers/w7"))["state"] == "draining"
    await api("PATCH", "/v1/workers/none", {"draining": True}, 404)
    told = await worker.read_until(Adjust)
    assert (told.draining, told.queues, told.slots) == (True, ["acme/*"], None)
    assert (await api("PATCH", "/v1/workers/w7", {"slots": 5}))["slots"] == 5
    await api("PATCH", "/v1/workers/w7", {"draining": True, "deadline": "90s"})
    assert (await worker.read_until(Adjust)).slots == 5
    assert (await worker.read_until(Adjust)).deadline_seconds == 90.0


@pytest.mark.parametrize(
    "glob", ["a b", "!", "!acme", "a//b", "/a", "a/", "a/../b", "-", "é*", "a,b", "[ab]", "*/" * 8 + "a"]
)
async def test_a_glob_that_no_queue_can_match_is_refused(
    api: Api, connect_worker: Connect, glob: str
) -> None:
    worker = await connect_worker()
    await worker.join("w7", tasks=MAIL)
    await worker.read_until(Welcome)
    refused = await api("PATCH", "/v1/workers/w7", {"queues": ["acme", glob]}, 422)
    assert refused["field"] == "queues[1]"
    assert "can match no queue" in refused["detail"] and "those that it shall keep" in refused["detail"]
    kept = ["**", "*", "acme", "acme/*", "*/mail", "a?me/**", "a-b.c_d", "a/b/c/d/e/f/g/*"]
    assert (await api("PATCH", "/v1/workers/w7", {"queues": kept}))["queues"] == kept


async def test_a_worker_shows_its_tasks_and_facts_and_beats_add_to_them(
    api: Api, connect_worker: Connect
) -> None:
    worker = await connect_worker()
    facts = {"cpus": 8, "load": 0.5, "versions": {"fairway": "0.1", "http": "httpx 0.28"}}
    await worker.join("w7", tasks=[Task("mail.send", True, "(to: str)")], facts=facts)
    await worker.read_until(Welcome)
    await worker.send(Beat([], {"load": 2.5}))

    async def beaten() -> Any:
        shown = await api("GET", "/v1/workers/w7")
        return shown if shown["facts"]["load"] == 2.5 else None

    shown = await eventually(beaten)
    assert shown["tasks"] == [{"name": "mail.send", "signature": "(to: str)", "async": True}]
    assert shown["facts"] == {"cpus": 8, "load": 2.5}
    assert shown["versions"] == {"fairway": "0.1", "http": "httpx 0.28"}
    (listed,) = await list_workers(api)
    assert listed["tasks"] == 1 and "facts" not in listed


async def test_secrets_are_not_shown_wherever_a_job_is(api: Api) -> None:
    work = {
        "adapter": "command",
        "run": [["deploy"]],
        "secrets": {"A": "hunter2"},
        "env": {"DB_PASSWORD": "hunter2"},
    }
    submitted = await api("POST", "/v1/jobs", {"work": work, "queue": "acme"}, 201)
    found = [
        submitted,
        await api("GET", f"/v1/jobs/{submitted['id']}"),
        await api("GET", "/v1/jobs"),
        await api("GET", "/v1/queues/acme/-/next"),
    ]
    assert submitted["work"]["secrets"] == {"A": "***"}
    assert "hunter2" not in json.dumps(found)


async def list_workers(api: Api) -> Any:
    return (await api("GET", "/v1/workers"))["workers"]


async def test_a_running_job_is_stopped_when_cancelled(api: Api, connect_worker: Connect) -> None:
    worker = await connect_worker()
    await worker.join(tasks=MAIL)
    job = await api.submit()
    assignment = (await worker.read_until(Begin)).assignments[0]
    assert (await api("DELETE", f"/v1/jobs/{job['id']}"))["cancelling"] is True
    assert (await worker.read_until(Stop)).attempts[0][:2] == (assignment.job, 1)
    await worker.send(Results([Result(assignment.job, 1, "cancelled", b"{}", 0.1)]))
    assert (await api("GET", f"/v1/jobs/{job['id']}?wait=10s"))["state"] == "cancelled"


async def test_a_worker_may_speak_json(connect_worker: Connect) -> None:
    worker = await connect_worker()
    await worker.send('["hello", 1, "w1", "life", 1, ["python"]]')
    assert isinstance(await worker.read(), Welcome)


# --- events ------------------------------------------------------------------------------------------
async def test_events_are_sent_as_they_happen_and_can_be_resumed(api: Api) -> None:
    stream = events_of(api.client, {"q": "state:ended queue:acme/*"})
    assert (await anext(stream))["comment"] == "hello"
    other, job = await api.submit(queue="other"), await api.submit(queue="acme/a")
    for one in (other, job):
        await api("DELETE", f"/v1/jobs/{one['id']}")
    event = await anext(stream)
    await stream.aclose()
    data = json.loads(event["data"])
    assert (event["event"], data["job"], data["state"]) == ("job.ended", job["id"], "cancelled")
    assert event["id"] == data["id"]

    late = await api.submit(queue="acme/a")
    resumed = events_of(api.client, {}, {"Last-Event-ID": event["id"]})
    await anext(resumed)
    assert json.loads((await anext(resumed))["data"])["job"] == late["id"]
    await resumed.aclose()


async def events_of(
    client: httpx.AsyncClient,
    params: dict[str, str],
    headers: dict[str, str] | None = None,
    path: str = "/v1/events",
) -> AsyncGenerator[dict[str, str], None]:
    """Yield server-sent events as dictionaries; comments too."""
    event: dict[str, str] = {}
    async with client.stream("GET", path, params=params, headers=headers) as answer:
        assert answer.headers["content-type"] == "text/event-stream"
        async for line in answer.aiter_lines():
            name, _, value = line.partition(": ")
            if line:
                event[name or "comment"] = value
            else:
                yield event
                event = {}


async def read_events(client: httpx.AsyncClient, path: str, params: dict[str, str]) -> list[dict[str, str]]:
    return [event async for event in events_of(client, params, path=path) if "event" in event]


# --- the rest ----------------------------------------------------------------------------------------
async def test_the_cluster_names_its_leader_and_gets_it_back_after_a_step_down(api: Api, node: Node) -> None:
    before = await api("GET", "/v1/cluster")
    assert (before["leader"], before["this"], before["leading"]) == (node.name, node.name, True)
    await api("POST", "/v1/cluster/step-down")

    async def led_again() -> Any:
        return (await api("GET", "/v1/cluster"))["term"] not in (None, before["term"])

    await eventually(led_again)
    assert (await api.client.get("/readyz")).status_code == 200


async def test_health_numbers_and_the_front_page(api: Api) -> None:
    assert (await api.client.get("/healthz")).text == "ok\n"
    assert (await api.client.get("/readyz")).text == "ready\n"
    assert (await api("GET", "/"))["api"] == "/v1/openapi.json"
    assert (await api("GET", "/v1/openapi.json"))["openapi"] == "3.1.0"
    assert (await api.client.get("/openapi.json")).headers["location"] == "/v1/openapi.json"
    await api("GET", "/nowhere/at/all", status=404)
    numbers = (await api.client.get("/metrics")).text
    assert 'fairway_http_requests_total{method="GET",route="/healthz",code="200"} 1' in numbers
    assert 'fairway_http_requests_total{method="GET",route="unknown",code="404"} 1' in numbers
    assert "nowhere" not in numbers


async def test_a_port_that_is_taken_is_named_in_one_line(node: Node) -> None:
    address = node.url.removeprefix("http://")
    with pytest.raises(CannotListen, match=f"cannot listen on {address}: Address already in use") as refusal:
        await Server(build_api(node.desk)).start(address)
    assert "\n" not in str(refusal.value)


async def test_a_token_is_asked_for_where_there_is_one(node: Node) -> None:
    server = Server(build_api(node.desk, token="s3cret"))
    host, port = await server.start("127.0.0.1:0")
    async with httpx.AsyncClient(base_url=f"http://{host}:{port}", timeout=SECONDS) as client:
        bare = await client.get("/v1/jobs")
        assert (bare.status_code, bare.json()["code"]) == (401, "token_required")
        assert bare.headers["www-authenticate"] == "Bearer"
        for wrong in ("Bearer nope", "Basic s3cret", "Bearer", "s3cret", "Bearer s3cret2"):
            answer = await client.get("/v1/jobs", headers={"Authorization": wrong})
            assert (answer.status_code, answer.json()["code"]) == (401, "token_invalid")
        assert (await client.get("/v1/jobs", headers={"Authorization": "Bearer s3cret"})).status_code == 200
        assert (await client.get("/healthz")).status_code == 200
    await server.stop(1)


async def test_a_server_stops_at_once_although_somebody_listens(node: Node) -> None:
    server = Server(build_api(node.desk))
    host, port = await server.start("127.0.0.1:0")
    async with httpx.AsyncClient(base_url=f"http://{host}:{port}", timeout=SECONDS) as client:
        stream = events_of(client, {})
        await anext(stream)
        async with asyncio.timeout(SECONDS):
            await server.stop(60)
        assert [event async for event in stream] == []


async def test_an_internal_error_names_the_id_under_which_it_was_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def broken(scope: Scope, receive: Receive, send: Send) -> None:
        raise RuntimeError("a secret")

    transport = httpx.ASGITransport(Guard(broken, Tally(), None, ()))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        answer = await client.get("/v1/jobs")
    said = answer.json()
    assert (answer.status_code, said["code"]) == (500, "internal")
    assert said["detail"].endswith(f"logged under the id {said['id']}") and said["id"] in caplog.text
    assert "secret" not in answer.text
    assert said["id"] in str(error_from(500, {}, answer.content))  # which is what the command line prints
