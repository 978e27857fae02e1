"""Inserts jobs with their keys: the one write that anybody may do, told step by step.

`inserting` decides what to ask and what to write, and yields each statement instead of running it. Whoever
has a connection runs it and sends the rows back: the SQLite store, the PostgreSQL store, or a user's own
connection of whatever library, inside the user's own transaction. It neither begins nor commits.
"""

from __future__ import annotations

import itertools
import operator
import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from fairway.errors import InvalidRequest
from fairway.ids import LOW_BITS, show
from fairway.store import Accepted, NewJob, Request, Submission
from fairway.stores.claiming import claim_keys
from fairway.stores.rows import Row, extras_row
from fairway.stores.steps import Ask, Insert, Put, Steps
from fairway.times import MICRO

REQUEST_SECONDS = 86_400

pack_ids = msgspec.msgpack.Encoder().encode
_id = operator.attrgetter("id")
_read_ids = msgspec.msgpack.Decoder(list[int]).decode


@dataclass(slots=True)
class Inserted:
    """What became of submissions: their answers, and what each new id replaced."""

    accepted: list[Accepted] = field(default_factory=list)
    redrawn: dict[int, int] = field(default_factory=dict)  # new id → the one that was taken
    stored: set[int] = field(default_factory=set)


def inserting(submissions: Sequence[Submission], now: int, *, arrivals: bool = True) -> Steps[Inserted]:
    """Insert submissions; with *arrivals* off, only jobs whose id had to be redrawn leave one."""
    result = Inserted()
    fresh: list[NewJob] = []
    drawn = yield from _with_free_ids(submissions, result)
    new = yield from _reserve(submissions, drawn, now)
    for number, (submission, jobs) in enumerate(zip(submissions, drawn, strict=True)):
        request = submission.request
        if request is not None and new.get(request.key) != number:
            result.accepted.append((yield from _find_answer(request)))
            continue
        accepted = yield from _accept(submission.jobs, jobs, fresh, now)
        if request is not None and accepted.ids != [job.id for job in jobs]:
            yield Ask("save_request", (request.key, pack_ids(accepted.ids)))
        result.accepted.append(accepted)
    fresh.sort(key=_id)  # those of one queue together, and each to the end of the table
    told = fresh if arrivals else [job for job in fresh if job.id in result.redrawn]
    untold = [] if arrivals else [job for job in fresh if job.id not in result.redrawn]
    if untold:
        yield Insert(untold, arriving=False)
    if told:
        yield Insert(told, arriving=True)
    special = [extras_row(job) for job in fresh if job.extras is not None]
    if special:
        yield Put("save_extras", special)
    result.stored = {job.id for job in fresh}
    return result


def _accept(
    asked: Sequence[NewJob], jobs: Sequence[NewJob], fresh: list[NewJob], now: int
) -> Steps[Accepted]:
    """Accept the jobs of one submission, *asked* for under ids of which some may have been drawn anew."""
    if not any(job.extras is not None and job.extras.after for job in jobs):
        return (yield from claim_keys(jobs, fresh, now))
    named = foreign_names(asked)
    known = {row[0] for row in (yield Ask("find_known_ids", (named,)))} if named else set()
    check_known(named, known)
    first = len(fresh)
    accepted = yield from claim_keys(jobs, fresh, now)
    names = {job.id: got for job, got in zip(asked, accepted.ids, strict=True) if job.id != got}
    fresh[first:] = [renamed(job, names) for job in fresh[first:]]
    return accepted


def foreign_names(jobs: Sequence[NewJob]) -> list[int]:
    """Return the jobs that these wait for and that are not among them."""
    named = {one for job in jobs if job.extras is not None for one in job.extras.after}
    return sorted(named - {job.id for job in jobs})


def check_known(named: Sequence[int], known: Collection[int]) -> None:
    """Refuse a submission that waits for what is not there."""
    for job in named:
        if job not in known:
            raise InvalidRequest(
                f"there is no job {show(job)} to wait for (any more)", code="unknown_job", field="after"
            )


def renamed(job: NewJob, names: Mapping[int, int]) -> NewJob:
    """Return a job that waits for the jobs its submission really got: their keys may have had others."""
    extras = job.extras
    if not names or extras is None or names.keys().isdisjoint(extras.after):
        return job
    after = tuple(dict.fromkeys(names.get(one, one) for one in extras.after))
    return job._replace(extras=replace(extras, after=after))


def _with_free_ids(submissions: Sequence[Submission], result: Inserted) -> Steps[list[Sequence[NewJob]]]:
    """Return the jobs of each submission under ids that no other job has."""
    ids = [job.id for submission in submissions for job in submission.jobs]
    is_taken = bool((yield Ask("find_taken_ids", ranges_of(sorted(ids)))))
    if not is_taken and len(set(ids)) == len(ids):
        return [submission.jobs for submission in submissions]
    taken = {row[0] for row in (yield Ask("find_known_ids", (ids,)))} if is_taken else set()
    used = set(ids) | taken
    seen = set(taken)
    found: list[Sequence[NewJob]] = []
    for submission in submissions:
        jobs = []
        for job in submission.jobs:
            jobs.append((yield from _redraw(job, seen, used, result)))
        found.append(jobs)
    return found


def ranges_of(ids: list[int]) -> tuple[list[int], list[int]]:
    """Return the first and the last of each run of ids: a bulk draws a range of them."""
    firsts, lasts = ids[:1], []
    for before, number in itertools.pairwise(ids):
        if number != before + 1:
            lasts.append(before)
            firsts.append(number)
    return firsts, [*lasts, *ids[-1:]]


def _redraw(job: NewJob, seen: set[int], used: set[int], result: Inserted) -> Steps[NewJob]:
    if job.id not in seen:
        seen.add(job.id)
        return job
    new = job.id
    while new in used or (yield Ask("find_taken_ids", ([new], [new]))):
        new = (job.id >> LOW_BITS << LOW_BITS) | secrets.randbits(LOW_BITS)
    used.add(new)
    result.redrawn[new] = job.id
    return job._replace(id=new)


def _reserve(
    submissions: Sequence[Submission], drawn: Sequence[Sequence[NewJob]], now: int
) -> Steps[dict[str, int]]:
    """Note what is to be answered to requests that are new; return which of the submissions has each key."""
    first: dict[str, int] = {}
    for number, submission in enumerate(submissions):
        if submission.request is not None:
            first.setdefault(submission.request.key, number)
    if not first:
        return {}
    oldest, rows = now - REQUEST_SECONDS * MICRO, list[Row]()
    # In one order for everybody: two who make the same requests wait for each other, never in a circle.
    for key in sorted(first):
        request, jobs = submissions[first[key]].request, drawn[first[key]]
        assert request is not None
        rows.append((key, request.digest, pack_ids([job.id for job in jobs]), now, oldest))
    return {row[0]: first[row[0]] for row in (yield Put("reserve_request", rows, returns=True))}


def _find_answer(request: Request) -> Steps[Accepted]:
    """Return what was answered to the same request before."""
    [(digest, packed)] = yield Ask("find_request", (request.key,))
    if digest != request.digest:
        return Accepted(problem="idempotency_conflict")
    ids = _read_ids(packed)
    return Accepted(ids, [True] * len(ids))
