"""Jobs after others, by HTTP: what is taken, what is refused and how it looks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from fairway.ids import find_id
from fairway.wire.messages import PROTOCOL, Begin, Hello, Result, Results, Task
from tests.api.from_outside import Api, SocketWorker

Connect = Callable[[], Awaitable[SocketWorker]]
NOWHERE = "0000000000000"
CIRCLE = [{"after": ["#1"]}, {"after": ["#2"]}, {"after": ["#0"]}]


async def bulk(api: Api, *jobs: dict[str, Any], status: int = 200) -> Any:
    body = {"jobs": [{"task": "mail.send", **job} for job in jobs]}
    return await api("POST", "/v1/jobs/bulk", body, status)


async def test_a_job_after_another_is_blocked_and_says_by_which(api: Api) -> None:
    first = (await api.submit())["id"]
    job = await api.submit(after=[first, first], if_failed="run", group="night-7")
    assert (job["state"], job["after"]) == ("blocked", [first])
    assert (job["if_failed"], job["group"]) == ("run", "night-7")
    found = await api("GET", f"/v1/jobs/{job['id']}")
    assert (found["state"], found["position"], found["eta"]) == ("blocked", None, None)
    while found["waiting"]["reason"] == "starting":  # the leader takes it in
        found = await api("GET", f"/v1/jobs/{job['id']}")
    assert found["waiting"] == {"reason": "blocked", "detail": f"waits for job {first} to end", "on": first}
    for query, ids in (("group:night-7", [job["id"]]), ("state:blocked", [job["id"]]), ("group:day", [])):
        listed = await api("GET", "/v1/jobs", params={"q": query})
        assert [one["id"] for one in listed["jobs"]] == ids
    plain = await api("GET", f"/v1/jobs/{first}")
    assert (plain["after"], plain["if_failed"], plain["group"]) == ([], "fail", None)


async def test_jobs_of_one_call_name_each_other_by_their_place(api: Api) -> None:
    before = (await api.submit())["id"]
    ids = (await bulk(api, {"after": ["#1", before]}, {"after": ["#2"]}, {}))["ids"]
    for index, after in ((0, [ids[1], before]), (1, [ids[2]]), (2, [])):
        assert (await api("GET", f"/v1/jobs/{ids[index]}"))["after"] == after


@pytest.mark.parametrize(
    ("jobs", "field", "says"),
    [
        (CIRCLE, "jobs[0].after", "#0 waits for #1 waits for #2 waits for #0"),
        ([{}, {"after": ["#1"]}], "jobs[1].after", "#1 waits for #1"),
        ([{}, {"after": ["#2"]}], "jobs[1].after[0]", "they are #0 to #1"),
        ([{}, {"after": ["#-1"]}], "jobs[1].after[0]", "is not a job of this call"),
        ([{}, {"after": ["#01"]}], "jobs[1].after[0]", "is not a job of this call"),
        ([{"after": ["soon"]}], "jobs[0].after[0]", "is not the id of a job"),
        ([{"after": [NOWHERE]}], "after", "there is no job"),
        ([{"after": [7]}], "jobs[0].after[0]", ""),
        ([{"if_failed": "maybe"}], "jobs[0].if_failed", ""),
        ([{"group": ""}], "jobs[0].group", ""),
    ],
)  # fmt: skip
async def test_what_cannot_be_waited_for_is_refused_whole(
    api: Api, jobs: list[dict[str, Any]], field: str, says: str
) -> None:
    problem = await bulk(api, *jobs, status=422)
    assert problem["field"] == field and says in problem["detail"]
    assert (await api("GET", "/v1/jobs"))["jobs"] == []


async def test_bounds_of_what_is_waited_for(api: Api) -> None:
    problem = await api("POST", "/v1/jobs", {"task": "a", "after": [NOWHERE] * 10_001}, 422)
    assert "at most 10000" in problem["detail"]
    wide = [{"after": [f"#{index}" for index in range(1000)]} for _ in range(101)]
    problem = await bulk(api, *[{}] * 1000, *wide, status=422)
    assert "100000" in problem["detail"]
    assert (await api("GET", "/v1/jobs"))["jobs"] == []


async def test_one_call_cannot_name_by_place_and_a_schedule_waits_for_none(api: Api) -> None:
    problem = await api("POST", "/v1/jobs", {"task": "a", "after": ["#0"]}, 422)
    assert problem["field"] == "after[0]"
    spec = {"every": "1h", "job": {"task": "a", "after": [NOWHERE]}}
    problem = await api("PUT", "/v1/schedules/s", spec, 422)
    assert problem["field"] == "job.after"


async def test_a_chain_fails_from_its_failure_on(api: Api, connect_worker: Connect) -> None:
    last = {"after": ["#2"], "if_failed": "run"}
    ids = (await bulk(api, {}, {"after": ["#0"]}, {"after": ["#1"]}, last))["ids"]
    worker = await connect_worker()
    await worker.send(Hello(PROTOCOL, "w", "w-1", 4, ["python"], [Task("mail.send")]))
    for index, kind in ((0, "ok"), (1, "permanent"), (3, "ok")):
        job = await next_begun(worker)
        assert job == find_id(ids[index])
        await worker.send(Results([Result(job, 1, kind, b"1" if kind == "ok" else b'{"type":"E"}', 0.0)]))
    ended = [await api("GET", f"/v1/jobs/{job}", params={"wait": "10s"}) for job in ids]
    assert [job["state"] for job in ended] == ["succeeded", "failed", "failed", "succeeded"]
    assert ended[2]["outcome"] == {
        "ok": False,
        "reason": "dependency",
        "error": {
            "type": "DependencyFailed",
            "message": f"job {ids[1]}, for which it waited, failed",
            "traceback": "",
        },
    }


async def next_begun(worker: SocketWorker) -> int:
    """Return the next job that the worker is told to run."""
    while True:
        message = await worker.read()
        if isinstance(message, Begin):
            [assignment] = message.assignments
            return assignment.job
