"""How submissions and commits change the tables: the contract, said as plainly as it can be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fairway.core.lifecycle import State
from fairway.core.plan import (
    Batch,
    Begin,
    Begun,
    Drop,
    Edit,
    End,
    Flag,
    Recall,
    Resolve,
    Return,
    Revive,
    Unblock,
)
from fairway.errors import Deposed
from fairway.store import Accepted, NewJob, Receipt, ScheduleChange, StoredJob, Submission
from fairway.stores.causing import seen_together
from fairway.stores.claiming import replacing, until_of
from fairway.stores.memory.tables import Draft, Tables, begun_of, is_ended, is_waiting, shown
from fairway.stores.notifying import deliveries_of
from fairway.stores.submitting import check_known, foreign_names, renamed
from fairway.stores.telling import ended_attempts, told
from fairway.times import MICRO

REQUEST_SECONDS = 86_400


def submit(tables: Tables, submissions: Sequence[Submission], now: int) -> list[Accepted]:
    """Insert submissions; each job that is new leaves an arrival."""
    draft = Draft(tables)
    accepted, inserted = _accept_all(draft, submissions, now)
    for job in inserted:
        draft.arrive(job)
    draft.keep(now)
    return accepted


def commit(
    tables: Tables, term: int, holder: str, batch: Batch, submissions: Sequence[Submission], now: int
) -> Receipt:
    """Write everything, or raise Deposed and write nothing."""
    check_term(tables, term, holder)
    draft = Draft(tables)
    asked = {job.id for submission in submissions for job in submission.jobs}
    accepted, inserted = _accept_all(draft, submissions, now)
    refused = asked - {job.id for job in inserted}
    for job in inserted:
        if job.id not in asked:  # its id was taken, so the core does not know the one it got
            draft.arrive(job)
    for move in batch.moves:
        for number in move.jobs:
            if number not in refused:
                _move(draft, number, move.queue, now)
    for recall in batch.recalls:
        job_recalled = _live(draft, recall.job, recall)
        job_recalled.place, job_recalled.extras = recall.place, recall.extras
    for end in batch.ends:
        for number in end.jobs:
            _end(draft, number, end, now)
    for one in batch.returns:
        _return(draft, one)
    for edit in batch.edits:
        if edit.job not in refused:
            _edit(draft, edit, now)
    for unblock in batch.unblocks:
        _unblock(draft, unblock)
    for drop in batch.drops:
        if drop.job not in refused:
            _drop(draft, drop, now)
    revived = [back for revive in batch.revives if (back := _revive(draft, revive, now))]
    resolved = [found for resolve in batch.resolves if (found := _resolve(draft, resolve, now))]
    over = ended_attempts(batch)
    for flag in batch.flags:
        if flag[:2] not in over:
            _live(draft, flag.job, flag).cancelling = True
    begun = [_begin(draft, job, begin) for begin in batch.begins for job in begin.jobs if job not in refused]
    for queue in batch.queues:
        draft.queues.pop(queue.path, None)
        if queue.settings is not None:
            draft.queues[queue.path] = queue.settings
    draft.changes += batch.changes
    for number in batch.taken:
        draft.arrivals.pop(number, None)
    new_causes = [one for one in seen_together(batch.causes) if draft.see(one)]
    noticed = [found for one in batch.notices if one not in refused and (found := draft.find(one))]
    draft.deliveries = list(deliveries_of([*noticed, *resolved], now))
    draft.events = told(batch, begun, refused, revived, resolved, now, new_causes)
    redrawn = any(job.id not in asked for job in inserted)
    told_as = draft.keep(now)
    return Receipt(begun, accepted, sorted(refused), revived, resolved, draft.events, told_as, redrawn)


def write_schedule(
    tables: Tables, term: int, holder: str, change: ScheduleChange, now: int
) -> list[Accepted] | None:
    """Replace a schedule and insert its jobs, if it is as it was seen."""
    name, before, row, submissions = change
    check_term(tables, term, holder)
    found = tables.schedules.get(name)
    if (found.revision if found else 0) != before:
        return None
    tables.schedules.pop(name, None)
    if row is not None:
        tables.schedules[name] = row
    return submit(tables, submissions, now)


def check_term(tables: Tables, term: int, holder: str) -> None:
    """Raise Deposed if the term is over."""
    leader = tables.leadership
    if leader is None or (leader.term, leader.holder) != (term, holder):
        raise Deposed(f"term {term} of {holder} is over")


def _accept_all(
    draft: Draft, submissions: Sequence[Submission], now: int
) -> tuple[list[Accepted], list[NewJob]]:
    """Answer each submission, and return the jobs that were inserted."""
    inserted: list[NewJob] = []
    asked = {job.id for submission in submissions for job in submission.jobs}
    return [_accept(draft, submission, now, asked, inserted) for submission in submissions], inserted


def _accept(
    draft: Draft, submission: Submission, now: int, asked: set[int], inserted: list[NewJob]
) -> Accepted:
    """Insert one submission, or find what was answered to it before."""
    request = submission.request
    if request is not None and request.key in draft.requests:
        digest, ids, created_at = draft.requests[request.key]
        if created_at > now - REQUEST_SECONDS * MICRO:
            if digest != request.digest:
                return Accepted(problem="idempotency_conflict")
            return Accepted(list(ids), [True] * len(ids))
    named = foreign_names(submission.jobs)
    check_known(named, [job for job in named if draft.has(job)])
    accepted, first = Accepted(), len(inserted)
    for job in submission.jobs:
        _accept_one(draft, _with_free_id(draft, job, asked), accepted, inserted, now)
    names = {job.id: got for job, got in zip(submission.jobs, accepted.ids, strict=True) if job.id != got}
    if names:
        inserted[first:] = [renamed(job, names) for job in inserted[first:]]
        for job in inserted[first:]:
            draft.insert(job)
    if request is not None:
        draft.requests[request.key] = request.digest, list(accepted.ids), now
    return accepted


def _accept_one(draft: Draft, job: NewJob, accepted: Accepted, inserted: list[NewJob], now: int) -> None:
    """Insert a job unless its unique key has a holder, who is then the answer, or is replaced."""
    holder = None if job.unique is None else draft.holder(job.queue, job.unique, now)
    if holder is not None and not job.replace:
        accepted.ids.append(holder)
        accepted.existed.append(True)
        return
    job = job if holder is None else replacing(job, holder)
    draft.insert(job)
    inserted.append(job)
    if job.unique is not None:
        draft.claim(job.queue, job.unique, job.id, until_of(job.created_at, job.extras))
    accepted.ids.append(job.id)
    accepted.existed.append(False)


def _with_free_id(draft: Draft, job: NewJob, asked: set[int]) -> NewJob:
    """Count up from a taken id: not at random, so that a simulation stays the same."""
    new = job.id
    while new in draft.tables.jobs or new in draft.changed or (new != job.id and new in asked):
        new += 1
    return job if new == job.id else job._replace(id=new)


def _live(draft: Draft, number: int, one: End | Return | Flag | Recall) -> StoredJob:
    """Return the job of a running attempt, or raise if that attempt is not live."""
    job = draft.find(number)
    if job is None or job.state is not State.RUNNING:
        raise Deposed(f"job {number} is not running")
    if (job.attempt, job.incarnation) != (one.attempt, one.incarnation):
        raise Deposed(f"attempt {one.attempt} of job {number} is not the live one")
    return job


def _end(draft: Draft, number: int, end: End, now: int) -> None:
    job = _live(draft, number, end)
    job.state, job.outcome, job.ended_at = State(end.state), end.outcome, end.ended_at
    job.started_at = job.started_at if end.started_at is None else end.started_at
    job.tries, job.crashes, job.cancelling, job.cause = end.tries, end.crashes, False, end.cause
    job.losses = ()  # counted in the crashes
    draft.free(end.queue, end.unique, number, now)


def _return(draft: Draft, one: Return) -> None:
    job = _live(draft, one.job, one)
    job.state, job.place, job.run_at, job.cancelling = State.QUEUED, one.place, one.run_at, False
    job.tries, job.crashes, job.losses, job.outcome = one.tries, one.crashes, one.losses, one.outcome


def _drop(draft: Draft, drop: Drop, now: int) -> None:
    job = _waiting(draft, drop.job)
    job.state, job.outcome, job.ended_at = State(drop.state), drop.outcome, drop.ended_at
    job.cause = drop.cause
    draft.free(job.queue, job.unique, job.id, now)


def _unblock(draft: Draft, one: Unblock) -> None:
    job = _waiting(draft, one.job)
    if job.state is not State.BLOCKED:
        raise Deposed(f"job {one.job} is not blocked")
    job.state, job.place = State.QUEUED, one.place


def _edit(draft: Draft, edit: Edit, now: int) -> None:
    """Re-role a waiting job. Where the new queue has its unique key already, it goes on without one."""
    job = _waiting(draft, edit.job)
    if job.unique is not None and job.queue != edit.queue:
        if (held := draft.claims.get((job.queue, job.unique))) is not None and held.job == job.id:
            del draft.claims[job.queue, job.unique]
        if not _claim(draft, job, edit.queue, now):
            job.unique = None
    job.queue, job.flow, job.priority, job.tags = edit.queue, edit.flow, edit.priority, edit.tags
    job.run_at, job.place = edit.run_at, edit.place
    job.rules, job.extras = edit.rules, edit.extras
    job.adapter = edit.adapter or job.adapter


def _move(draft: Draft, number: int, queue: str, now: int) -> None:
    job = draft.find(number)
    if job is None or is_ended(job):
        raise Deposed(f"job {number} has ended, so it cannot be moved")
    _move_key(draft, job, queue, now)
    job.queue = queue


def _move_key(draft: Draft, job: StoredJob, queue: str, now: int) -> None:
    """Take the unique key along with a branch; where the new queue has it already, the job goes on without.

    One whose key has gone to a newer job gets no other, for that one goes the same way: it was replaced.
    """
    held = None if job.unique is None else draft.claims.get((job.queue, job.unique))
    if job.unique is None or job.queue == queue or held is None or held.job != job.id:
        return
    del draft.claims[job.queue, job.unique]
    if not _claim(draft, job, queue, now):
        job.unique = None


def _claim(draft: Draft, job: StoredJob, queue: str, now: int) -> bool:
    """Try to get a job's key in a queue; it may still be its own from its last life."""
    if job.unique is None:
        return True
    if draft.holder(queue, job.unique, now) not in (None, job.id):
        return False
    draft.claim(queue, job.unique, job.id, until_of(job.created_at, job.extras))
    return True


