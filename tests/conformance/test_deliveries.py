"""Calls that tell of a job's end are made in the commit that ends it, and stay until they are settled."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fairway.core.model import Extras, Notify
from fairway.core.plan import Drop, Resolve
from fairway.errors import Deposed
from fairway.store import Submission
from fairway.stores.notifying import MOST_OUTCOME
from tests.conformance.stage import NOW, Stage, an_end, new_job

URL = "https://example.org/hook"


def told(number: int, *on: str, url: str = URL) -> Any:
    return new_job(number, extras=Extras(group="night", notify=Notify(url, on)))


async def test_an_end_and_its_call_are_one_commit(stage: Stage) -> None:
    await stage.submit(told(1), new_job(2))
    await stage.begin(1, 2)
    with pytest.raises(Deposed):
        await stage.commit(ends=[an_end(1), an_end(2, attempt=9)], notices=[1])
    assert await stage.store.due_calls(NOW) == []
    await stage.commit(ends=[an_end(1), an_end(2)], notices=[1])
    [call] = await stage.store.due_calls(NOW)
    assert call.host == "example.org"
    assert (call.job, call.url, call.tries, call.due_at, call.made_at) == (1, URL, 0, NOW, NOW)
    body = json.loads(call.body)
    assert body["state"] == "succeeded" and body["outcome"] == {"ok": True, "value": 42}
    assert (body["queue"], body["task"], body["group"], body["attempt"]) == (
        "acme/emails",
        "app.send",
        "night",
        1,
    )
    assert body["id"] == "0000000000001" and body["ended_at"].startswith("2025-")
    assert "payload" not in body and "args" not in body


async def test_only_the_ends_that_are_wanted_are_told(stage: Stage) -> None:
    await stage.submit(told(1, "failed"), told(2, "failed", "cancelled"), told(3, "failed"), told(4))
    await stage.begin(1, 3)
    error = b'{"reason":"max_attempts","type":"E","message":"m"}'
    await stage.commit(
        ends=[an_end(1), an_end(3, state="failed", outcome=error)],
        drops=[Drop(2, "cancelled", b'{"reason":"cancelled"}', NOW), Drop(4, "failed", None, NOW)],
        notices=[1, 3, 2, 4],
    )
    calls = {call.job: json.loads(call.body) for call in await stage.store.due_calls(NOW)}
    assert calls.keys() == {2, 3, 4}
    assert calls[3]["outcome"] == {
        "ok": False,
        "reason": "max_attempts",
        "error": {"type": "E", "message": "m"},
    }
    assert calls[4]["outcome"] == {"ok": False, "reason": "failed", "error": None}


async def test_the_late_word_on_an_unknown_job_is_told_as_well(stage: Stage) -> None:
    await stage.submit(told(1))
    await stage.begin(1)
    await stage.commit(ends=[an_end(1, state="unknown", outcome=b'{"reason":"lost"}')], notices=[1])
    await stage.commit(resolves=[Resolve(1, 0, "", "succeeded", b"7", NOW)])
    states = [json.loads(call.body)["state"] for call in await stage.store.due_calls(NOW)]
    assert states == ["unknown", "succeeded"]


async def test_a_job_that_was_refused_is_not_told_of(stage: Stage) -> None:
    await stage.submit(new_job(1, unique="k"))
    twin = told(2)._replace(unique="k")
    drop = Drop(2, "cancelled", None, NOW)
    receipt = await stage.commit(Submission([twin]), drops=[drop], notices=[2])
    assert receipt.refused == [2] and await stage.store.due_calls(NOW) == []


@pytest.mark.parametrize(("state", "ok"), [("succeeded", True), ("failed", False)])
async def test_what_is_too_long_is_left_out(stage: Stage, state: str, ok: bool) -> None:
    long = "x" * MOST_OUTCOME
    outcome = json.dumps(long if ok else {"reason": "r", "type": "T", "message": long}).encode()
    await stage.submit(told(1))
    await stage.begin(1)
    await stage.commit(ends=[an_end(1, state=state, outcome=outcome)], notices=[1])
    [call] = await stage.store.due_calls(NOW)
    assert json.loads(call.body)["outcome"]["cut"] is True and len(call.body) < MOST_OUTCOME


async def test_calls_are_settled_or_put_off_and_no_number_comes_twice(stage: Stage) -> None:
    store = stage.store
    hosts = "https://Even.example", "http://odd.example:8080"
    await stage.submit(*(told(number, url=f"{hosts[number % 2]}/{number}") for number in range(1, 6)))
    drops = [Drop(number, "failed", None, NOW) for number in range(1, 6)]
    await stage.commit(drops=drops[:4], notices=[1, 2, 3, 4])
    first = await store.due_calls(NOW)
    assert [call.job for call in first] == [1, 2, 3, 4] and len({call.number for call in first}) == 4
    assert await store.next_call() == NOW
    await store.settle_calls([first[3].number], [(first[0].number, 3, NOW + 50)])
    assert [call.job for call in await store.due_calls(NOW)] == [2, 3]
    assert [(call.job, call.tries) for call in await store.due_calls(NOW + 50)] == [(2, 0), (3, 0), (1, 3)]
    assert [call.job for call in await store.due_calls(NOW, without={"even.example"})] == [3]
    assert [call.job for call in await store.due_calls(NOW, most=1, without=["odd.example:8080"])] == [2]
    assert await store.due_calls(NOW, without=["even.example", "odd.example:8080"]) == []
    await store.put_calls_off("odd.example:8080", NOW, NOW + 20)
    assert [call.job for call in await store.due_calls(NOW)] == [2]
    assert [call.job for call in await store.due_calls(NOW + 20)] == [2, 3]
    assert [call.job for call in await store.due_calls(NOW + 20, most=1)] == [2]
    await store.settle_calls([call.number for call in first], [(first[0].number, 4, NOW)])
    assert await store.due_calls(NOW + 99) == [] and await store.next_call() is None
    await stage.commit(drops=drops[4:], notices=[5])
    [last] = await store.due_calls(NOW)
    assert last.number > max(call.number for call in first)
