"""Forgets what is old, a bounded number of each kind at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Any

from fairway.store import StoredJob
from fairway.stores.causing import CAUSE_SECONDS, CAUSES_KEPT
from fairway.stores.memory.tables import Tables, is_ended
from fairway.stores.memory.writing import REQUEST_SECONDS
from fairway.stores.tidying import CHANGES_KEPT, CHANGES_KEPT_EACH
from fairway.times import MICRO

EVENT_SECONDS = 86_400
NODE_SECONDS = 3_600


def tidy(tables: Tables, now: int, keep_ended_seconds: float, most: int) -> int:
    """Forget old ended jobs with their logs, keys, events, arrivals and nodes; return how many."""
    before = now - int(keep_ended_seconds * MICRO)
    jobs = [job.id for job in tables.jobs.values() if is_ended(job) and (job.ended_at or 0) < before]
    jobs.sort(key=lambda job: tables.jobs[job].ended_at or 0)
    lines = [key for key in tables.log if key[0] in set(jobs[:most])]
    _forget_notes(tables, set(jobs[:most]))
    requests = [key for key, row in tables.requests.items() if row[2] <= now - REQUEST_SECONDS * MICRO]
    events = [number for number, (at, _) in tables.events.items() if at < now - EVENT_SECONDS * MICRO]
    nodes = [key for key, node in tables.nodes.items() if node.seen_at < now - NODE_SECONDS * MICRO]
    gone = _forget(tables.jobs, jobs[:most]) + _forget(tables.log, lines)
    gone += _forget(tables.requests, requests[:most]) + _forget(tables.events, events[:most])
    gone += _forget(tables.nodes, nodes) + _forget(tables.changes, _old_changes(tables)[:most])
    gone += _forget(tables.causes, _old_causes(tables, now)[:most])
    claims = [key for key, claim in tables.claims.items() if claim.is_free(now)]
    gone += _forget(tables.claims, claims[:most])
    return gone + _forget(tables.arrivals, _idle_arrivals(tables)[:most])


def forget_ended(tables: Tables, queues: Collection[str], since: int, until: int, most: int) -> int:
    """Forget jobs of some queues that ended in a time, and what they wrote."""
    jobs = [job.id for job in ended_between(tables, since, until) if job.queue in queues][:most]
    return len(delete_jobs(tables, jobs))


def delete_jobs(tables: Tables, jobs: Collection[int]) -> list[int]:
    """Forget those of *jobs* that have ended, and what they wrote."""
    gone = {job for job in jobs if job in tables.jobs and is_ended(tables.jobs[job])}
    _forget(tables.log, [key for key in tables.log if key[0] in gone])
    _forget_notes(tables, gone)
    _forget(tables.jobs, list(gone))
    return list(gone)


def ended_between(tables: Tables, since: int, until: int) -> list[StoredJob]:
    """Return the jobs that ended in a time."""
    return [job for job in tables.jobs.values() if is_ended(job) and since <= (job.ended_at or 0) < until]


def forget_cause(tables: Tables, cause: str, most: int) -> int:
    """Forget ended jobs of a cause, and the cause with the last of them."""
    found = [job.id for job in tables.jobs.values() if is_ended(job) and job.cause == cause]
    if len(found) <= most:
        tables.causes.pop(cause, None)
    return len(delete_jobs(tables, found[:most]))


def _old_causes(tables: Tables, now: int) -> list[str]:
    """Return causes that were not seen for long, and beyond a number those that were seen least lately."""
    before = now - CAUSE_SECONDS * MICRO
    times = sorted((row.last_at for row in tables.causes.values()), reverse=True)
    bound = times[CAUSES_KEPT - 1] if len(times) >= CAUSES_KEPT else 0
    old = [row for row in tables.causes.values() if row.last_at < max(before, bound)]
    return [row.id for row in old if row.last_at >= before or not row.is_muted(now)]


def _old_changes(tables: Tables) -> list[int]:
    """Return changes that are neither among the newest nor among the last of a queue that there is."""
    numbers = sorted(tables.changes, reverse=True)
    seen: Counter[str] = Counter()
    old = []
    for place, number in enumerate(numbers):
        path = tables.changes[number].path
        seen[path] += 1
        kept = path in tables.queues and seen[path] <= CHANGES_KEPT_EACH
        if place >= CHANGES_KEPT and not kept:
            old.append(number)
    return old[::-1]


def _idle_arrivals(tables: Tables) -> list[int]:
    """Return arrivals of jobs that ended before a leader took them in."""
    live = {job.id for job in tables.jobs.values() if not is_ended(job)}
    return [number for number, (job, _) in tables.arrivals.items() if job not in live]


def _forget_notes(tables: Tables, jobs: set[int]) -> None:
    _forget(tables.notes, [key for key in tables.notes if key[0] in jobs])
    _forget(tables.checkpoints, [job for job in tables.checkpoints if job in jobs])


def _forget(table: dict[Any, Any], keys: list[Any]) -> int:
    for key in keys:
        del table[key]
    return len(keys)
