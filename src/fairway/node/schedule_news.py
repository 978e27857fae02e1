"""What is told of schedules: events for those who listen, and numbers for /metrics.

A schedule is written first; what became of it is told with the leader's next commit. If the leader dies in
between, the event is never told, and the job and the schedule are there all the same. The numbers are sums
over all schedules, so that the page does not grow with their number.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from fairway.core.plan import News
from fairway.core.schedules import Decision, Progress
from fairway.store import Accepted, NewJob
from fairway.times import MICRO, show_time


@dataclass(slots=True)
class ScheduleCounts:
    """What schedules did in one reign. *late_seconds*: how long after their time fires were made, in all."""

    fired: int = 0
    skipped: int = 0
    missed: int = 0
    late_seconds: float = 0.0
    late_most: float = 0.0

    def numbers(self, schedules: int) -> dict[str, float]:
        """Return them under their names."""
        return {
            "schedules": float(schedules),
            "schedules_fired_total": float(self.fired),
            "schedules_skipped_total": float(self.skipped),
            "schedules_missed_total": float(self.missed),
            "schedules_late_seconds_total": self.late_seconds,
            "schedules_late_seconds_most": self.late_most,
        }


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a schedule as it was written: what was decided, and the jobs of the fires that have one."""

    name: str
    before: Progress
    decision: Decision
    fires: Sequence[int]
    jobs: Sequence[NewJob]
    now: int

    @property
    def refused(self) -> list[int]:
        """Return the fires whose job broke a rule."""
        return [fire for fire in self.decision.submits if fire not in self.fires]

    def count(self, counts: ScheduleCounts) -> None:
        """Add what was done. A fire that waited for a job to end was not late."""
        counts.fired += len(self.jobs)
        counts.skipped += len(self.decision.skipped) + len(self.refused)
        counts.missed += self.decision.missed
        for late in (self._late(fire) for fire in self.fires if fire > self.before.seen):
            counts.late_seconds += late
            counts.late_most = max(counts.late_most, late)

    def news(self, accepted: Sequence[Accepted]) -> Iterator[News]:
        """Tell of what was left out, then of the jobs under the ids they got."""
        if self.decision.missed:
            until = show_time(self.decision.progress.seen)
            yield _told("schedule.missed", self.name, self.now, count=self.decision.missed, until=until)
        for fire in self.decision.skipped:
            yield _told("schedule.skipped", self.name, self.now, fire=show_time(fire), why="overlap")
        for fire in self.refused:
            yield _told("schedule.skipped", self.name, self.now, fire=show_time(fire), why="refused")
        for fire, job, one in zip(self.fires, self.jobs, accepted, strict=True):
            late = round(self._late(fire), 3) if fire > self.before.seen else None
            what = "existed" if one.existed[0] else "submitted"
            yield told_fired(
                self.name, job._replace(id=one.ids[0]), what, self.now, fire=show_time(fire), late=late
            )

    def _late(self, fire: int) -> float:
        return max(self.now - fire, 0) / MICRO


def told_changed(name: str, what: str, now: int) -> News:
    """Tell that somebody put, paused, resumed or deleted a schedule."""
    return _told("schedule.changed", name, now, what=what)


def told_fired(name: str, job: NewJob, what: str, now: int, **more: Any) -> News:
    """Tell of one job of a schedule."""
    told = _told("schedule.fired", name, now, what=what, **more)
    return told._replace(jobs=(job.id,), queue=job.queue, task=job.task)


def _told(kind: str, name: str, now: int, **detail: Any) -> News:
    kept = {key: value for key, value in detail.items() if value is not None}
    return News(kind, now, detail={"schedule": name, **kept})
