"""Failures by cause over HTTP: listed, looked at, muted, forgotten."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from fairway.wire.messages import Begin, Result, Results, Task
from tests.api.conftest import Connect
from tests.api.from_outside import SECONDS, Api, SocketWorker


async def fail(
    api: Api, worker: SocketWorker, *messages: str, task: str = "mail.send", **more: str
) -> list[str]:
    """Let a job of *task* fail with each of *messages*."""
    ids = []
    for message in messages:
        ids.append((await api.submit(task=task, max_attempts=1))["id"])
        begins = await worker.read_until(Begin)
        [begun] = begins.assignments
        body = json.dumps({"type": "ValueError", "message": message, "traceback": "", **more}).encode()
        await worker.send(Results(results=[Result(begun.job, begun.attempt, "error", body, 0.1)]))
        ended = await api("GET", f"/v1/jobs/{ids[-1]}", params={"wait": "10s"})
        assert ended["state"] == "failed"
    return ids


async def test_failures_are_grouped_and_shown(api: Api, connect_worker: Connect) -> None:
    worker = await connect_worker()
    await worker.join(tasks=[Task("mail.send"), Task("mail.read")])
    ids = await fail(api, worker, "no user 1", "no user 2", "no order 3")
    listed = await api("GET", "/v1/failures")
    assert [(one["message"], one["failures"], one["jobs"]) for one in listed["failures"]] == [
        ("no order <n>", 1, 1),
        ("no user <n>", 2, 2),
    ]
    assert listed["next"] is None
    users = listed["failures"][1]
    assert (
        set(users["samples"]) == set(ids[:2])
        and users["type"] == "ValueError"
        and users["task"] == "mail.send"
    )
    assert users == await api("GET", f"/v1/failures/{users['id']}")
    shown = await api("GET", f"/v1/jobs/{ids[0]}")
    assert shown["cause"] == users["id"]
    found = await api("GET", "/v1/jobs", params={"q": f"cause:{users['id']}"})
    assert {job["id"] for job in found["jobs"]} == set(ids[:2])


async def test_failures_come_in_pages_and_are_searched(api: Api, connect_worker: Connect) -> None:
    worker = await connect_worker()
    await worker.join(tasks=[Task("mail.send"), Task("mail.read")])
    await fail(api, worker, "alpha", "beta", "gamma")
    await fail(api, worker, "alpha", task="mail.read")
    seen: list[Any] = []
    page = await api("GET", "/v1/failures", params={"limit": 3})
    while True:
        seen += page["failures"]
        if page["next"] is None:
            break
        page = await api("GET", "/v1/failures", params={"limit": 3, "cursor": page["next"]})
    assert [(one["task"], one["message"]) for one in seen] == [
        ("mail.read", "alpha"), ("mail.send", "gamma"), ("mail.send", "beta"), ("mail.send", "alpha"),
    ]  # fmt: skip

    async def found(q: str) -> list[str]:
        return [one["id"] for one in (await api("GET", "/v1/failures", params={"q": q}))["failures"]]

    by_name = {(one["task"], one["message"]): one["id"] for one in seen}
    assert await found("task:mail.r*") == [by_name["mail.read", "alpha"]]
    assert await found("ALPHA -task:mail.read") == [by_name["mail.send", "alpha"]]
    assert await found(f"id:{by_name['mail.send', 'beta']}") == [by_name["mail.send", "beta"]]
    assert await found("type:KeyError") == []


async def test_a_muted_group_is_listed_only_where_it_is_asked_for(api: Api, connect_worker: Connect) -> None:
    worker = await connect_worker()
    await worker.join(tasks=[Task("mail.send"), Task("mail.read")])
    await fail(api, worker, "alpha")
    [group] = (await api("GET", "/v1/failures"))["failures"]
    path = f"/v1/failures/{group['id']}"
    assert (await api("PATCH", path, {"muted": True}))["muted"] is True
    assert (await api("GET", "/v1/failures"))["failures"] == []
    [muted] = (await api("GET", "/v1/failures", params={"q": "muted:true"}))["failures"]
    assert muted["muted"] and muted["muted_until"] is None
    assert (await api("PATCH", path, {"muted": "2h"}))["muted_until"] is not None
    assert (await api("GET", "/v1/failures"))["failures"] == []
    assert (await api("PATCH", path, {"muted": "0s"}))["muted"] is False
    assert (await api("PATCH", path, {"muted": False}))["muted_until"] is None
    assert len((await api("GET", "/v1/failures"))["failures"]) == 1


async def test_a_group_is_forgotten_with_its_jobs(api: Api, connect_worker: Connect) -> None:
    worker = await connect_worker()
    await worker.join(tasks=[Task("mail.send"), Task("mail.read")])
    [one, other, *_] = await fail(api, worker, "alpha", "beta")
    cause = (await api("GET", f"/v1/jobs/{one}"))["cause"]
    assert await api("DELETE", f"/v1/failures/{cause}") == {"deleted": 1, "left": 0}
    await api("GET", f"/v1/jobs/{one}", status=404)
    await api("GET", f"/v1/jobs/{other}")
    assert [group["message"] for group in (await api("GET", "/v1/failures"))["failures"]] == ["beta"]
    await api("DELETE", f"/v1/failures/{cause}", status=404)


async def test_who_muted_and_who_forgot_is_told(api: Api, connect_worker: Connect) -> None:
    worker = await connect_worker()
    await worker.join(tasks=[Task("mail.send"), Task("mail.read")])
    await fail(api, worker, "alpha", "alpha")
    [group] = (await api("GET", "/v1/failures"))["failures"]
    path, ada = f"/v1/failures/{group['id']}", {"Fairway-User": "ada"}
    muted = await api("PATCH", path, {"muted": "2h"}, headers=ada)
    await api("PATCH", path, {"muted": False})
    await api("DELETE", path, headers=ada)
    told = await events(api, "kind:failure.muted,failure.deleted", 3)
    cause = {"cause": group["id"]}
    assert [(event["kind"], event["task"], event["detail"]) for event in told] == [
        ("failure.muted", "mail.send", cause | {"muted": True, "by": "ada", "until": muted["muted_until"]}),
        ("failure.muted", "mail.send", cause | {"muted": False, "by": "anonymous"}),
        ("failure.deleted", "mail.send", cause | {"jobs": 2, "by": "ada"}),
    ]


async def events(api: Api, query: str, count: int) -> list[Any]:
    """Return the first events of a query, told before or from now on."""
    async with asyncio.timeout(SECONDS):
        async with api.client.stream("GET", "/v1/events", params={"q": query, "after": "0.0"}) as stream:
            lines = (line async for line in stream.aiter_lines() if line.startswith("data: "))
            return [json.loads((await anext(lines)).removeprefix("data: ")) for _ in range(count)]


async def test_bad_questions_are_refused_and_change_nothing(api: Api) -> None:
    for params, code in (
        ({"q": "colour:red"}, "bad_query"),
        ({"q": "muted:maybe"}, "bad_query"),
        ({"cursor": "junk"}, "bad_cursor"),
        ({"limit": "0"}, "invalid"),
    ):
        assert (await api("GET", "/v1/failures", status=422, params=params))["code"] == code
    for name in ("nonsense", "000000000000"):
        for method, body in (("GET", None), ("PATCH", {"muted": True}), ("DELETE", None)):
            said = await api(method, f"/v1/failures/{name}", body, status=404)
            assert said["code"] == "no_such_failure"
    await api("PATCH", "/v1/failures/000000000000", {"muted": 5}, status=422)
    await api("PATCH", "/v1/failures/000000000000", {"mute": True}, status=422)


async def test_notify_is_checked_when_it_is_asked_for(api: Api) -> None:
    for notify, code in (
        ("ftp://example.org", "invalid"),
        ("https://u:p@example.org/", "invalid"),
        ("http://127.0.0.1/x", "private_address"),
        ({"url": "http://169.254.169.254/latest"}, "private_address"),
        ("http://localhost:8080/", "private_address"),
        ({"url": "https://example.org/", "on": ["begun"]}, "invalid"),
        ({"on": ["failed"]}, "invalid"),
        (7, "invalid"),
    ):
        said = await api("POST", "/v1/jobs", {"task": "mail.send", "notify": notify}, status=422)
        assert said["code"] == code, said
        body = {"jobs": [{"task": "mail.send"}, {"task": "mail.send", "notify": notify}]}
        await api("POST", "/v1/jobs/bulk", body, status=422)
        put = {"every": "1h", "job": {"task": "mail.send", "notify": notify}}
        await api("PUT", "/v1/schedules/hourly", put, status=422)
    assert (await api("GET", "/v1/jobs"))["jobs"] == []
    job = await api.submit(notify={"url": "https://example.org/h", "on": ["failed", "cancelled", "failed"]})
    assert job["notify"] == {"url": "https://example.org/h", "on": ["cancelled", "failed"]}
