"""Requests as jobs to insert, for whoever writes them to the database without a node in between."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from fairway.client.channel import Job, first_state
from fairway.client.request import JobRequest
from fairway.ids import IdMaker, show
from fairway.spec import new_job, read_spec
from fairway.store import NewJob


def new_jobs(requests: Sequence[JobRequest[Any]], now: int) -> list[NewJob]:
    """Return the rows to insert for these requests, checked as a node would check them."""
    ids = IdMaker().take(len(requests), now // 1000)
    return [_new_job(request, number, now) for request, number in zip(requests, ids, strict=True)]


def shown(requests: Sequence[JobRequest[Any]], ids: Sequence[int]) -> list[Job]:
    """Return what is known of jobs that were just accepted."""
    return [
        {"id": show(number), "state": first_state(request), "task": request.task.name}
        for request, number in zip(requests, ids, strict=True)
    ]


def _new_job(request: JobRequest[Any], number: int, now: int) -> NewJob:
    spec = read_spec(msgspec.json.decode(msgspec.json.encode(request.body())))
    return new_job(spec, number, now)
