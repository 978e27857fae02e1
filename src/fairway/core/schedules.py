"""What a schedule does next, decided without doing it: jobs to submit, jobs to cancel, what to wait for.

A schedule has a *timetable* and remembers its *progress*: up to when it has looked, which of its jobs may
still be there, which fires wait for one of them to end. `decide` takes both and the time, and returns the new
progress with what must be done; whoever writes it down writes the jobs in the same transaction, so that a
fire time has one job whatever leaders do.

Fires that were missed because nobody led: `skip` runs none of them, `once` runs the latest, `all` runs the
latest n. The latest, if it is found at most `GRACE` late, was not missed: a new leader needs some seconds.
(Not all that are no later than that: of an interval of seconds they would be run in a heap.)
Jobs that overlap: `allow` submits all the same; `skip` leaves the fire out while a job is there; `queue`
submits it when the job has ended; `cancel` cancels the job and submits the latest fire when it has ended.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from dataclasses import dataclass, replace
from enum import StrEnum

from fairway.core.cron import SECOND
from fairway.core.timetable import Timetable, latest_fires, next_fire

GRACE = 60 * SECOND
#: Fires that wait at most under `queue`; beyond, the oldest is left out.
MOST_PENDING = 1000
#: Jobs that are remembered at most as perhaps not ended.
MOST_LIVE = 100
#: Missed fires are counted up to here: nobody needs to know how many minutes a year has.
MOST_COUNTED = 1000


class Missed(StrEnum):
    """What becomes of fires that nobody was there for."""

    SKIP = "skip"
    ONCE = "once"
    ALL = "all"


class Overlap(StrEnum):
    """What becomes of a fire while a job of the schedule has not ended."""

    ALLOW = "allow"
    SKIP = "skip"
    QUEUE = "queue"
    CANCEL = "cancel"


@dataclass(frozen=True, slots=True)
class Schedule:
    """When and how a schedule fires."""

    name: str
    timetable: Timetable
    missed: Missed = Missed.ONCE
    missed_most: int = 100
    overlap: Overlap = Overlap.ALLOW
    jitter: int = 0  # microseconds


@dataclass(frozen=True, slots=True)
class Last:
    """The latest fire: its time, and its job or why it has none."""

    at: int
    job: int | None
    what: str  # submitted | skipped | existed (its unique key had a job) | refused | run (by hand)


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a schedule stands. *seen*: every fire up to then was dealt with."""

    seen: int
    paused: bool = False
    pending: tuple[int, ...] = ()
    live: tuple[int, ...] = ()
    last: Last | None = None

    def submitted(self, at: int, job: int, what: str = "submitted") -> Progress:
        """Return the progress with one more job."""
        return replace(self, live=(*self.live, job)[-MOST_LIVE:], last=Last(at, job, what))


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do: submit a job for each of these fire times, cancel those jobs, remember this.

    *skipped* are fires without a job because the one before has not ended, *missed* counts those that nobody
    was there for and that are not made up for.
    """

    progress: Progress
    submits: tuple[int, ...] = ()
    cancels: tuple[int, ...] = ()
    skipped: tuple[int, ...] = ()
    missed: int = 0


def decide(schedule: Schedule, progress: Progress, now: int, ended: Collection[int] = ()) -> Decision:
    """Return what a schedule does at *now*; *ended* are those of its live jobs that are over."""
    progress = replace(progress, live=tuple(job for job in progress.live if job not in ended))
    if progress.paused:
        return Decision(replace(progress, seen=max(progress.seen, now), pending=()))
    due, seen = _due(schedule, progress, now)
    missed = _missed(schedule, progress, due, now)
    return replace(_overlap[schedule.overlap](seen, due), missed=missed)


def next_look(schedule: Schedule, progress: Progress) -> int | None:
    """Return when it fires next; None if it does not."""
    return None if progress.paused else next_fire(schedule.timetable, progress.seen)


def due_at(schedule: Schedule, fire: int) -> int:
    """Return when the job of a fire becomes due: later by a jitter that every leader finds alike."""
    if not schedule.jitter:
        return fire
    digest = hashlib.blake2b(f"{schedule.name} {fire}".encode(), digest_size=8).digest()
    return fire + int.from_bytes(digest) % (schedule.jitter + 1)


def _due(schedule: Schedule, progress: Progress, now: int) -> tuple[list[int], Progress]:
    """Return the fires to be made, oldest first, and the progress that has seen them all."""
    most = schedule.missed_most if schedule.missed is Missed.ALL else 1
    fires = latest_fires(schedule.timetable, progress.seen, now, most)
    if not fires:
        return [], progress
    progress = replace(progress, seen=fires[-1])
    if schedule.missed is Missed.SKIP and fires[-1] < now - GRACE:
        return [], replace(progress, last=Last(fires[-1], None, "skipped"))
    return fires, progress


def _missed(schedule: Schedule, progress: Progress, due: list[int], now: int) -> int:
    """Count the fires up to now that are not to be made."""
    first = next_fire(schedule.timetable, progress.seen)
    if first is None or first > now or due[:1] == [first]:
        return 0
    return len(latest_fires(schedule.timetable, progress.seen, now, MOST_COUNTED)) - len(due)


def _allow(progress: Progress, due: list[int]) -> Decision:
    return Decision(progress, tuple(due))


def _skip(progress: Progress, due: list[int]) -> Decision:
    submits = tuple(due[:1]) if not progress.live else ()
    left_out = due[len(submits) :]
    if left_out:
        progress = replace(progress, last=Last(left_out[-1], None, "skipped"))
    return Decision(progress, submits, skipped=tuple(left_out))


def _queue(progress: Progress, due: list[int]) -> Decision:
    pending = (*progress.pending, *due)
    skipped, pending = pending[:-MOST_PENDING], pending[-MOST_PENDING:]
    if progress.live or not pending:
        return Decision(replace(progress, pending=pending), skipped=skipped)
    return Decision(replace(progress, pending=pending[1:]), pending[:1], skipped=skipped)


def _cancel(progress: Progress, due: list[int]) -> Decision:
    pending = (*progress.pending, *due)
    skipped, pending = pending[:-1], pending[-1:]
    if progress.live:
        cancels = progress.live if pending else ()
        return Decision(replace(progress, pending=pending), cancels=cancels, skipped=skipped)
    return Decision(replace(progress, pending=()), pending, skipped=skipped)


_overlap = {Overlap.ALLOW: _allow, Overlap.SKIP: _skip, Overlap.QUEUE: _queue, Overlap.CANCEL: _cancel}
