"""What a commit tells: the plan's events, less those of refused jobs, and what only the store could decide.

Which attempt a begin became, whether an ended job could be brought back, whether the late word on an unknown
job was accepted: the plan cannot know, so these are told here, in the same commit.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain
from typing import TypeVar

from fairway.core.plan import Batch, Begin, Begun, CauseSeen, Move, News
from fairway.store import NumberedEvent, StoredJob
from fairway.stores.causing import first_seen

R = TypeVar("R", Begin, News, Move)


def told(
    batch: Batch,
    begun: Sequence[Begun],
    refused: Collection[int],
    revived: Sequence[StoredJob],
    resolved: Sequence[StoredJob],
    now: int,
    new_causes: Sequence[CauseSeen] = (),
) -> list[News]:
    """Return the news as they are written and published. *begun* is in the order of the begins."""
    return [
        *without(batch.news, refused),
        *(_event("job.revived", job, now) for job in revived),
        *(_event("job.ended", job, now, {"reason": "resolved"}) for job in resolved),
        *map(first_seen, new_causes),
        *_begun(without(batch.begins, refused), begun),
    ]


def without(records: Sequence[R], refused: Collection[int]) -> Sequence[R]:
    """Leave refused jobs out of records that name several."""
    if not refused:
        return records
    left = []
    for one in records:
        jobs = [job for job in one.jobs if job not in refused]
        if jobs or not one.jobs:
            left.append(one._replace(jobs=jobs))
    return left


def ended_attempts(batch: Batch) -> set[tuple[int, int]]:
    """Return the attempts that a commit ends or returns."""
    over = {(job, end.attempt) for end in batch.ends for job in end.jobs}
    return over | {(one.job, one.attempt) for one in batch.returns}


def numbered(number: int, first: int, news: Iterable[News]) -> Iterator[NumberedEvent]:
    """Yield the events of one commit with their ids, from the offset *first* on."""
    events = chain.from_iterable(one.events() for one in news)
    for offset, event in enumerate(events):
        if offset >= first:
            yield NumberedEvent(number, offset, event)


def _begun(begins: Sequence[Begin], begun: Sequence[Begun]) -> Iterator[News]:
    """Tell of begins; those of one record that became the same attempt are told of at once.

    Not of what waits for its slot: the plan tells of that when it has started.
    """
    start = 0
    for jobs, _, worker, started_at, queue, task, ahead in begins:
        if ahead:
            start += len(jobs)
            continue
        attempts: dict[int, list[int]] = {one[1]: [] for one in begun[start : start + len(jobs)]}
        if len(attempts) == 1:
            [attempt] = attempts
            yield News("job.begun", started_at, jobs, queue, "running", attempt, worker, task)
        else:
            for one in begun[start : start + len(jobs)]:
                attempts[one[1]].append(one[0])
            for attempt, alike in attempts.items():
                yield News("job.begun", started_at, alike, queue, "running", attempt, worker, task)
        start += len(jobs)


def _event(kind: str, job: StoredJob, now: int, detail: dict[str, str] | None = None) -> News:
    return News(kind, now, (job.id,), job.queue, job.state, job.attempt, job.worker, job.task, detail)
