"""What a commit tells: the plan's events, less those of refused jobs, and what only the store could decide.

Which attempt a begin became, whether an ended job could be brought back, whether the late word on an unknown
job was accepted: the plan cannot know, so these are told here, in the same commit.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from fairway.core.plan import Batch, Begun, Event
from fairway.store import StoredJob


def told(
    batch: Batch,
    begun: Sequence[Begun],
    refused: Collection[int],
    revived: Sequence[StoredJob],
    resolved: Sequence[StoredJob],
    now: int,
) -> list[Event]:
    """Return the events as they are written and published. *begun* is in the order of the begins."""
    events, begins = batch.events, batch.begins
    if refused:
        events = [event for event in events if event.job not in refused]
        begins = [begin for begin in begins if begin.job not in refused]
    return [
        *events,
        *(_event("job.revived", job, now) for job in revived),
        *(_event("job.ended", job, now, {"reason": "resolved"}) for job in resolved),
        *(
            Event("job.begun", begin[3], begin[0], begin[4], "running", one[1], begin[2], begin[5])
            for begin, one in zip(begins, begun, strict=True)
        ),
    ]


def _event(kind: str, job: StoredJob, now: int, detail: dict[str, str] | None = None) -> Event:
    return Event(kind, now, job.id, job.queue, job.state, job.attempt, job.worker, job.task, detail)
