"""Jobs: find, look at, wait for, change, cancel, retry, resolve."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from fairway.api.answers import Answer, answer_json
from fairway.api.operation import Call, Operation
from fairway.api.relaying import may_pass_on
from fairway.clock import wall
from fairway.core.lifecycle import WAITING
from fairway.errors import InvalidRequest, NotFound
from fairway.ids import find_id
from fairway.names import (
    MOST_TAGS,
    WORKER_PATTERN,
    check_adapter,
    check_globs,
    check_queue,
    check_text,
    check_worker,
    check_workers,
)
from fairway.noted_views import attempts_view
from fairway.query import parse
from fairway.shapes import Attempts, Job, Jobs
from fairway.spec import (
    Count,
    Deadline,
    Duration,
    Globs,
    Priority,
    QueuePath,
    ShortText,
    Time,
    WorkerName,
    read_deadline,
    read_grace,
    read_timeout,
)
from fairway.store import StoredJob
from fairway.strict import compact_json
from fairway.times import MICRO, parse_duration, parse_time
from fairway.views import job_view

MOST_WAIT_SECONDS = 60.0
#: Adapters whose jobs carry work of their own.
WITHOUT_TASKS = ("command", "http")

AdapterName = Annotated[
    str,
    Meta(
        description="another adapter that knows the job's task; only for jobs that have one",
        extra_json_schema={"pattern": WORKER_PATTERN, "maxLength": 128},
    ),
]
Away = Annotated[
    list[WorkerName],
    Meta(description="workers that it must not go to", extra_json_schema={"maxItems": MOST_TAGS}),
]


class ListQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Which jobs, in which order, how many, behind which."""

    q: str = ""
    sort: str = "-created_at"
    limit: Annotated[int, Meta(ge=1, le=500)] = 50
    cursor: str | None = None


class ShowQuery(msgspec.Struct, forbid_unknown_fields=True):
    """How long to wait for the job's end."""

    wait: str | None = None


class CancelQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Whether to kill at once instead of asking first."""

    force: bool = False


class Changes(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, frozen=True):
    """What may be changed of a job that waits; what is left out stays."""

    queue: QueuePath | UnsetType = UNSET
    flow: ShortText | UnsetType | None = UNSET
    priority: Priority | UnsetType = UNSET
    run_at: Time | UnsetType = UNSET
    delay: Duration | UnsetType = UNSET
    tags: Globs | UnsetType = UNSET
    max_attempts: Count | UnsetType | None = UNSET
    deadline: Deadline | UnsetType | None = UNSET
    timeout: Duration | UnsetType | None = UNSET
    adapter: AdapterName | UnsetType = UNSET
    worker: WorkerName | UnsetType | None = UNSET
    away: Away | UnsetType = UNSET
    grace: Duration | UnsetType | None = UNSET


class Resolution(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, frozen=True):
    """How an unknown job went, in a person's word."""

    succeeded: bool
    value: Any = UNSET


async def list_jobs(call: Call) -> Answer:
    """Search."""
    asked: ListQuery = call.query
    page = await call.desk.search(parse(asked.q), sort=asked.sort, limit=asked.limit, cursor=asked.cursor)
    if any(job.state in WAITING for job in page.jobs):  # why they wait is the leader's to say
        passed = await may_pass_on(call.desk, call.question)
        if passed is not None:
            return passed
    standings, notes = await call.desk.standing(page.jobs), await call.desk.notes(page.jobs)
    now = _now()
    shown = [
        job_view(job, now, standing, notes.get(job.id))
        for job, standing in zip(page.jobs, standings, strict=True)
    ]
    return answer_json({"jobs": shown, "next": page.next, "total": page.total})


async def show_job(call: Call) -> Answer:
    """Show a job, when it has ended if asked to wait."""
    job_id = find_job_id(call)
    asked: ShowQuery = call.query
    if asked.wait is None:
        return await _looked_up(call, await call.desk.get_job(job_id))
    seconds = parse_duration(asked.wait, "wait")
    if seconds > MOST_WAIT_SECONDS:
        raise InvalidRequest(
            f"wait must be at most {MOST_WAIT_SECONDS:g} s; ask again after it", field="wait"
        )
    # The leader knows the end at once, this node by asking the store again and again.
    passed = await may_pass_on(call.desk, call.question, seconds)
    if passed is not None:
        return passed
    return await _shown(call, await call.desk.wait_job(job_id, seconds))


async def show_attempts(call: Call) -> Answer:
    """Show what is known of a job's attempts."""
    job = await call.desk.get_job(find_job_id(call))
    notes = await call.desk.attempt_notes(job.id) if job.attempt else []
    return answer_json({"attempts": attempts_view(job, notes)})


