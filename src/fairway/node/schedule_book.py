"""What people do with schedules: put, pause, delete, run now. Each is one fenced write at the leader."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from msgspec import UNSET

from fairway.clock import wall
from fairway.core.plan import News
from fairway.core.schedules import Progress
from fairway.core.timetable import Timetable
from fairway.errors import Conflict, InvalidRequest, NotFound
from fairway.ids import IdMaker
from fairway.keys import KeyedQueues
from fairway.leadership.term import Reign
from fairway.names import check_schedule
from fairway.node.schedule_news import told_changed, told_fired
from fairway.node.timekeeper import Timekeeper
from fairway.schedule_spec import (
    ScheduleSpec,
    check_job,
    corrected,
    progress_of,
    read_schedule,
    read_timetable,
    row_of,
    spec_of,
)
from fairway.spec import new_job
from fairway.store import Accepted, ScheduleChange, ScheduleRow, Store, Submission

TRIES = 8
MOST_SCHEDULES = 10_000


class ScheduleBook:
    """Changes the schedules of one reign. A write that met another is made again from what that one left."""

    def __init__(
        self,
        store: Store,
        reign: Reign,
        timekeeper: Timekeeper,
        tell: Callable[[Sequence[News]], None],
    ) -> None:
        self._store, self._reign, self._timekeeper, self._tell = store, reign, timekeeper, tell
        self._ids = IdMaker()
        self._keys = KeyedQueues(store.find_queues)

    def numbers(self) -> dict[str, float]:
        """Return what the schedules did in this reign, for /metrics."""
        return self._timekeeper.counts.numbers(len(self._timekeeper))

    async def put(self, name: str, spec: ScheduleSpec, *, dry: bool = False) -> tuple[ScheduleRow, bool]:
        """Make or replace a schedule, or (*dry*) only say what it would be; say whether it is new."""
        now = wall()
        read_schedule(name, spec)
        await self._keys.give_keys([check_job(spec, now)])
        for _ in range(TRIES):
            found = await self._store.find_schedule(name)
            if found is None and len(self._timekeeper) >= MOST_SCHEDULES:
                raise Conflict(f"there are {MOST_SCHEDULES} schedules already", code="too_many")
            row = row_of(name, spec, _progress_after(found, spec, now), now, found)
            if dry:
                return row, found is None
            if await self._write(name, found, row) is not None:
                if found is None or _differs(found, row):
                    self._tell([told_changed(name, "put", now)])
                return row, found is None
        raise _busy(name)

    async def set_paused(self, name: str, paused: bool) -> ScheduleRow:
        """Pause or resume. What would have fired meanwhile was not missed: it was not wanted."""
        for _ in range(TRIES):
            now, found = wall(), await self._get(name)
            row = row_of(name, spec_of(found), _paused(progress_of(found), paused, now), now, found)
            if await self._write(name, found, row) is not None:
                if _differs(found, row):
                    self._tell([told_changed(name, "paused" if paused else "resumed", now)])
                return row
        raise _busy(name)

    async def delete(self, name: str) -> None:
        """Forget a schedule; its jobs stay."""
        for _ in range(TRIES):
            if await self._write(name, await self._get(name), None) is not None:
                self._tell([told_changed(name, "deleted", wall())])
                return
        raise _busy(name)

    async def run(self, name: str) -> int:
        """Submit its job now, whatever its policy for overlaps says, and return the id."""
        for _ in range(TRIES):
            now, found = wall(), await self._get(name)
            [job] = await self._keys.give_keys([new_job(spec_of(found).job, self._ids.one(), now)])
            progress = progress_of(found).submitted(now, job.id, "run")
            row = _like(found, progress, now)
            accepted = await self._write(name, found, row, Submission([job]))
            if accepted is not None:
                what = "existed" if accepted[0].existed[0] else "run"
                self._tell([told_fired(name, job._replace(id=accepted[0].ids[0]), what, now)])
                real = corrected(progress, [job], accepted)
                if real != progress:
                    await self._write(name, row, _like(row, real, now))
                return accepted[0].ids[0]
        raise _busy(name)

    async def _get(self, name: str) -> ScheduleRow:
        return await get_schedule(self._store, name)

    async def _write(
        self, name: str, found: ScheduleRow | None, row: ScheduleRow | None, *submissions: Submission
    ) -> list[Accepted] | None:
        change = ScheduleChange(name, found.revision if found else 0, row, submissions)
        try:
            return await self._store.write_schedule(self._reign.term, self._reign.holder, change, wall())
        finally:
            self._timekeeper.stir(name)


async def get_schedule(store: Store, name: str) -> ScheduleRow:
    """Return a schedule or raise NotFound."""
    found = await store.find_schedule(check_schedule(name))
    if found is None:
        raise NotFound(f"there is no schedule '{name}'", code="no_such_schedule")
    return found


def _progress_after(found: ScheduleRow | None, spec: ScheduleSpec, now: int) -> Progress:
    """Return where a schedule stands once it has this spec; a new timetable starts from now."""
    if found is None:
        return Progress(now, paused=spec.paused is True)
    old, progress = spec_of(found), progress_of(found)
    if _timetable(old) != read_timetable(spec):
        progress = replace(progress, seen=now, pending=())
    if old.overlap is not spec.overlap:
        progress = replace(progress, pending=())
    return progress if spec.paused is UNSET else _paused(progress, spec.paused, now)


def _timetable(spec: ScheduleSpec) -> Timetable | None:
    try:
        return read_timetable(spec)
    except InvalidRequest:  # written by another version, or on a machine that knows more zones
        return None


def _paused(progress: Progress, paused: bool, now: int) -> Progress:
    if progress.paused == paused:
        return progress
    return replace(progress, paused=paused, seen=max(now, progress.seen), pending=())


def _differs(found: ScheduleRow, row: ScheduleRow) -> bool:
    """Say whether anything but the progress changed, or the pause did."""
    return found.spec != row.spec or progress_of(found).paused != progress_of(row).paused


def _like(row: ScheduleRow, progress: Progress, now: int) -> ScheduleRow:
    """Return the row with other progress: nobody changed the schedule itself."""
    return row_of(row.name, spec_of(row), progress, now, row)._replace(changed_at=row.changed_at)


def _busy(name: str) -> Conflict:
    return Conflict(f"schedule '{name}' keeps changing; try again", code="moved")
