"""Who gets a unique key: the job that asks, or the one that has it.

A key belongs to its job while that waits or runs, and with `unique_for` until then if that is later. So a
claim has a time (`until`) and says whether its job has ended (`over`); one that is over and past is free.
A job that replaces takes the key whoever has it: the leader drops the one before it when it takes the new
one in, if it still waits.

On a server, a submit that replaces locks claims of jobs that live, so it is never part of a user's own
transaction: the leader that ends such a job would wait for the user. All others lock a claim only if it is
over and past, and such a one is deleted and made anew, never updated: whoever waits for a row that is updated
gets a lock on what it became, wanted or not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from fairway.core.model import Extras
from fairway.errors import Conflict
from fairway.store import Accepted, NewJob
from fairway.stores.rows import Row
from fairway.stores.steps import Put, Steps
from fairway.times import LATEST, MICRO

CLAIM_TRIES = 5

Key = tuple[str, str]  # queue and key


def until_of(created_at: int, extras: Extras | None) -> int | None:
    """Return until when a job's key outlives it; None: not at all."""
    if extras is None or extras.unique_for is None:
        return None
    return min(created_at + round(extras.unique_for * MICRO), LATEST)


def replacing(job: NewJob, before: int) -> NewJob:
    """Return a job that says whose key it took."""
    return job._replace(extras=replace(job.extras or Extras(), replaces=before))


def claim_keys(jobs: Sequence[NewJob], fresh: list[NewJob], now: int) -> Steps[Accepted]:
    """Answer with each job's id, or with the holder of its key; those to insert go to *fresh*."""
    held = yield from _held_before(_winners(jobs), now)
    accepted = Accepted()
    for job in jobs:
        holder = None if job.unique is None else held.get((job.queue, job.unique))
        if holder is None or job.replace:
            fresh.append(job if holder is None else replacing(job, holder))
            accepted.ids.append(job.id)
            accepted.existed.append(False)
            if job.unique is not None:
                held[job.queue, job.unique] = job.id
        else:
            accepted.ids.append(holder)
            accepted.existed.append(True)
    return accepted


def _winners(jobs: Sequence[NewJob]) -> dict[Key, NewJob]:
    """Return who of them gets each key if it is free: the last that replaces, else the first."""
    winners: dict[Key, NewJob] = {}
    for job in jobs:
        if job.unique is not None and (job.replace or (job.queue, job.unique) not in winners):
            winners[job.queue, job.unique] = job
    return winners


def _held_before(winners: Mapping[Key, NewJob], now: int) -> Steps[dict[Key, int]]:
    """Claim keys for the winners; return who had those that were taken."""
    held: dict[Key, int] = {}
    # In one order for everybody: two who want the same keys wait for each other, never in a circle.
    missing = sorted(winners)
    for _ in range(CLAIM_TRIES):
        if not missing:
            return held
        taken = yield from _take({key: winners[key] for key in missing if winners[key].replace})
        free = [key for key in missing if key not in taken]
        claimed = yield from _claim({key: winners[key] for key in free})
        others = [key for key in free if key not in claimed and not winners[key].replace]
        known = yield from _look(others, now)
        held |= taken | known
        missing = [key for key in free if key not in claimed and key not in known]  # old, or just gone
    if missing:
        raise Conflict("a unique key changes hands all the time; try again", code="unique_pending")
    return held


def _take(winners: Mapping[Key, NewJob]) -> Steps[dict[Key, int]]:
    """Give the keys of jobs that live to newer ones, and free those of jobs that have ended."""
    if not winners:
        return {}
    rows = yield Put("lock_claims", list(winners), returns=True)
    over = [(row[0], row[1], LATEST) for row in rows if row[3]]
    held = {(row[0], row[1]): row[2] for row in rows if not row[3]}
    if over:
        yield Put("free_old_keys", over)
    if held:
        yield Put("move_claims", [_row(key, winners[key]) for key in held])
    return held


def _claim(winners: Mapping[Key, NewJob]) -> Steps[set[Key]]:
    """Return which keys were free and are the winners' now."""
    if not winners:
        return set()
    rows = yield Put("claim_key", [_row(key, job) for key, job in winners.items()], returns=True)
    return {(row[0], row[1]) for row in rows}


def _look(keys: Sequence[Key], now: int) -> Steps[dict[Key, int]]:
    """Return who has which of these keys, and free those that are over and past."""
    if not keys:
        return {}
    rows = yield Put("find_claims", [(*key, now) for key in keys], returns=True)
    old = sorted((row[0], row[1], now) for row in rows if row[3])
    if old:
        yield Put("free_old_keys", old)
    return {(row[0], row[1]): row[2] for row in rows if not row[3]}


def _row(key: Key, job: NewJob) -> Row:
    return *key, job.id, until_of(job.created_at, job.extras)