async def edit_job(call: Call) -> Answer:
    """Change a job that waits."""
    job_id = find_job_id(call)
    changes = read_changes(call.body)
    if "max_attempts" in changes and (await call.desk.get_job(job_id)).once and changes["max_attempts"] != 1:
        raise InvalidRequest("an at_most_once job is tried once", field="max_attempts")
    return await _shown(call, await call.desk.edit(job_id, changes))


async def cancel_job(call: Call) -> Answer:
    """Cancel a job: it never begins after this answer; if it runs it is stopped."""
    asked: CancelQuery = call.query
    return await _shown(call, await call.desk.cancel(find_job_id(call), asked.force))


async def retry_job(call: Call) -> Answer:
    """Try an ended job again."""
    return await _shown(call, await call.desk.retry(find_job_id(call)))


async def resolve_job(call: Call) -> Answer:
    """Take a person's word on an unknown job."""
    job_id = find_job_id(call)
    word: Resolution = call.body
    if word.value is not UNSET and not word.succeeded:
        raise InvalidRequest("a job that did not succeed has no value", field="value")
    value = None if word.value is UNSET else compact_json(word.value, "value")
    return await _shown(call, await call.desk.resolve(job_id, word.succeeded, value))


def find_job_id(call: Call) -> int:
    """Return the job the path names; what cannot be an id is not found."""
    job_id = find_id(call.path["id"])
    if job_id is None:
        raise NotFound(f"there is no job {call.path['id'][:40]!a}")
    return job_id


def read_changes(changes: Changes) -> dict[str, Any]:
    """Check what shall be changed and return it as the desk takes it; at least one thing."""
    parsed: dict[str, Any] = {
        name: value for name in Changes.__struct_fields__ if (value := getattr(changes, name)) is not UNSET
    }
    if not parsed:
        raise InvalidRequest("name at least one thing to change")
    if "queue" in parsed:
        check_queue(parsed["queue"])
    if parsed.get("flow") is not None:
        check_text(parsed["flow"], "flow")
    if "tags" in parsed:
        parsed["tags"] = check_globs(parsed["tags"], "tags")
    if "grace" in parsed:
        parsed["grace"] = read_grace(parsed["grace"])
    if "run_at" in parsed and "delay" in parsed:
        raise InvalidRequest("give run_at or delay, not both", field="delay")
    if "run_at" in parsed:
        parsed["run_at"] = parse_time(parsed["run_at"])
    if "delay" in parsed:
        parsed["run_at"] = _now() + round(parse_duration(parsed.pop("delay")) * MICRO)
    if parsed.get("deadline") is not None:
        parsed["deadline"] = read_deadline(parsed["deadline"], 0, _now())
    if "timeout" in parsed:
        parsed["timeout"] = read_timeout(parsed["timeout"])
    if "adapter" in parsed:
        _check_adapter(parsed["adapter"])
    if parsed.get("worker") is not None:
        check_worker(parsed["worker"], "worker")
    if "away" in parsed:
        parsed["away"] = check_workers(parsed["away"], "away")
    return parsed


def _check_adapter(name: str) -> None:
    if check_adapter(name) in WITHOUT_TASKS:
        raise InvalidRequest(f"adapter {name!r} runs no tasks", field="adapter")


async def _looked_up(call: Call, job: StoredJob) -> Answer:
    """Show a job; why it waits is the leader's to say."""
    passed = await may_pass_on(call.desk, call.question) if job.state in WAITING else None
    return passed or await _shown(call, job)


async def _shown(call: Call, job: StoredJob) -> Answer:
    [standing] = await call.desk.standing([job])
    notes = await call.desk.notes([job])
    return answer_json(job_view(job, _now(), standing, notes.get(job.id)))


def _now() -> int:
    return wall()


OPERATIONS = [
    Operation("GET", "/v1/jobs", list_jobs, "Search jobs", answer=Jobs, query=ListQuery),
    Operation(
        "GET", "/v1/jobs/{id}", show_job, "Show a job; with wait, when it ended or the time is over",
        answer=Job, query=ShowQuery, errors=(404,),
    ),
    Operation(
        "GET", "/v1/jobs/{id}/attempts", show_attempts, "Show what is known of a job's attempts",
        answer=Attempts, errors=(404,),
    ),
    Operation(
        "PATCH", "/v1/jobs/{id}", edit_job, "Change a job that waits",
        answer=Job, body=Changes, errors=(404, 409), leader=True,
    ),
    Operation(
        "DELETE", "/v1/jobs/{id}", cancel_job, "Cancel a job; with force, kill it",
        answer=Job, query=CancelQuery, errors=(404, 409), leader=True,
    ),
    Operation(
        "POST", "/v1/jobs/{id}/retry", retry_job, "Try an ended job again",
        answer=Job, errors=(404, 409), leader=True,
    ),
    Operation(
        "POST", "/v1/jobs/{id}/resolve", resolve_job, "Say how an unknown job went",
        answer=Job, body=Resolution, errors=(404, 409), leader=True,
    ),
]  # fmt: skip
