"""Schedules: what is submitted by the clock."""

from __future__ import annotations

import msgspec

from fairway.api.answers import Answer, answer_json
from fairway.api.operation import Call, Operation
from fairway.clock import wall
from fairway.ids import show
from fairway.names import check_schedule
from fairway.schedule_spec import ScheduleSpec
from fairway.shapes import Job, Schedule, Schedules
from fairway.views import job_view, schedule_view


class PutQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Whether to say only what would come of it."""

    dry_run: bool = False


class ScheduleChanges(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, frozen=True):
    """Pause it, or let it fire again."""

    paused: bool


async def list_schedules(call: Call) -> Answer:
    """Show all schedules."""
    return answer_json({"schedules": [schedule_view(one) for one in await call.desk.schedules()]})


async def show_schedule(call: Call) -> Answer:
    """Show one schedule."""
    return answer_json(schedule_view(await call.desk.get_schedule(_name(call))))


async def put_schedule(call: Call) -> Answer:
    """Make or replace a schedule."""
    dry = call.query.dry_run
    schedule, is_new = await call.desk.put_schedule(_name(call), call.body, dry=dry)
    return answer_json(schedule_view(schedule), 201 if is_new and not dry else 200)


async def patch_schedule(call: Call) -> Answer:
    """Pause or resume a schedule."""
    asked: ScheduleChanges = call.body
    return answer_json(schedule_view(await call.desk.pause_schedule(_name(call), asked.paused)))


async def delete_schedule(call: Call) -> Answer:
    """Forget a schedule."""
    await call.desk.delete_schedule(_name(call))
    return Answer(204, b"")


async def run_schedule(call: Call) -> Answer:
    """Submit a schedule's job now."""
    job = await call.desk.run_schedule(_name(call))
    location = (b"location", f"/v1/jobs/{show(job.id)}".encode())
    return answer_json(job_view(job, wall()), 201, location)


def _name(call: Call) -> str:
    return check_schedule(call.path["name"])


OPERATIONS = [
    Operation("GET", "/v1/schedules", list_schedules, "Show the schedules", answer=Schedules),
    Operation(
        "GET", "/v1/schedules/{name}", show_schedule, "Show a schedule with its next five fires",
        answer=Schedule, errors=(404,),
    ),
    Operation(
        "PUT", "/v1/schedules/{name}", put_schedule,
        "Make or replace a schedule; 201 if it is new, 200 and nothing changed with `dry_run`",
        answer=Schedule, others=(201,), query=PutQuery, body=ScheduleSpec, errors=(409,), leader=True,
    ),
    Operation(
        "PATCH", "/v1/schedules/{name}", patch_schedule, "Pause or resume a schedule",
        answer=Schedule, body=ScheduleChanges, errors=(404, 409), leader=True,
    ),
    Operation(
        "DELETE", "/v1/schedules/{name}", delete_schedule, "Forget a schedule; its jobs stay",
        status=204, errors=(404, 409), leader=True,
    ),
    Operation(
        "POST", "/v1/schedules/{name}/run", run_schedule, "Submit a schedule's job now, by hand",
        answer=Job, status=201, errors=(404, 409), leader=True,
    ),
]  # fmt: skip
