"""What a commit tells: the plan's events, less those of refused jobs, and the begins with their attempts.

A begin is told by the store and not by the plan, because only the store knows which attempt it became.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from fairway.core.plan import Batch, Begun, Event


def told(batch: Batch, begun: Sequence[Begun], refused: Collection[int]) -> list[Event]:
    """Return the events as they are written and published. *begun* is in the order of the begins."""
    events, begins = batch.events, batch.begins
    if refused:
        events = [event for event in events if event.job not in refused]
        begins = [begin for begin in begins if begin.job not in refused]
    return events + [
        Event("job.begun", begin[3], begin[0], begin[4], "running", one[1], begin[2], begin[5])
        for begin, one in zip(begins, begun, strict=True)
    ]
