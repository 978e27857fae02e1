"""What a commit tells: the plan's events, less those of refused jobs, with the attempts as numbered."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from fairway.core.plan import Begun, Event


def told(events: Sequence[Event], begun: Sequence[Begun], refused: Collection[int]) -> list[Event]:
    """Return the events as they are written and published."""
    attempts = {one.job: one.attempt for one in begun}
    return [
        Event(*event[:5], attempts.get(event[2]), *event[6:]) if event[0] == "job.begun" else event  # type: ignore[arg-type]
        for event in events
        if event[2] not in refused
    ]
