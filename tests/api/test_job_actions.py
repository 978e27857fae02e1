"""Actions on all that matches a query, over HTTP: counted, begun, followed, aborted."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.api.from_outside import SECONDS, Api

ACTIONS = "/v1/jobs/actions"


async def over(api: Api, operation: dict[str, Any]) -> dict[str, Any]:
    """Follow an operation to its end."""
    async with asyncio.timeout(SECONDS * 3):
        while operation["state"] in ("running", "aborting"):
            await asyncio.sleep(0.02)
            operation = await api("GET", f"/v1/operations/{operation['id']}")
    return operation


async def act(api: Api, **body: Any) -> dict[str, Any]:
    return await over(api, await api("POST", ACTIONS, body, 202))


async def filled(api: Api, count: int = 12) -> list[str]:
    jobs = [{"task": "mail.send", "queue": "acme"} for _ in range(count)]
    ids: list[str] = (await api("POST", "/v1/jobs/bulk", {"jobs": jobs}))["ids"]
    return ids


async def test_a_dry_run_counts_and_changes_nothing(api: Api) -> None:
    ids = await filled(api)
    body = {"q": "queue:acme", "action": "cancel", "dry_run": True}
    assert await api("POST", ACTIONS, body) == {"count": 12, "sample": sorted(ids)[:10]}
    assert (await api("GET", "/v1/jobs?q=state:queued"))["total"] == 12
    assert await api("GET", "/v1/operations") == {"operations": []}


async def test_an_action_is_followed_listed_and_named_after_who_asked(api: Api) -> None:
    await filled(api)
    asked = {"q": "queue:acme", "action": "cancel"}
    begun = await api("POST", ACTIONS, asked, 202, headers={"Fairway-User": "ann"})
    ended = await over(api, begun)
    assert (ended["state"], ended["found"], ended["done"], ended["refused"]) == ("done", 12, 12, 0)
    assert (ended["action"], ended["q"], ended["by"], ended["kind"]) == (
        "cancel",
        "queue:acme",
        "ann",
        "jobs",
    )
    assert ended["ended_at"] >= ended["started_at"]
    assert (await api("GET", "/v1/operations"))["operations"] == [ended]
    assert (await api("GET", "/v1/jobs?q=state:cancelled"))["total"] == 12


async def test_all_jobs_are_meant_only_if_that_is_said(api: Api) -> None:
    await filled(api)
    problem = await api("POST", ACTIONS, {"q": "", "action": "cancel"}, 422)
    assert (problem["field"], '"all": true' in problem["detail"]) == ("q", True)
    assert (await act(api, action="cancel", all=True))["done"] == 12


@pytest.mark.parametrize(
    ("body", "fact"),
    [
        ({"action": "move", "changes": {"queue": "late"}}, ("queue", "late")),
        ({"action": "edit", "changes": {"priority": 3, "delay": "1h"}}, ("state", "scheduled")),
    ],
)
async def test_jobs_are_changed_as_by_patch(api: Api, body: dict[str, Any], fact: tuple[str, str]) -> None:
    ids = await filled(api, 3)
    assert (await act(api, q="queue:acme", **body))["done"] == 3
    assert {(await api("GET", f"/v1/jobs/{job}"))[fact[0]] for job in ids} == {fact[1]}


async def test_deleted_jobs_are_gone_and_refusals_say_why(api: Api) -> None:
    ids = await filled(api, 3)
    for job in ids[:2]:
        await api("DELETE", f"/v1/jobs/{job}")
    ended = await act(api, q="queue:acme", action="delete")
    assert (ended["done"], ended["refused"]) == (2, 1)
    assert [(one["id"], one["code"]) for one in ended["refusals"]] == [(ids[2], "not_ended")]
    for job in ids[:2]:
        await api("GET", f"/v1/jobs/{job}", status=404)


async def test_only_what_failed_is_tried_again_unless_states_are_named(api: Api) -> None:
    await filled(api, 3)
    await act(api, q="queue:acme", action="cancel")
    asked = {"q": "queue:acme", "action": "retry", "dry_run": True}
    assert (await api("POST", ACTIONS, asked))["count"] == 0
    assert (await api("POST", ACTIONS, asked | {"q": "queue:acme state:ended"}))["count"] == 3


async def test_an_operation_is_aborted_while_its_canary_is_watched(api: Api) -> None:
    await filled(api, 4)
    await act(api, q="queue:acme", action="cancel")
    begun = await api("POST", ACTIONS, {"q": "state:cancelled", "action": "retry", "canary": "25%"}, 202)
    path = f"/v1/operations/{begun['id']}"
    async with asyncio.timeout(SECONDS):
        while (await api("GET", path))["canary"] is None:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    assert (await api("DELETE", path))["state"] in ("aborting", "aborted")
    ended = await over(api, await api("GET", path))
    assert (ended["state"], ended["done"]) == ("aborted", 1)
    assert ended["canary"] == {"jobs": 1, "succeeded": 0, "failed": 0, "passed": None}


async def test_a_move_of_a_queue_is_an_operation_that_cannot_be_aborted(api: Api) -> None:
    await api("PUT", "/v1/queues/old", {"limit": 1})
    moved = await api("POST", "/v1/queues/old/-/rename", {"to": "new"}, 202)
    problem = await api("DELETE", f"/v1/operations/{moved['id']}", status=409)
    assert problem["code"] == "not_abortable"
