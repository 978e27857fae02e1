"""The shortest way for the most common calls: one statement and one round trip.

A small submission takes it when nothing can hold it up: no unique keys, few jobs under neighbouring ids. At
the leader so do all submissions that came while the last commit was under way, if the next one has no other
records than begins of these very jobs; and the first begins of a few jobs that others have inserted. What it
cannot do (an id was taken, a request was made before, a job has been begun before) it leaves undone, and the
long way finds out why.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from operator import attrgetter
from typing import Any

from fairway.core.model import DEFAULT_RULES
from fairway.core.plan import Batch, Begun, News
from fairway.store import Accepted, NewJob, Receipt, Submission
from fairway.stores.postgres.inserting import MANY
from fairway.stores.postgres.words import words_for
from fairway.stores.rows import job_row
from fairway.stores.submitting import pack_ids, ranges_of
from fairway.stores.telling import told

FEW = 20

#: The records that the short ways write; `taken` only with begins of jobs that are stored already.
WRITTEN_HERE = {"begins", "taken", "news"}
# All others by asking the batch what it has: a list of them would be silent about the next kind, and a commit
# that has some would be confirmed without them.
_written_elsewhere = attrgetter(*(kind.name for kind in fields(Batch) if kind.name not in WRITTEN_HERE))


def is_small(submissions: Sequence[Submission]) -> bool:
    """Say whether this is one submission of a few plain jobs under ids that follow each other."""
    if len(submissions) != 1 or not 1 <= len(submissions[0].jobs) <= FEW:
        return False
    jobs = submissions[0].jobs
    first, last = _range(jobs)
    return last - first == len(jobs) - 1 and all(map(_is_plain, jobs))


def _is_plain(job: NewJob) -> bool:
    return job.unique is None and job.extras is None


def _range(jobs: Sequence[NewJob]) -> tuple[int, int]:
    """Return the first and the last id: a call with several queues mixes the order."""
    ids = [job.id for job in jobs]
    return min(ids), max(ids)


def begins_at_once(batch: Batch, submissions: Sequence[Submission]) -> bool:
    """Say whether a commit has a few plain jobs of different requests, begins of them, and nothing else."""
    jobs = [job for submission in submissions for job in submission.jobs]
    if not 1 <= len(jobs) < MANY or batch.taken or not _only_begins(batch) or not all(map(_is_plain, jobs)):
        return False
    new, keys = {job.id for job in jobs}, [one.request.key for one in submissions if one.request is not None]
    if len(new) != len(jobs) or len(set(keys)) != len(keys):
        return False
    return all(job in new for begin in batch.begins for job in begin.jobs)


def only_begins_few(batch: Batch, submissions: Sequence[Submission]) -> bool:
    """Say whether a commit begins a few jobs that are stored already, and does nothing else."""
    return not submissions and 1 <= sum(len(one.jobs) for one in batch.begins) <= FEW and _only_begins(batch)


def are_few(rows: Sequence[Any]) -> bool:
    """Say whether `few_arrivals` found all there is, rather than too much."""
    return len({row[1] for row in rows}) <= FEW and all(row[14] <= FEW for row in rows)


def _only_begins(batch: Batch) -> bool:
    return not any(_written_elsewhere(batch))


def submit_values(submission: Submission, now: int) -> list[Any]:
    """Return the arguments of `submit_at_once`."""
    rows = [(*job_row(job), job.concurrency) for job in submission.jobs]
    return [*_columns(rows), *_range_and_request(submission, now)]


def is_one(submission: Submission) -> bool:
    """Say whether it is one job of a request, so that `submit_one` can be used."""
    return len(submission.jobs) == 1 and submission.request is not None


def submit_one_values(submission: Submission, now: int) -> list[Any]:
    """Return the arguments of `submit_one`."""
    [job], request = submission.jobs, submission.request
    assert request is not None
    row, words = job_row(job), None
    if job.concurrency is None:  # else there is more to be known of it
        words = words_for(row)
    return [*row, job.concurrency, request.key, request.digest, pack_ids([job.id]), now, words]


def begin_values(submissions: Sequence[Submission], batch: Batch, now: int) -> list[Any]:
    """Return the arguments of `begin_at_once`, but for the group, the event and the fence."""
    jobs = [job for submission in submissions for job in submission.jobs]
    workers = {job: begin[1:4] for begin in batch.begins for job in begin.jobs}
    requests = sorted(
        (one.request.key, one.request.digest, pack_ids([job.id for job in one.jobs]))
        for one in submissions
        if one.request is not None
    )
    return [
        *_columns([(*job_row(job), *workers.get(job.id, (None, None, None))) for job in jobs]),
        *ranges_of(sorted(job.id for job in jobs)),
        *(_columns(requests) if requests else ([], [], [])),
        now,
        list(workers),
    ]


def first_begins(batch: Batch) -> tuple[list[list[Any]], list[News]]:
    """Return the jobs, incarnations, workers and starts, and the news if each is a first attempt."""
    rows = [(job, *begin[1:4]) for begin in batch.begins for job in begin.jobs]
    begun = [Begun(row[0], 1, 0, 0, 0, (), DEFAULT_RULES, None, b"") for row in rows]
    return _columns(rows), told(batch, begun, (), [], [], 0)


def receipt_of(submissions: Sequence[Submission], batch: Batch, now: int) -> Receipt:
    """Return what a commit that went this way found: every job new, every attempt the first."""
    jobs = {job.id: job for submission in submissions for job in submission.jobs}
    begun = [_begun(jobs[job]) for begin in batch.begins for job in begin.jobs]
    accepted = [Accepted([job.id for job in one.jobs], [False] * len(one.jobs)) for one in submissions]
    return Receipt(begun, accepted, [], [], [], told(batch, begun, (), [], [], now), None)


def _begun(job: NewJob) -> Begun:
    return Begun(job.id, 1, 0, 0, 0, (), job.rules, None, job.payload)


def _range_and_request(submission: Submission, now: int) -> list[Any]:
    jobs, request = submission.jobs, submission.request
    key = (request.key, request.digest) if request is not None else (None, None)
    return [*_range(jobs), *key, pack_ids([job.id for job in jobs]), now]


def _columns(rows: Sequence[tuple[Any, ...]]) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)]
