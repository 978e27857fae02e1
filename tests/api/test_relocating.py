"""Jobs sent elsewhere over HTTP: to a worker, away from one, to the front, to the end, to another adapter."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from fairway.ids import find_id
from fairway.wire.messages import Begin, HandBack, Held, Result, Results, Stop, Task
from tests.api.from_outside import Api, SocketWorker

Connect = Callable[[], Awaitable[SocketWorker]]
TASKS = [Task("mail.send")]


async def join(connect_worker: Connect, name: str, **more: Any) -> SocketWorker:
    worker = await connect_worker()
    await worker.join(name, tasks=TASKS, **more)
    return worker


async def begun(worker: SocketWorker) -> tuple[int, int]:
    """Return the one attempt that the worker is told to begin."""
    [assignment] = (await worker.read_until(Begin)).assignments
    return assignment.job, assignment.attempt


@pytest.mark.parametrize("goal", [{"to": "w2"}, {"away": True}])
async def test_a_running_job_goes_to_the_other_worker_at_no_cost(
    api: Api, connect_worker: Connect, goal: dict[str, Any]
) -> None:
    job = await api.submit()
    path = f"/v1/jobs/{job['id']}"
    first = await join(connect_worker, "w1")
    attempt = await begun(first)
    second = await join(connect_worker, "w2")
    answer = await until_there(api, "w2", path, goal)
    assert (answer["state"], answer["worker"]) == ("running", "w1")
    assert (answer["pinned_to"], answer["away"]) == (("w2", []) if "to" in goal else (None, ["w1"]))
    stop = await first.read_until(Stop)
    assert (stop.attempts, stop.force, stop.kind) == ([Held(*attempt)], False, "stopped")
    await first.send(HandBack([Held(*attempt)]))
    assert await begun(second) == (attempt[0], 2)
    moved = await api("GET", path)
    assert (moved["worker"], moved["attempt"], moved["tries"], moved["crashes"]) == ("w2", 2, 0, 0)
    await second.send(Results([Result(attempt[0], 2, "ok", b"7", 0.1)]))
    ended = await api("GET", f"{path}?wait=10s")
    assert (ended["state"], ended["outcome"]["value"]) == ("succeeded", 7)
    problem = await api("POST", f"{path}/relocate", {"to": "w1"}, 409)
    assert problem["code"] == "ended"


async def until_there(api: Api, worker: str, path: str, goal: dict[str, Any]) -> Any:
    """Relocate as soon as the leader has heard the worker's hello."""
    for _ in range(500):
        if any(one["name"] == worker for one in (await api("GET", "/v1/workers"))["workers"]):
            break
    return await api("POST", f"{path}/relocate", goal)


async def test_a_waiting_job_is_pinned_says_why_it_waits_and_is_let_go(
    api: Api, connect_worker: Connect
) -> None:
    job = await api.submit(worker="w9")
    path = f"/v1/jobs/{job['id']}"
    assert (job["pinned_to"], job["worker"]) == ("w9", None)
    worker = await join(connect_worker, "w1")
    other = await api.submit()
    assert (await begun(worker))[0] == find_id(other["id"])
    waiting = (await api("GET", path))["waiting"]
    assert (waiting["reason"], waiting["detail"]) == ("no_worker", "pinned to 'w9', which is not there")
    kept = await api("PATCH", path, {"worker": None, "away": ["w1", "w1"]})
    assert (kept["pinned_to"], kept["away"]) == (None, ["w1"])
    assert kept["waiting"]["detail"] == "it is kept from every worker that could take it (w1)"
    problem = await api("PATCH", path, {"worker": "w1"}, 422)
    assert problem["field"] == "worker"
    moved = await api("POST", f"{path}/relocate", {"to": "w1"})
    assert (moved["pinned_to"], moved["away"], moved["waiting"]["reason"]) == ("w1", [], "busy")
    free = await api("PATCH", path, {"worker": None})
    assert (free["pinned_to"], free["away"], free["state"]) == (None, [], "queued")


async def test_a_worker_that_is_not_there_or_cannot_run_it_is_no_goal(
    api: Api, connect_worker: Connect
) -> None:
    job, gpu = await api.submit(), await api.submit(tags=["gpu"])
    worker = await join(connect_worker, "w1")
    await begun(worker)
    path = f"/v1/jobs/{job['id']}/relocate"
    assert (await api("POST", path, {"to": "nobody"}, 404))["code"] == "no_such_worker"
    problem = await api("POST", f"/v1/jobs/{gpu['id']}/relocate", {"to": "w1"}, 409)
    assert (problem["code"], "tag gpu" in problem["detail"]) == ("unfit", True)
    problem = await api("POST", f"/v1/jobs/{gpu['id']}/relocate", {"away": True}, 409)
    assert problem["code"] == "not_begun"
    found = await api("GET", f"/v1/jobs/{job['id']}")
    assert (found["state"], found["pinned_to"], found["away"]) == ("running", None, [])


