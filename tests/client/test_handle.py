"""Handles over HTTP: waiting for a value, hearing of a failure, cancelling, bulk."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

import fairway
from fairway.errors import InvalidRequest, NotFound
from tests.client.scripted_peer import Peer, Reply, problem, reply

JOB = "0123456789abc"
MOMENT = "2026-01-02T03:04:05Z"


def job(state: str, outcome: Any = None, **more: Any) -> Reply:
    """Return a job as a node shows it."""
    return reply({"id": JOB, "state": state, "task": "mail.send", "outcome": outcome, **more})


def failed(reason: str, **error: str) -> dict[str, Any]:
    return {"ok": False, "reason": reason, "error": error or None}


@pytest.fixture
def send(peer: Peer) -> fairway.Task[[str], datetime]:
    app = fairway.App(url=peer.url)

    @app.task(name="mail.send", queue="acme")
    def send(to: str) -> datetime:
        return datetime.now(UTC)

    return send


Result = Callable[..., Any]


@pytest.fixture(params=["result", "aresult"])
def result(request: pytest.FixtureRequest) -> Result:
    """Wait for a handle's result, in either manner."""
    if request.param == "result":
        return lambda handle, **kwargs: handle.result(**kwargs)
    return lambda handle, **kwargs: asyncio.run(handle.aresult(**kwargs))


def test_submit_sends_one_job_under_a_key_of_its_own(peer: Peer, send: Any) -> None:
    peer.says(job("queued"))
    handles = [send.submit("a"), asyncio.run(send.asubmit("a")), send.options(flow="u").submit(to="b")]
    assert [handle.id for handle in handles] == [JOB] * 3
    first, second, third = peer.asked
    assert first.path == second.path == "/v1/jobs"
    assert first.body == second.body == {"task": "mail.send", "args": ["a"], "kwargs": {}, "queue": "acme"}
    assert third.body["flow"] == "u"
    assert third.body["kwargs"] == {"to": "b"}
    assert len({asked.headers["idempotency-key"] for asked in peer.asked}) == 3


def test_a_result_is_waited_for_and_converted(peer: Peer, send: Any, result: Result) -> None:
    peer.says(job("queued"), job("running"), job("succeeded", {"ok": True, "value": MOMENT}))
    handle = send.submit("a")
    assert result(handle, timeout=20) == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert [asked.path.partition("?")[0] for asked in peer.asked[1:]] == [f"/v1/jobs/{JOB}"] * 2
    assert all("wait=" in asked.path for asked in peer.asked[1:])
    assert handle.state == "succeeded"
    assert len(peer.asked) == 3  # an ended job is not asked about again


@pytest.mark.parametrize(
    ("state", "reason", "error"),
    [
        ("failed", "max_attempts", fairway.JobFailed),
        ("cancelled", "cancelled", fairway.JobCancelled),
        ("unknown", "lost", fairway.JobUnknown),
    ],
)
def test_a_job_without_a_value_raises(
    peer: Peer, send: Any, result: Result, state: str, reason: str, error: type[fairway.JobFailed]
) -> None:
    told = failed(reason, type="ValueError", message="bad address", traceback="Traceback: here")
    peer.says(job("queued"), job(state, told))
    with pytest.raises(error) as raised:
        result(send.submit("a"))
    assert type(raised.value) is error
    found = raised.value
    assert (found.job_id, found.reason, found.type, found.message) == (
        JOB,
        reason,
        "ValueError",
        "bad address",
    )
    assert "Traceback: here" in str(found)


def test_a_failure_without_an_error_raises_too(peer: Peer, send: Any) -> None:
    peer.says(job("cancelled", failed("cancelled")))
    with pytest.raises(fairway.JobCancelled, match="cancelled"):
        send.submit("a").result()


def test_time_can_run_out(peer: Peer, send: Any, result: Result) -> None:
    peer.says(job("running"))
    with pytest.raises(TimeoutError, match=f"job {JOB} has not ended within 0 s; it is running"):
        result(send.submit("a"), timeout=0)
    assert len(peer.asked) == 2  # one look is always taken


