"""Inserts jobs with their keys: the one write that anybody may do.

`insert_submission` is plain SQL through one callable, so that it runs on the store's own connection and
just as well on a user's, inside the user's transaction. It neither begins nor commits.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from fairway.ids import LOW_BITS
from fairway.store import Accepted, NewJob, Request, Submission
from fairway.stores.sqlite.rows import Row, job_row
from fairway.stores.sqlite.sql import SQL
from fairway.times import MICRO

Execute = Callable[[str, Row], Iterable[Any]]
ExecuteMany = Callable[[str, Sequence[Row]], Any]

REQUEST_SECONDS = 86_400

_pack = msgspec.msgpack.Encoder().encode
_read_ids = msgspec.msgpack.Decoder(list[int]).decode


def insert_submission(execute: Execute, submission: Submission, now: int) -> Accepted:
    """Insert one submission and its arrivals; the caller commits.

    *execute* is the `execute` of an apsw or sqlite3 connection that is inside a transaction.
    """
    return insert_submissions(execute, _one_by_one(execute), [submission], now).accepted[0]


@dataclass(slots=True)
class Inserted:
    """What became of submissions: their answers, and what each new id replaced."""

    accepted: list[Accepted] = field(default_factory=list)
    redrawn: dict[int, int] = field(default_factory=dict)  # new id → the one that was taken
    stored: set[int] = field(default_factory=set)


def insert_submissions(
    execute: Execute,
    execute_many: ExecuteMany,
    submissions: Sequence[Submission],
    now: int,
    *,
    arrivals: bool = True,
) -> Inserted:
    """Insert submissions; with *arrivals* off, only jobs whose id had to be redrawn leave one."""
    result = Inserted()
    fresh: list[NewJob] = []
    for submission, jobs in zip(submissions, _with_free_ids(execute, submissions, result), strict=True):
        accepted = _find_answer(execute, submission.request, now)
        if accepted is None:
            accepted = _claim_keys(execute, jobs, fresh)
            _save_request(execute, submission.request, accepted, now)
        result.accepted.append(accepted)
    execute_many(SQL["insert_job"], [job_row(job) for job in fresh])
    told = fresh if arrivals else [job for job in fresh if job.id in result.redrawn]
    execute_many(SQL["insert_arrival"], [(job.id, job.concurrency) for job in told])
    result.stored = {job.id for job in fresh}
    return result


def _with_free_ids(
    execute: Execute, submissions: Sequence[Submission], result: Inserted
) -> list[Sequence[NewJob]]:
    """Return the jobs of each submission under ids that no other job has."""
    ids = [job.id for submission in submissions for job in submission.jobs]
    taken = _taken_ids(execute, ids)
    if not taken and len(set(ids)) == len(ids):
        return [submission.jobs for submission in submissions]
    used = set(ids) | taken
    seen = set(taken)
    return [[_redraw(execute, job, seen, used, result) for job in one.jobs] for one in submissions]


def _redraw(execute: Execute, job: NewJob, seen: set[int], used: set[int], result: Inserted) -> NewJob:
    if job.id not in seen:
        seen.add(job.id)
        return job
    new = job.id
    while new in used or _taken_ids(execute, [new]):
        new = (job.id >> LOW_BITS << LOW_BITS) | secrets.randbits(LOW_BITS)
    used.add(new)
    result.redrawn[new] = job.id
    return job._replace(id=new)


def _taken_ids(execute: Execute, ids: Sequence[int]) -> set[int]:
    return {row[0] for row in execute(SQL["find_taken_ids"], (msgspec.json.encode(ids).decode(),))}


def _find_answer(execute: Execute, request: Request | None, now: int) -> Accepted | None:
    """Return what was answered to the same request before, if anything."""
    if request is None:
        return None
    oldest = now - REQUEST_SECONDS * MICRO
    for digest, packed in list(execute(SQL["find_request"], (request.key, oldest))):
        if digest != request.digest:
            return Accepted(problem="idempotency_conflict")
        ids = _read_ids(packed)
        return Accepted(ids, [True] * len(ids))
    return None


def _claim_keys(execute: Execute, jobs: Sequence[NewJob], fresh: list[NewJob]) -> Accepted:
    """Answer with each job's id, or with the holder of its key; those to insert go to *fresh*."""
    accepted = Accepted()
    for job in jobs:
        holder = job.id
        if job.unique is not None:
            [(holder,)] = list(execute(SQL["claim_key"], (job.queue, job.unique, job.id)))
        accepted.ids.append(holder)
        accepted.existed.append(holder != job.id)
        if holder == job.id:
            fresh.append(job)
    return accepted


def _save_request(execute: Execute, request: Request | None, accepted: Accepted, now: int) -> None:
    if request is not None:
        row = (request.key, request.digest, _pack(accepted.ids), now)
        list(execute(SQL["save_request"], row))


def _one_by_one(execute: Execute) -> ExecuteMany:
    def run(sql: str, rows: Sequence[Row]) -> None:
        for row in rows:
            list(execute(sql, row))

    return run
