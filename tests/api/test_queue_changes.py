"""Settings from outside: who changed what, a step back, many at once, another name."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

from fairway.api.queues import SettingsChanges, changes_of
from fairway.errors import InvalidRequest
from fairway.node.app import Node
from tests.api.from_outside import SECONDS, Api

T = TypeVar("T")
ANN = {"Fairway-User": "ann@desk"}


async def history(api: Api, path: str) -> list[tuple[str, Any, Any]]:
    """Return who changed what, newest first."""
    found = (await api("GET", f"/v1/queues/{path}/-/history"))["changes"]
    return [(one["by"], one["old"], one["new"]) for one in found]


async def eventually(ask: Callable[[], Awaitable[T]]) -> T:
    """Ask, within bounds, until the answer is not empty."""
    async with asyncio.timeout(SECONDS):
        while True:
            found = await ask()
            if found:
                return found
            await asyncio.sleep(0.02)


async def until_done(api: Api, operation: Any) -> Any:
    """Ask until an operation is over."""

    async def look() -> Any:
        found = await api("GET", f"/v1/operations/{operation['id']}")
        return found if found["state"] == "done" else None

    return await eventually(look)


async def queue_of(api: Api, job: str) -> str:
    return str((await api("GET", f"/v1/jobs/{job}"))["queue"])


# --- history ---------------------------------------------------------------------------------------------
async def test_a_queue_says_who_changed_it_last_and_its_history_what(api: Api) -> None:
    await api("PUT", "/v1/queues/q", {"limit": 3}, headers=ANN)
    await api("PATCH", "/v1/queues/q", {"paused": True})
    shown = await api("GET", "/v1/queues/q")
    assert shown["changed"]["by"] == "anonymous"
    assert await history(api, "q") == [
        ("anonymous", {"limit": 3}, {"limit": 3, "paused": True}),
        ("ann@desk", None, {"limit": 3}),
    ]
    first = await api("GET", "/v1/queues/-/history?limit=1")
    assert first["changes"][0]["number"] == shown["changed"]["number"] == first["next"]
    rest = await api("GET", f"/v1/queues/-/history?limit=1&before={first['next']}")
    assert [one["by"] for one in rest["changes"]] == ["ann@desk"]
    assert await history(api, "none") == []


async def test_a_limit_that_comes_with_a_job_names_the_job(api: Api) -> None:
    job = (await api.submit(queue="q", concurrency=2))["id"]
    assert await eventually(lambda: history(api, "q")) == [(f"job {job}", None, {"limit": 2})]


@pytest.mark.parametrize("name", [b"a" * 201, b"\xff\xfe", "right\u202eleft".encode()])
async def test_a_name_that_is_none_is_refused(api: Api, name: bytes) -> None:
    said = await api("PUT", "/v1/queues/q", {}, 422, headers={b"Fairway-User": name})
    assert said["field"] == "Fairway-User"
    await api("GET", "/v1/queues/q", status=404)


async def test_a_change_is_undone_and_any_earlier_one_found_again(api: Api) -> None:
    for limit in (1, 2, 3):
        await api("PATCH", "/v1/queues/q", {"limit": limit})
    reverted = await api("POST", "/v1/queues/q/-/revert", {}, headers=ANN)
    assert (reverted["settings"]["limit"], reverted["changed"]["by"]) == (2, "ann@desk")
    oldest = (await api("GET", "/v1/queues/q/-/history"))["changes"][-1]
    reverted = await api("POST", "/v1/queues/q/-/revert", {"to": oldest["number"]})
    assert reverted["settings"]["limit"] == 1
    assert (await history(api, "q"))[0] == ("anonymous", {"limit": 2}, {"limit": 1})
    await api("POST", "/v1/queues/q/-/revert", {"to": 10**9}, 404)
    await api("POST", "/v1/queues/none/-/revert", {}, 404)


async def test_a_deleted_queue_is_set_again_by_a_step_back(api: Api) -> None:
    await api("PUT", "/v1/queues/q", {"limit": 3})
    await api("DELETE", "/v1/queues/q", status=204, headers=ANN)
    assert (await history(api, "q"))[0] == ("ann@desk", {"limit": 3}, None)
    number = (await api("GET", "/v1/queues/q/-/history"))["changes"][0]["number"]
    await api("POST", "/v1/queues/q/-/revert", {"to": number}, 409)
    assert (await api("POST", "/v1/queues/q/-/revert", {}))["settings"]["limit"] == 3


# --- many at once ----------------------------------------------------------------------------------------
async def test_queues_are_set_together_or_not_at_all(api: Api) -> None:
    wanted: Any = {"acme": {"assured": 2, "limit": 4}, "acme/a": {"assured": 2}, "b": {}}
    dry = await api("POST", "/v1/queues/-/apply", {"queues": wanted, "dry_run": True})
    assert dry["applied"] is False
    assert [(one["path"], one["old"], one["new"]) for one in dry["changes"]] == [
        ("acme", None, {"limit": 4, "assured": 2}),
        ("acme/a", None, {"assured": 2}),
        ("b", None, {}),
    ]
    assert (await api("GET", "/v1/queues"))["queues"] == []
    done = await api("POST", "/v1/queues/-/apply", {"queues": wanted}, headers=ANN)
    assert (done["applied"], done["changes"]) == (True, dry["changes"])
    assert (await history(api, "acme"))[0][0] == "ann@desk"
    again = await api("POST", "/v1/queues/-/apply", {"queues": wanted})
    assert again["changes"] == []


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"limit": "many"}, "queues.acme/b.limit"),
        ({"colour": "red"}, "queues.acme/b.colour"),
        ({"assured": 1}, "queues.acme/b.assured"),
        ({"burst": 3}, "queues.acme/b.burst"),
    ],
)
async def test_a_refusal_names_queue_and_field_and_changes_nothing(
    api: Api, settings: dict[str, Any], field: str
) -> None:
    body = {"queues": {"a": {"limit": 1}, "acme/b": settings}}
    said = await api("POST", "/v1/queues/-/apply", body, 422)
    assert said["field"] == field
    assert "acme/b" in said["detail"]
    assert (await api("GET", "/v1/queues"))["queues"] == []


@pytest.mark.parametrize(
    ("weights", "says"),
    [
        ({"": 1}, "flow_weights: flow '' is empty"),
        ({"ok": 1, "a" * 10_000: 1}, f"flow_weights: flow '{'a' * 60}…' has 10000 characters; at most 200"),
        ({"a\0b": 1}, r"flow_weights: flow 'a\x00b' has a NUL"),
    ],
)
def test_a_refused_flow_is_named(weights: dict[str, Any], says: str) -> None:
    refuse_weights(weights, says)


@pytest.mark.parametrize("weight", [0, 1e7, 10**400, -1, "1", True, None, [], {}])
def test_a_refused_weight_names_its_flow(weight: Any) -> None:
    says = "flow_weights: the weight of flow 'é' must be a number between 0.01 and 1,000,000"
    refuse_weights({"ok": 1, "é": weight}, says)


def refuse_weights(weights: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        changes_of(SettingsChanges(flow_weights=weights))
    assert refusal.value.detail.startswith(says) and refusal.value.field == "flow_weights"


async def test_weights_of_flows_are_set(api: Api) -> None:
    found = await api("PUT", "/v1/queues/q", {"discipline": "sfq", "flow_weights": {"gold": 3, "tin": 0.5}})
    assert found["settings"]["flow_weights"] == {"gold": 3.0, "tin": 0.5}
    said = await api("PUT", "/v1/queues/q", {"flow_weights": {"gold": 0}}, 422)
    assert said["field"] == "flow_weights" and "'gold'" in said["detail"]


async def test_a_path_that_is_none_is_refused(api: Api) -> None:
    said = await api("POST", "/v1/queues/-/apply", {"queues": {"a//b": {}}}, 422)
    assert said["field"] == "queues"


# --- another name ----------------------------------------------------------------------------------------
async def test_a_renamed_queue_has_its_settings_and_jobs_under_the_new_name(api: Api) -> None:
    await api("PUT", "/v1/queues/old", {"limit": 7})
    jobs = [(await api.submit(queue="old/a", unique=f"k{number}"))["id"] for number in range(3)]
    begun = await api("POST", "/v1/queues/old/-/rename", {"to": "new/x"}, 202, headers=ANN)
    assert (begun["kind"], begun["from"], begun["to"], begun["by"]) == ("rename", "old", "new/x", "ann@desk")
    done = await until_done(api, begun)
    assert (done["jobs"], done["left"], done["running"]) == (3, 0, 0)
    assert [await queue_of(api, job) for job in jobs] == ["new/x/a"] * 3
    assert (await api("GET", "/v1/queues/new/x"))["settings"]["limit"] == 7
    refused = await api("POST", "/v1/queues/new/x/-/revert", {}, 409)
    assert "renamed from 'old'" in refused["detail"]
    assert (await api("GET", "/v1/queues/new/x"))["settings"]["limit"] == 7, "a step back loses nothing"
    assert [one["path"] for one in (await api("GET", "/v1/queues"))["queues"]] == ["new", "new/x", "new/x/a"]
    again = await api("POST", "/v1/jobs", {"queue": "new/x/a", "task": "t", "unique": "k1"}, 200)
    assert again["id"] == jobs[1], "its key came along"
    page = await api("GET", "/v1/queues/new/-/next")
    assert [job["id"] for job in page["jobs"]] == jobs


async def test_a_deleted_queue_leaves_its_jobs_to_another(api: Api) -> None:
    first = (await api.submit(queue="old"))["id"]
    second = (await api.submit(queue="other"))["id"]
    third = (await api.submit(queue="old", delay=60))["id"]
    await api("DELETE", "/v1/queues/old", status=409)
    done = await until_done(api, await api("DELETE", "/v1/queues/old?move_to=other", status=202))
    assert (done["kind"], done["from"], done["to"]) == ("move", "old", "other")
    assert [await queue_of(api, job) for job in (first, second, third)] == ["other"] * 3
    page = await api("GET", "/v1/queues/other/-/next")
    assert [job["id"] for job in page["jobs"]] == [first, second], "in the places they had"
    await api("GET", "/v1/queues/old", status=404)


async def test_what_names_the_old_queue_is_named(api: Api) -> None:
    await api.submit(queue="old")
    body = {"every": "1h", "job": {"task": "t", "queue": "old/a"}}
    await api("PUT", "/v1/schedules/hourly", body, 201)
    begun = await api("POST", "/v1/queues/old/-/rename", {"to": "new"}, 202)
    assert begun["warnings"] == ["schedule 'hourly' submits to 'old/a'"]
    await until_done(api, begun)


@pytest.mark.parametrize(
    ("to", "status"), [("taken", 409), ("old/a", 422), ("a//b", 422), ("1/2/3/4/5/6/7/8/9", 422)]
)
async def test_a_name_that_cannot_be_is_refused(api: Api, to: str, status: int) -> None:
    await api.submit(queue="old")
    await api.submit(queue="taken")
    await api("POST", "/v1/queues/old/-/rename", {"to": to}, status)
    assert (await api("GET", "/v1/queues/old"))["moving_to"] is None


async def test_an_operation_that_never_was_is_not_found(api: Api) -> None:
    for operation in ("0123456789abc", "nonsense"):
        await api("GET", f"/v1/operations/{operation}", status=404)


async def test_a_new_leader_goes_on_with_a_move(api: Api, node: Node) -> None:
    ids: list[str] = []
    for _ in range(3):
        body = {"jobs": [{"task": "t", "queue": "old"}] * 1000}
        ids += (await api("POST", "/v1/jobs/bulk", body))["ids"]
    begun = await api("POST", "/v1/queues/old/-/rename", {"to": "new"}, 202)
    term = (await api("GET", "/v1/cluster"))["term"]
    node.step_down()

    async def is_led() -> bool:
        led = await api.client.get(f"/v1/operations/{begun['id']}")
        return led.status_code != 503 and ((await api("GET", "/v1/cluster"))["term"] or 0) > term

    await eventually(is_led)
    await until_done(api, begun)
    shown = {one["path"]: one["waiting"] for one in (await api("GET", "/v1/queues"))["queues"]}
    assert shown == {"new": 3000}
    assert {await queue_of(api, job) for job in ids[::500]} == {"new"}


async def test_the_tree_comes_in_pages_with_the_numbers_of_whole_branches(api: Api) -> None:
    for path in ("b/x/1", "b/x/2", "a", "c"):
        await api.submit(queue=path)
    whole = await api("GET", "/v1/queues")
    assert [one["path"] for one in whole["queues"]] == ["a", "b", "b/x", "b/x/1", "b/x/2", "c"]
    assert whole["next"] is None
    pages, after = [], ""
    while after is not None:
        page = await api("GET", f"/v1/queues?limit=2&after={after}")
        pages.append(page["queues"])
        after = page["next"]
    assert [len(page) for page in pages] == [2, 2, 2]
    assert [one["path"] for page in pages for one in page] == [one["path"] for one in whole["queues"]]
    waiting = {one["path"]: one["waiting"] for page in pages for one in page}
    assert waiting == {"a": 1, "b": 2, "b/x": 2, "b/x/1": 1, "b/x/2": 1, "c": 1}
    rates = {one["path"]: one["rates"]["in"] > 0 for page in pages for one in page}
    assert all(rates.values())
    await api("GET", "/v1/queues?limit=0", status=422)
