"""Schedules said in code: `@app.schedule(...)` above a task. They are made by `app.apply_schedules()`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from fairway.client.options import Duration, Time, plain_duration, plain_time
from fairway.core.cron import BadTimetable, read_cron
from fairway.errors import InvalidRequest
from fairway.names import check_schedule

if TYPE_CHECKING:
    from fairway.client.task import Task


class ScheduleOptions(TypedDict, total=False):
    """What `@app.schedule(...)` takes beside the cron line. *args* and *kwargs* are the task's own."""

    zone: str
    every: Duration
    anchor: Time
    name: str
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    missed: Literal["skip", "once", "all"]
    missed_most: int
    overlap: Literal["allow", "skip", "queue", "cancel"]
    jitter: Duration
    paused: bool


@dataclass(frozen=True, slots=True)
class DeclaredSchedule:
    """A schedule as the code has it: its name, and the body of the call that makes it."""

    name: str
    body: dict[str, Any]


def declare(task: Task[..., Any], cron: str | None, options: Mapping[str, Any]) -> DeclaredSchedule:
    """Return the schedule of a task; raises InvalidRequest where the mistake is, not at the first fire."""
    unknown = options.keys() - ScheduleOptions.__annotations__.keys()
    if unknown:
        raise InvalidRequest(f"a schedule has no option {min(unknown)!r}", field=min(unknown))
    body: dict[str, Any] = dict(options)
    name = check_schedule(body.pop("name", None) or task.name.replace(":", "."))
    for field in ("every", "jitter"):
        if field in body:
            body[field] = plain_duration(body[field], field)
    if "anchor" in body:
        body["anchor"] = plain_time(body["anchor"], "anchor")
    if cron is not None:
        body["cron"] = _checked(cron, body.get("zone", "UTC"))
    if (cron is None) == ("every" not in body):
        raise InvalidRequest(f"schedule {name!r} needs a cron line or every=, and not both", field="cron")
    job = task.job(*body.pop("args", ()), **body.pop("kwargs", {}))
    return DeclaredSchedule(name, {**body, "job": job.body()})


def _checked(cron: str, zone: str) -> str:
    try:
        return read_cron(cron, zone).text
    except BadTimetable as error:
        raise InvalidRequest(str(error), field="cron") from None