def test_a_value_that_does_not_fit_says_so(peer: Peer, send: Any) -> None:
    peer.says(job("succeeded", {"ok": True, "value": "soon"}))
    with pytest.raises(ValueError, match=r"the value of mail\.send does not fit datetime"):
        send.submit("a").result()


def test_a_job_found_by_id_is_converted_by_its_task(peer: Peer, send: Any) -> None:
    peer.says(job("succeeded", {"ok": True, "value": MOMENT}))
    assert send.app.get(JOB).result() == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    peer.says(job("succeeded", {"ok": True, "value": MOMENT}, task="unknown.here"))
    assert send.app.get(JOB).result() == MOMENT
    peer.says(job("succeeded", {"ok": True, "value": MOMENT}, work={"adapter": "node", "task": "mail.send"}))
    assert send.app.get(JOB).result() == MOMENT  # another adapter's, of the same name


def test_a_job_that_is_not_there(peer: Peer, send: Any) -> None:
    peer.says(problem(404, "not_found"))
    for name in (JOB, "../queues", ""):
        with pytest.raises(NotFound):
            send.app.get(name)
    assert len(peer.asked) == 1  # what cannot be an id is not even asked for


def test_the_state_is_asked_for_until_the_job_has_ended(peer: Peer, send: Any) -> None:
    peer.says(job("queued"), job("running"), job("failed", failed("permanent")))
    handle = send.submit("a")
    assert [handle.state, handle.state, handle.state] == ["running", "failed", "failed"]
    assert handle.outcome == {"ok": False, "reason": "permanent", "error": None}


async def test_inside_an_event_loop_the_state_is_as_last_heard(peer: Peer, send: Any) -> None:
    peer.says(job("queued"), job("running"))
    handle = await send.asubmit("a")
    assert handle.state == "queued"
    assert (await handle.arefresh()).state == "running"


@pytest.mark.parametrize("blocking", [True, False])
def test_cancel_is_a_delete(peer: Peer, send: Any, blocking: bool) -> None:
    peer.says(job("queued"), job("cancelled", failed("cancelled")))
    handle = send.submit("a")
    cancelled = handle.cancel() if blocking else asyncio.run(handle.acancel())
    assert cancelled.state == "cancelled"
    assert (peer.asked[1].method, peer.asked[1].path) == ("DELETE", f"/v1/jobs/{JOB}")


@pytest.mark.parametrize("blocking", [True, False])
@pytest.mark.parametrize(
    ("verb", "goal", "body"),
    [
        ("relocate", {"to": "w3"}, {"to": "w3"}),
        ("relocate", {"away": True}, {"away": True}),
        ("prefer", {}, {}),
        ("requeue", {}, {}),
    ],
)
def test_a_job_is_sent_elsewhere(
    peer: Peer, send: Any, blocking: bool, verb: str, goal: dict[str, Any], body: dict[str, Any]
) -> None:
    peer.says(job("running"), job("running"))
    handle = send.submit("a")
    called = getattr(handle, verb if blocking else f"a{verb}")(**goal)
    assert (called if blocking else asyncio.run(called)) is handle
    assert (peer.asked[1].method, peer.asked[1].path) == ("POST", f"/v1/jobs/{JOB}/{verb}")
    assert peer.asked[1].body == body


def test_a_job_goes_to_one_worker_or_away_from_one(peer: Peer, send: Any) -> None:
    peer.says(job("queued"))
    handle = send.submit("a")
    for goal in ({}, {"to": "w1", "away": True}):
        with pytest.raises(InvalidRequest, match="exactly one"):
            handle.relocate(**goal)
    assert len(peer.asked) == 1


def test_a_job_is_pinned_by_an_option(peer: Peer, send: Any) -> None:
    peer.says(job("queued"))
    send.options(worker="w3").submit("a")
    assert peer.asked[0].body["worker"] == "w3"