def _revive(draft: Draft, revive: Revive, now: int) -> StoredJob | None:
    """Bring an ended job back; one that is gone, or whose unique key is taken, stays as it is."""
    job = draft.find(revive.job)
    if job is None or not is_ended(job):
        return None
    if not _claim(draft, job, job.queue, now):
        return None
    job.state, job.place, job.run_at = State.QUEUED, revive.place, revive.run_at
    job.generation, job.tries, job.crashes, job.losses = job.generation + 1, 0, 0, ()
    job.incarnation = job.worker = job.started_at = job.ended_at = job.outcome = job.cause = None
    if job.extras is not None:
        job.extras = replace(job.extras, deadline=None)
    draft.anew.append(job.id)
    return shown(job, now)


def _resolve(draft: Draft, one: Resolve, now: int) -> StoredJob | None:
    job = draft.find(one.job)
    if job is None or job.state is not State.UNKNOWN:
        return None
    if one.attempt and (job.attempt, job.incarnation) != (one.attempt, one.incarnation):
        return None
    job.state, job.outcome, job.ended_at = State(one.state), one.outcome, one.ended_at
    job.cause = None if job.state is State.SUCCEEDED else job.cause
    return shown(job, now)


def _begin(draft: Draft, number: int, begin: Begin) -> Begun:
    job = _waiting(draft, number)
    if job.state is State.BLOCKED:
        raise Deposed(f"job {number} is blocked")
    job.state, job.attempt, job.incarnation = State.RUNNING, job.attempt + 1, begin.incarnation
    job.worker, job.started_at = begin.worker, begin.started_at
    return begun_of(job)


def _waiting(draft: Draft, number: int) -> StoredJob:
    job = draft.find(number)
    if job is None or not is_waiting(job):
        raise Deposed(f"job {number} is not waiting")
    return job
