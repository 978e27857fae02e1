"""Submitting: one job, or many at once, all or nothing."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Annotated, NoReturn

import msgspec

from fairway.api.answers import Answer, answer_json
from fairway.api.body import MOST_BULK_BYTES
from fairway.api.operation import Call, Operation
from fairway.api.relaying import pass_submit_on
from fairway.clock import wall
from fairway.dependencies import check_call
from fairway.errors import CallerError, Conflict, InvalidRequest
from fairway.ids import give_out, show
from fairway.shapes import Ids, Job
from fairway.spec import JobSpec, new_job
from fairway.store import Accepted, NewJob, Request, StoredJob, Submission
from fairway.views import accepted_job, job_view

MOST_JOBS = 10_000
MOST_KEY = 255

KEY_HEADER = ("Idempotency-Key", "the same key within 24 h gives the same jobs again")

_printable = re.compile(rb"[\x21-\x7e]{1,255}")
_canonical = msgspec.json.Encoder(order="deterministic").encode


class Bulk(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Jobs that are accepted or refused together."""

    jobs: Annotated[list[JobSpec], msgspec.Meta(min_length=1, max_length=MOST_JOBS)]


async def submit_one(call: Call) -> Answer:
    """Accept one job and show it."""
    spec: JobSpec = call.body
    now = wall()
    job = new_job(spec, call.ids.one(), now)
    passed = await pass_submit_on(call.desk, call.question)
    if passed is not None:
        return passed
    submission = Submission([job], _request(call))
    accepted = await _submit(call, submission)
    job_id = accepted.ids[0]
    location = (b"location", f"/v1/jobs/{show(job_id)}".encode())
    if accepted.existed[0]:
        return answer_json(job_view(await _existing(call, job_id), now), 200, location)
    return answer_json(job_view(accepted_job(submission.jobs[0]), now), 201, location)


async def _existing(call: Call, job_id: int) -> StoredJob:
    found = await call.desk.store.find_job(job_id)
    if found is None:
        raise Conflict(
            f"job {show(job_id)} has this key; it ended and is no longer kept, the key is taken for longer",
            code="unique_taken",
        )
    return found


async def submit_many(call: Call) -> Answer:
    """Accept many jobs in one step and name their ids."""
    bulk: Bulk = call.body
    now = wall()
    ids = give_out(call.ids.take(len(bulk.jobs)), [spec.queue for spec in bulk.jobs])
    jobs = _new_jobs(bulk.jobs, ids, now)
    passed = await pass_submit_on(call.desk, call.question)
    if passed is not None:
        return passed
    accepted = await _submit(call, Submission(jobs, _request(call)))
    return answer_json({"ids": [show(job_id) for job_id in accepted.ids]})


def _new_jobs(specs: Sequence[JobSpec], ids: Sequence[int], now: int) -> list[NewJob]:
    jobs: list[NewJob] = []
    try:
        for spec, job_id in zip(specs, ids, strict=True):
            jobs.append(new_job(spec, job_id, now, ids))
    except CallerError as error:
        _name_index(error, len(jobs))
    if any(spec.after for spec in specs):
        check_call([job.extras.after if job.extras else () for job in jobs], ids)
    return jobs


def _name_index(error: CallerError, index: int) -> NoReturn:
    """Say which of the jobs it was."""
    field = f"jobs[{index}]" + (f".{error.field}" if error.field else "")
    raise InvalidRequest(
        f"jobs[{index}]: {error.detail}", code=error.code, field=field, status=error.status
    ) from None


async def _submit(call: Call, submission: Submission) -> Accepted:
    (accepted,) = await call.desk.submit([submission])
    if accepted.problem is None:
        return accepted
    if accepted.problem == "idempotency_conflict":
        raise Conflict(
            "this Idempotency-Key was used for another request; use a fresh one", code="idempotency_conflict"
        )
    raise Conflict(f"the jobs were not accepted: {accepted.problem}", code=accepted.problem)


def _request(call: Call) -> Request | None:
    key = call.headers.get(b"idempotency-key")
    if key is None:
        return None
    if not _printable.fullmatch(key):
        raise InvalidRequest(
            f"Idempotency-Key must be 1 to {MOST_KEY} printable ASCII characters without spaces",
            field="Idempotency-Key",
        )
    try:
        canonical = _canonical(call.json)
    except UnicodeEncodeError:
        raise InvalidRequest("the body has a lone surrogate, which is not text") from None
    return Request(key.decode(), hashlib.sha256(canonical).digest())


OPERATIONS = [
    Operation(
        "POST",
        "/v1/jobs",
        submit_one,
        "Submit a job; 200 if its idempotency or unique key already had one",
        answer=Job,
        status=201,
        others=(200,),
        errors=(409,),
        body=JobSpec,
        headers=(KEY_HEADER,),
    ),
    Operation(
        "POST",
        "/v1/jobs/bulk",
        submit_many,
        f"Submit up to {MOST_JOBS} jobs, all or nothing",
        answer=Ids,
        errors=(409,),
        body=Bulk,
        most_bytes=MOST_BULK_BYTES,
        headers=(KEY_HEADER,),
    ),
]
