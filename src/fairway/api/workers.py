"""Workers: who is there, and what each may take."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from fairway.api.answers import Answer, answer_json
from fairway.api.frames import MOST_SLOTS
from fairway.api.operation import Call, Operation
from fairway.errors import InvalidRequest, NotFound
from fairway.names import QUEUE_GLOB_PATTERN, check_queue_globs
from fairway.shapes import Worker, Workers
from fairway.spec import Duration
from fairway.times import parse_duration
from fairway.views import worker_in_short, worker_view

QueueGlob = Annotated[
    str, Meta(extra_json_schema={"minLength": 1, "maxLength": 600, "pattern": QUEUE_GLOB_PATTERN})
]
QueueGlobs = Annotated[list[QueueGlob], Meta(extra_json_schema={"maxItems": 32})]


class WorkerChanges(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, frozen=True):
    """Which queues it serves (globs), how many slots it has, and whether it takes no more work.

    *deadline* goes with `draining`: what still runs when it is over is stopped and handed back.
    """

    queues: QueueGlobs | UnsetType = UNSET
    draining: bool | UnsetType = UNSET
    slots: Annotated[int, Meta(ge=1, le=MOST_SLOTS)] | UnsetType = UNSET
    deadline: Duration | UnsetType | None = UNSET


async def list_workers(call: Call) -> Answer:
    """Show all workers."""
    return answer_json({"workers": [worker_in_short(worker) for worker in await call.desk.workers()]})


async def show_worker(call: Call) -> Answer:
    """Show one worker with its tasks, versions and facts."""
    found = [worker for worker in await call.desk.workers() if worker.name == call.path["name"]]
    if not found:
        raise NotFound(f"there is no worker {call.path['name'][:128]!a}")
    return answer_json(worker_view(found[-1]))  # before it may stand its lost predecessor


async def patch_worker(call: Call) -> Answer:
    """Change a worker, live."""
    asked: WorkerChanges = call.body
    changes: dict[str, Any] = {}
    if asked.queues is not UNSET:
        changes["queues"] = list(check_queue_globs(asked.queues, "queues"))
    if asked.draining is not UNSET:
        changes["draining"] = asked.draining
    if asked.slots is not UNSET:
        changes["slots"] = asked.slots
    if asked.deadline is not UNSET and asked.deadline is not None:
        if asked.draining is not True:
            raise InvalidRequest("a deadline goes with draining: true", field="deadline")
        changes["deadline_seconds"] = parse_duration(asked.deadline, "deadline")
    if not changes:
        raise InvalidRequest("name queues, slots or draining")
    return answer_json(worker_view(await call.desk.set_worker(call.path["name"], changes)))


OPERATIONS = [
    Operation("GET", "/v1/workers", list_workers, "Show the workers", answer=Workers, leader=True),
    Operation(
        "GET", "/v1/workers/{name}", show_worker, "Show a worker", answer=Worker, errors=(404,), leader=True
    ),
    Operation(
        "PATCH", "/v1/workers/{name}", patch_worker, "Change what a worker serves, its slots, or drain it",
        answer=Worker, body=WorkerChanges, errors=(404, 409), leader=True,
    ),
]  # fmt: skip
