"""Fires the schedules, as long as this node leads.

Each schedule is looked at when its next fire is due, or every second while a fire waits for a job to end.
What `core.schedules` decides is written in one transaction that is fenced by the term and by the schedule's
revision: the jobs of a fire and the memory of it are kept together or not at all. So a leader that was
deposed cannot fire, and one that does not know whether its last write was kept reads the schedule and sees.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import msgspec

from fairway.clock import wall
from fairway.core.lifecycle import ENDED
from fairway.core.plan import News
from fairway.core.schedules import Decision, Last, Overlap, Progress, Schedule, decide, next_look
from fairway.errors import CallerError, Conflict, WorldError
from fairway.ids import IdMaker
from fairway.keys import KeyedQueues
from fairway.leadership.term import Reign
from fairway.node.schedule_news import ScheduleCounts, Step
from fairway.schedule_spec import ScheduleSpec, corrected, job_of, progress_of, read_schedule, row_of, spec_of
from fairway.store import Accepted, NewJob, ScheduleChange, ScheduleRow, Store, Submission
from fairway.times import MICRO

log = logging.getLogger("fairway.schedules")

PENDING_SECONDS = 1.0  # how soon it is seen that a job has ended for which a fire waits
TROUBLE_SECONDS = 1.0
LOOK_SECONDS = 5.0  # how soon a clock that was set ahead is noticed


@dataclass(slots=True)
class Kept:
    """A schedule in memory, as the store had it last; *look_at* is when to look at it, if ever."""

    row: ScheduleRow
    spec: ScheduleSpec
    schedule: Schedule
    progress: Progress
    look_at: int | None = None
    doubtful: bool = False  # it may be otherwise in the store: to be read before the next step


class Timekeeper:
    """One reign's schedules. Owned by its own task; others only `stir` it."""

    def __init__(
        self,
        store: Store,
        reign: Reign,
        cancel: Callable[[int], Awaitable[object]],
        ring: Callable[[], None],
        tell: Callable[[Sequence[News]], None],
    ) -> None:
        self._store, self._reign = store, reign
        self._cancel, self._ring, self._tell = cancel, ring, tell
        self.counts = ScheduleCounts()
        self._kept: dict[str, Kept] = {}
        self._changed: set[str] = set()
        self._stirred = asyncio.Event()
        self._ids = IdMaker()
        self._keys = KeyedQueues(store.find_queues)
        self._loaded = False

    def __len__(self) -> int:
        return len(self._kept)

    def stir(self, name: str) -> None:
        """Somebody changed a schedule."""
        self._changed.add(name)
        self._stirred.set()

    async def run(self) -> None:
        """Fire until the reign ends; raises Deposed when a write found that it has."""
        while True:
            try:
                pause = await self.look()
            except WorldError as error:
                log.warning("schedules were put off", extra={"why": str(error)})
                pause = TROUBLE_SECONDS
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._stirred.wait()

    async def look(self) -> float:
        """Fire what is due and return after how many seconds to look again."""
        self._stirred.clear()
        await self._take_changes()
        now = wall()
        for kept in [
            kept for kept in self._kept.values() if kept.look_at is not None and kept.look_at <= now
        ]:
            await self._try(kept)
        looks = [kept.look_at for kept in self._kept.values() if kept.look_at is not None]
        return min(max((min(looks) - wall()) / MICRO, 0.0), LOOK_SECONDS) if looks else LOOK_SECONDS

    # --- what the store has ----------------------------------------------------------------------
    async def _take_changes(self) -> None:
        if not self._loaded:
            for row in await self._store.schedule_rows():
                self._keep(row)
            self._loaded = True
        while self._changed:
            name = self._changed.pop()  # before it is read: what changes from now on is read again
            try:
                found = await self._store.find_schedule(name)
            except WorldError:
                self._changed.add(name)
                raise
            self._kept.pop(name, None)
            if found is not None:
                self._keep(found)

    def _keep(self, row: ScheduleRow) -> None:
        try:
            spec = spec_of(row)
            kept = Kept(row, spec, read_schedule(row.name, spec), progress_of(row))
        except (CallerError, msgspec.MsgspecError) as error:  # a zone, say, that this machine does not know
            log.error(
                "a schedule cannot be read, so it does not fire",
                extra={"schedule": row.name, "why": str(error)},
            )
            return
        self._kept[row.name] = kept
        self._plan(kept)

    def _plan(self, kept: Kept) -> None:
        kept.look_at = next_look(kept.schedule, kept.progress)
        if kept.progress.pending:
            soon = wall() + int(PENDING_SECONDS * MICRO)
            kept.look_at = soon if kept.look_at is None else min(soon, kept.look_at)

    # --- one schedule ----------------------------------------------------------------------------
    async def _try(self, kept: Kept) -> None:
        """Look at one schedule; trouble with it is its own, and it is tried again from what the store has."""
        try:
            if kept.doubtful:
                self._changed.add(kept.row.name)
                await self._take_changes()
            if self._kept.get(kept.row.name) is kept:
                await self._step(kept)
        except (WorldError, CallerError) as error:
            log.warning("a schedule was put off", extra={"schedule": kept.row.name, "why": str(error)})
            kept.doubtful, kept.look_at = True, wall() + int(TROUBLE_SECONDS * MICRO)

    async def _step(self, kept: Kept) -> None:
        """Decide, cancel, write."""
        decision = decide(kept.schedule, kept.progress, wall(), await self._ended(kept))
        for job in decision.cancels:
            with suppress(CallerError):  # it has just ended
                await self._cancel(job)
        if decision.submits or decision.progress != kept.progress:
            await self._fire(kept, decision)
        self._plan(kept)

    async def _ended(self, kept: Kept) -> set[int]:
        """Return those of its jobs that are over; one that is no longer there is."""
        live = kept.progress.live
        if not live or kept.schedule.overlap is Overlap.ALLOW:
            return set()
        found = await self._store.find_jobs(live)
        return set(live) - {job.id for job in found if job.state not in ENDED}

    async def _fire(self, kept: Kept, decision: Decision) -> None:
        now = wall()
        fires, jobs, progress = await self._jobs(kept, decision, now)
        step = Step(kept.row.name, kept.progress, decision, fires, jobs, now)
        accepted = await self._write(kept, progress, jobs, now)
        if accepted is None:
            raise Conflict("somebody changed it meanwhile")
        if jobs:
            self._ring()
        step.count(self.counts)
        if news := list(step.news(accepted)):
            self._tell(news)
        real = corrected(progress, jobs, accepted)
        if real != progress:
            await self._write(kept, real, (), now)

    async def _jobs(
        self, kept: Kept, decision: Decision, now: int
    ) -> tuple[list[int], list[NewJob], Progress]:
        """Make a job for each fire, and the progress that remembers them; return the fires that have one."""
        fires: list[int] = []
        jobs: list[NewJob] = []
        progress = decision.progress
        for fire in decision.submits:
            try:
                made = job_of(kept.schedule, kept.spec, fire, self._ids.one(), now)
                [job] = await self._keys.give_keys([made])
            except CallerError as error:  # it was good when the schedule was made: the rules have changed
                log.error("a schedule's job is refused", extra={"schedule": kept.row.name, "why": str(error)})
                progress = replace(progress, last=Last(fire, None, "refused"))
                continue
            fires.append(fire)
            jobs.append(job)
            progress = progress.submitted(fire, job.id)
        return fires, jobs, progress

    async def _write(
        self, kept: Kept, progress: Progress, jobs: Sequence[NewJob], now: int
    ) -> list[Accepted] | None:
        row = row_of(kept.row.name, kept.spec, progress, now, kept.row)._replace(
            changed_at=kept.row.changed_at
        )
        change = ScheduleChange(row.name, kept.row.revision, row, [Submission([job]) for job in jobs])
        accepted = await self._store.write_schedule(self._reign.term, self._reign.holder, change, now)
        if accepted is not None:
            kept.row, kept.progress = row, progress
        return accepted
