"""Asking where a running job is: what a worker says is passed on, what it cannot say is told by name."""

from __future__ import annotations

import asyncio

import pytest

from fairway.wire.messages import Begin, Look, Seen, Task
from tests.api.conftest import Connect
from tests.api.from_outside import Api


@pytest.mark.parametrize(("found", "status", "says"), [(True, 200, "in send"), (False, 501, "cannot_tell")])
async def test_what_the_worker_says_is_the_answer(
    api: Api, connect_worker: Connect, found: bool, status: int, says: str
) -> None:
    worker = await connect_worker()
    await worker.join(tasks=[Task("mail.send")])
    job = await api.submit(task="mail.send")
    [begun] = (await worker.read_until(Begin)).assignments
    asking = asyncio.create_task(api.client.get(f"/v1/jobs/{job['id']}/stack"))
    look = await worker.read_until(Look)
    assert (look.job, look.attempt) == begun[:2]
    await worker.send(Seen(look.number + 1, "somebody else's"))
    await worker.send(Seen(look.number, "File mail.py, line 3, in send\n", found))
    answer = await asking
    assert answer.status_code == status and says in answer.text


async def test_only_what_runs_can_be_looked_at(api: Api) -> None:
    job = await api.submit(task="mail.send")
    assert (await api("GET", f"/v1/jobs/{job['id']}/stack", status=409))["code"] == "not_running"
    assert (await api("GET", "/v1/jobs/nonsense/stack", status=404))["code"] == "not_found"