async def test_at_most_once_work_that_runs_stays_where_it_is(api: Api, connect_worker: Connect) -> None:
    job = await api.submit(delivery="at_most_once")
    first = await join(connect_worker, "w1")
    await begun(first)
    for verb, body in (("relocate", {"away": True}), ("requeue", {})):
        problem = await api("POST", f"/v1/jobs/{job['id']}/{verb}", body, 409)
        assert problem["code"] == "at_most_once"


async def test_a_cancel_while_it_goes_elsewhere_wins(api: Api, connect_worker: Connect) -> None:
    job = await api.submit()
    path = f"/v1/jobs/{job['id']}"
    worker = await join(connect_worker, "w1")
    attempt = await begun(worker)
    await api("POST", f"{path}/relocate", {"away": True})
    assert (await api("DELETE", path))["cancelling"] is True
    assert (await api("POST", f"{path}/relocate", {"away": True}, 409))["code"] == "cancelling"
    await worker.send(HandBack([Held(*attempt)]))
    assert (await api("GET", f"{path}?wait=10s"))["state"] == "cancelled"


async def test_prefer_and_requeue_change_the_order(api: Api, connect_worker: Connect) -> None:
    jobs = [await api.submit(queue="q") for _ in range(3)]
    numbers = [find_id(job["id"]) for job in jobs]
    assert (await api("POST", f"/v1/jobs/{jobs[2]['id']}/prefer"))["position"] == 0
    assert (await api("POST", f"/v1/jobs/{jobs[0]['id']}/requeue"))["position"] == 2
    worker = await join(connect_worker, "w1")
    running = await begun(worker)
    assert running[0] == numbers[2]
    assert (await api("POST", f"/v1/jobs/{jobs[2]['id']}/prefer", None, 409))["code"] == "running"
    assert (await api("POST", f"/v1/jobs/{jobs[2]['id']}/requeue"))["state"] == "running"
    assert (await worker.read_until(Stop)).kind == "stopped"
    await worker.send(HandBack([Held(*running)]))
    order = []
    for _ in range(3):
        attempt = await begun(worker)
        order.append(attempt[0])
        await worker.send(Results([Result(*attempt, "ok", b"1", 0.1)]))
    assert order == [numbers[1], numbers[0], numbers[2]]
    await api("GET", f"/v1/jobs/{jobs[2]['id']}?wait=10s")
    for verb in ("prefer", "requeue"):
        assert (await api("POST", f"/v1/jobs/{jobs[2]['id']}/{verb}", None, 409))["code"] == "ended"


async def test_what_a_job_is_run_by_and_how_long_can_be_changed(api: Api) -> None:
    job = await api.submit(args=[1])
    path = f"/v1/jobs/{job['id']}"
    changed = await api("PATCH", path, {"adapter": "warm", "timeout": "5m"})
    assert (changed["timeout"], changed["args"], changed["task"]) == (300.0, [1], "mail.send")
    assert (await api("GET", "/v1/jobs?q=adapter:warm"))["total"] == 1
    assert (await api("PATCH", path, {"timeout": None}))["timeout"] is None
    command = await api.submit(work={"adapter": "command", "run": [["true"]]})
    problem = await api("PATCH", f"/v1/jobs/{command['id']}", {"adapter": "python"}, 422)
    assert problem["field"] == "adapter"


async def test_events_say_where_it_goes(api: Api, connect_worker: Connect) -> None:
    job = await api.submit()
    worker = await join(connect_worker, "w1")
    attempt = await begun(worker)
    await api("POST", f"/v1/jobs/{job['id']}/relocate", {"away": True})
    await worker.send(HandBack([Held(*attempt)]))
    kinds = {}
    async with api.client.stream("GET", "/v1/events", params={"after": "0.0"}) as stream:
        async for line in stream.aiter_lines():
            if line.startswith("event: job."):
                kinds[line.removeprefix("event: ")] = ""
                last = line.removeprefix("event: ")
            elif line.startswith("data:") and kinds:
                kinds[last] = line
                if last == "job.returned":
                    break
    assert '"away":["w1"]' in kinds["job.recalled"]
    assert '"away":["w1"]' in kinds["job.returned"]
