"""When a schedule fires: a cron line in a zone, or an interval counted from an anchor."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from fairway.core.cron import MINUTE, SECOND, BadTimetable, Cron

__all__ = ["BadTimetable", "Cron", "Every", "Timetable", "latest_fires", "next_fire", "next_fires"]


@dataclass(frozen=True, slots=True)
class Every:
    """An interval. It fires at the anchor and at every whole number of intervals behind it."""

    interval: int  # microseconds
    anchor: int = 0

    def __post_init__(self) -> None:
        if self.interval < SECOND:
            raise BadTimetable("an interval is at least one second")

    def next_fire(self, after: int) -> int:
        """Return the first moment behind *after*."""
        passed = (after - self.anchor) // self.interval + 1
        return self.anchor + max(passed, 0) * self.interval


Timetable = Cron | Every


def next_fire(timetable: Timetable, after: int) -> int | None:
    """Return the first moment behind *after* at which it fires; None if it never will."""
    return timetable.next_fire(after)


def next_fires(timetable: Timetable, after: int, most: int) -> list[int]:
    """Return the next moments, for people to see."""
    fires: list[int] = []
    while len(fires) < most and (fire := timetable.next_fire(after)) is not None:
        fires.append(fire)
        after = fire
    return fires


def latest_fires(timetable: Timetable, after: int, until: int, most: int) -> list[int]:
    """Return the last moments in (*after*, *until*], at most so many, oldest first.

    Looked for backwards in growing windows: a leader that finds a year of missed minutes must not count all.
    """
    window = most * (timetable.interval if isinstance(timetable, Every) else MINUTE)
    while True:
        since = max(after, until - window)
        found: deque[int] = deque(maxlen=most)
        fire = timetable.next_fire(since)
        while fire is not None and fire <= until:
            found.append(fire)
            fire = timetable.next_fire(fire)
        if len(found) == most or since == after:
            return list(found)
        window *= 4
