"""Jobs sent elsewhere: to another worker or away from one, to the front of their line, to its end."""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from fairway.api.answers import Answer, answer_json
from fairway.api.jobs import find_job_id
from fairway.api.operation import Call, Operation
from fairway.clock import wall
from fairway.errors import InvalidRequest
from fairway.names import check_worker
from fairway.shapes import Job
from fairway.spec import WorkerName
from fairway.store import StoredJob
from fairway.views import job_view


class Relocation(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, frozen=True):
    """Where a job shall go: *to* a worker, or *away* from the one it runs on or ran on last. One of them."""

    to: WorkerName | UnsetType = UNSET
    away: Literal[True] | UnsetType = UNSET


async def relocate_job(call: Call) -> Answer:
    """Move a job to another worker: if it runs it is stopped, handed back and begins there."""
    job_id = find_job_id(call)
    asked: Relocation = call.body
    if (asked.to is UNSET) == (asked.away is UNSET):
        raise InvalidRequest("give exactly one of to and away", field="to")
    to = None if asked.to is UNSET else check_worker(asked.to, "to")
    return await _shown(call, await call.desk.relocate(job_id, to))


async def prefer_job(call: Call) -> Answer:
    """Put a waiting job before all others of its line."""
    return await _shown(call, await call.desk.prefer(find_job_id(call)))


async def requeue_job(call: Call) -> Answer:
    """Put a job behind all others of its line; if it runs it is stopped and handed back."""
    return await _shown(call, await call.desk.requeue(find_job_id(call)))


async def _shown(call: Call, job: StoredJob) -> Answer:
    [standing] = await call.desk.standing([job])
    return answer_json(job_view(job, wall(), standing))


OPERATIONS = [
    Operation(
        "POST", "/v1/jobs/{id}/relocate", relocate_job,
        "Move a job to another worker, or away from its own, at no cost in tries",
        answer=Job, body=Relocation, errors=(404, 409), leader=True,
    ),
    Operation(
        "POST", "/v1/jobs/{id}/prefer", prefer_job, "Put a waiting job in front of its line, due now",
        answer=Job, errors=(404, 409), leader=True,
    ),
    Operation(
        "POST", "/v1/jobs/{id}/requeue", requeue_job, "Put a job, running or waiting, at the end of its line",
        answer=Job, errors=(404, 409), leader=True,
    ),
]  # fmt: skip
