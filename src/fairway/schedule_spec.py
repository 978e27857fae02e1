"""The spec of a schedule: when it fires and which job it submits, checked once, and its row in the store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from fairway.core.cron import BadTimetable, read_cron, read_zone
from fairway.core.schedules import GRACE, Last, Missed, Overlap, Progress, Schedule, due_at
from fairway.core.timetable import Every, Timetable, next_fires
from fairway.errors import CallerError, InvalidRequest
from fairway.names import check_schedule
from fairway.spec import Duration, JobSpec, ShortText, Time, new_job
from fairway.store import Accepted, NewJob, ScheduleRow
from fairway.times import MICRO, parse_duration, parse_time

PREVIEW = 5


class ScheduleSpec(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, frozen=True):
    """A schedule as it is asked for: `cron` and `zone`, or `every` and `anchor`."""

    job: JobSpec
    cron: ShortText | None = None
    zone: ShortText | None = None
    every: Duration | None = None
    anchor: Time | None = None
    missed: Missed = Missed.ONCE
    missed_most: Annotated[int, Meta(ge=1, le=1000)] = 100
    overlap: Overlap = Overlap.ALLOW
    jitter: Duration = 0
    paused: bool | UnsetType = UNSET


def read_schedule(name: str, spec: ScheduleSpec) -> Schedule:
    """Return the schedule that a spec means, or say what is wrong with it."""
    jitter = round(parse_duration(spec.jitter, "jitter") * MICRO)
    return Schedule(
        check_schedule(name), read_timetable(spec), spec.missed, spec.missed_most, spec.overlap, jitter
    )


def read_timetable(spec: ScheduleSpec) -> Timetable:
    """Return when it fires."""
    if (spec.cron is None) == (spec.every is None):
        raise InvalidRequest("give exactly one of cron and every", field="cron")
    if spec.every is not None:
        return _read_every(spec)
    if spec.anchor is not None:
        raise InvalidRequest("anchor belongs to every; cron goes by the clock", field="anchor")
    field = "zone"
    try:
        zone = read_zone(spec.zone or "UTC")
        field = "cron"
        return read_cron(spec.cron or "", zone.key)
    except BadTimetable as error:
        raise InvalidRequest(str(error), field=field) from None


def _read_every(spec: ScheduleSpec) -> Every:
    if spec.zone is not None:
        raise InvalidRequest("zone belongs to cron; an interval is the same everywhere", field="zone")
    anchor = 0 if spec.anchor is None else parse_time(spec.anchor, "anchor")
    try:
        return Every(round(parse_duration(spec.every, "every") * MICRO), anchor)
    except BadTimetable as error:
        raise InvalidRequest(str(error), field="every") from None


def check_job(spec: ScheduleSpec, now: int) -> NewJob:
    """Return the job as it would be submitted, or refuse one that could not be when the time comes."""
    for field in ("run_at", "delay"):
        if getattr(spec.job, field) is not None:
            raise InvalidRequest(
                f"a schedule says when its job runs; leave job.{field} out", field=f"job.{field}"
            )
    if isinstance(spec.job.deadline, str) and "-" in spec.job.deadline:
        raise InvalidRequest(
            "the jobs of a schedule have a deadline counted from when they are due; write a duration",
            field="job.deadline",
        )
    if spec.job.after:
        raise InvalidRequest("the jobs of a schedule wait for none; leave job.after out", field="job.after")
    try:
        return new_job(spec.job, 0, now)
    except CallerError as error:
        field = f"job.{error.field}" if error.field else "job"
        raise InvalidRequest(error.detail, code=error.code, field=field, status=error.status) from None


def job_of(schedule: Schedule, spec: ScheduleSpec, fire: int, job_id: int, now: int) -> NewJob:
    """Return the job of one fire. One that is made up for stands in line from now on, not from then."""
    job = new_job(spec.job, job_id, now)
    run_at = due_at(schedule, fire) if fire > now - GRACE else now
    if job.extras is not None and job.extras.deadline is not None:  # counted from when it is due
        job = job._replace(extras=replace(job.extras, deadline=job.extras.deadline + run_at - now))
    return job._replace(run_at=run_at)


def preview(spec: ScheduleSpec, progress: Progress, now: int, most: int = PREVIEW) -> list[int]:
    """Return the next fire times; none while it is paused, or if its zone is not known on this machine."""
    if progress.paused:
        return []
    try:
        return next_fires(read_timetable(spec), max(now, progress.seen), most)
    except InvalidRequest:
        return []


def row_of(
    name: str, spec: ScheduleSpec, progress: Progress, now: int, before: ScheduleRow | None
) -> ScheduleRow:
    """Return the row to write. A revision is never used twice, even if the schedule was deleted meanwhile."""
    revision = max(now, before.revision + 1) if before else now
    created_at = before.created_at if before else now
    plain = msgspec.structs.replace(spec, paused=UNSET)  # whether it is paused is part of its progress
    return ScheduleRow(name, revision, _encode(plain), _encode(progress), created_at, now)


def spec_of(row: ScheduleRow) -> ScheduleSpec:
    """Read what was asked for."""
    return _read_spec(row.spec)


def progress_of(row: ScheduleRow) -> Progress:
    """Read where it stands."""
    return _read_progress(row.progress)


def corrected(progress: Progress, jobs: Sequence[NewJob], accepted: Sequence[Accepted]) -> Progress:
    """Return the progress with the ids the jobs got: a unique key may have had one, an id been taken."""
    got = {job.id: (one.ids[0], one.existed[0]) for job, one in zip(jobs, accepted, strict=True)}
    live = tuple(dict.fromkeys(got.get(job, (job, False))[0] for job in progress.live))
    last = progress.last
    if last is not None and last.job in got:
        job, existed = got[last.job]
        last = Last(last.at, job, "existed" if existed else last.what)
    return replace(progress, live=live, last=last)


_encode = msgspec.json.Encoder().encode
_read_spec = msgspec.json.Decoder(ScheduleSpec).decode
_read_progress = msgspec.json.Decoder(Progress).decode
