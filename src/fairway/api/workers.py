"""Workers: who is there, and what each may take."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from fairway.api.answers import Answer, answer_json
from fairway.api.operation import Call, Operation
from fairway.errors import InvalidRequest, NotFound
from fairway.names import check_globs
from fairway.shapes import Worker, Workers
from fairway.spec import Globs
from fairway.views import worker_in_short, worker_view


class WorkerChanges(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, frozen=True):
    """Which queues it serves (globs), and whether it takes no more work."""

    queues: Globs | UnsetType = UNSET
    draining: bool | UnsetType = UNSET


async def list_workers(call: Call) -> Answer:
    """Show all workers."""
    return answer_json({"workers": [worker_in_short(worker) for worker in await call.desk.workers()]})


async def show_worker(call: Call) -> Answer:
    """Show one worker with its tasks, versions and facts."""
    for worker in await call.desk.workers():
        if worker.name == call.path["name"]:
            return answer_json(worker_view(worker))
    raise NotFound("there is no worker of that name")


async def patch_worker(call: Call) -> Answer:
    """Change a worker, live."""
    asked: WorkerChanges = call.body
    changes: dict[str, Any] = {}
    if asked.queues is not UNSET:
        changes["queues"] = list(check_globs(asked.queues, "queues"))
    if asked.draining is not UNSET:
        changes["draining"] = asked.draining
    if not changes:
        raise InvalidRequest("name queues or draining")
    return answer_json(worker_view(await call.desk.set_worker(call.path["name"], changes)))


OPERATIONS = [
    Operation("GET", "/v1/workers", list_workers, "Show the workers", answer=Workers, leader=True),
    Operation(
        "GET", "/v1/workers/{name}", show_worker, "Show a worker", answer=Worker, errors=(404,), leader=True
    ),
    Operation(
        "PATCH", "/v1/workers/{name}", patch_worker, "Change what a worker serves, or drain it",
        answer=Worker, body=WorkerChanges, errors=(404, 409), leader=True,
    ),
]  # fmt: skip