@pytest.mark.parametrize("blocking", [True, False])
def test_many_jobs_take_one_call_per_batch(peer: Peer, send: Any, blocking: bool) -> None:
    peer.says(
        reply({"ids": ["a", "b", "c"]}),
        problem(503, "no_leader"),
        reply({"ids": ["d", "e", "f"]}),
        job("queued"),
    )
    requests = (send.job(str(number)) for number in range(7))
    app = send.app
    handles = (
        app.submit_many(requests, batch=3) if blocking else asyncio.run(app.asubmit_many(requests, batch=3))
    )
    assert [handle.id for handle in handles] == ["a", "b", "c", "d", "e", "f", JOB]
    assert [asked.path for asked in peer.asked] == ["/v1/jobs/bulk"] * 3 + ["/v1/jobs"]
    assert [one["args"] for one in peer.asked[0].body["jobs"]] == [["0"], ["1"], ["2"]]
    keys = [asked.headers["idempotency-key"] for asked in peer.asked]
    assert keys[1] == keys[2]  # the same batch, sent again
    assert len(set(keys)) == 3


def test_what_is_no_request_is_refused_with_what_to_pass(peer: Peer, send: Any) -> None:
    app = send.app
    calls: list[Callable[[Any], Any]] = [
        app.submit,
        lambda wrong: asyncio.run(app.asubmit(wrong)),
        lambda wrong: app.submit_many([send.job("a"), wrong]),
        lambda wrong: app.group([send.job("a")], then=wrong),
    ]
    for call in calls:
        for wrong in ("mail.send", send, 7):
            with pytest.raises(TypeError, match=r"pass what task\.job\(\.\.\.\) returns, not "):
                call(wrong)
    assert peer.asked == []


def test_no_jobs_take_no_call(peer: Peer, send: Any) -> None:
    assert send.app.submit_many([]) == []
    assert peer.asked == []


def test_the_environment_says_where_the_node_is(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRWAY_URL", peer.url)
    monkeypatch.setenv("FAIRWAY_DATABASE", "sqlite:///nowhere/at/all.db")
    monkeypatch.setenv("FAIRWAY_TOKEN", "secret")
    peer.says(job("queued"))
    assert fairway.App().get(JOB).id == JOB
    assert peer.asked[0].headers["authorization"] == "Bearer secret"


def test_an_empty_database_is_no_wish_for_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FAIRWAY_URL", "FAIRWAY_DATABASE"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(InvalidRequest, match="database is empty"):
        fairway.App(database="")
    app = fairway.App()
    assert "127.0.0.1:8899" in repr(app)
    monkeypatch.setenv("FAIRWAY_DATABASE", "")
    assert "127.0.0.1:8899" in repr(app)
    with pytest.raises(InvalidRequest, match="FAIRWAY_DATABASE is empty"):
        app.get(JOB)


def test_progress_is_asked_for_while_the_job_runs(peer: Peer, send: Any) -> None:
    peer.says(job("queued"), job("running", progress={"fraction": 0.4}), job("running", progress=None))
    handle = send.submit("a")
    assert handle.progress == {"fraction": 0.4}
    assert handle.progress is None


def test_inside_a_loop_progress_is_as_last_heard_and_aprogress_asks(peer: Peer, send: Any) -> None:
    peer.says(
        job("queued"),
        job("running", progress={"fraction": 0.4}),
        job("succeeded", {"ok": True, "value": None}, progress={"fraction": 1.0}),
    )

    async def ask() -> list[Any]:
        handle = await send.asubmit("a")
        asked = [handle.progress, await handle.aprogress(), handle.progress, await handle.aprogress()]
        return [*asked, await handle.aprogress(), handle.progress]

    assert asyncio.run(ask()) == [None, *[{"fraction": 0.4}] * 2, *[{"fraction": 1.0}] * 3]
    assert len(peer.asked) == 3
