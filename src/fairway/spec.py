"""The spec of a job: what a submitter asks for, checked once, turned into the row to insert.

The API and the direct client both come through here, so a job that is stored is one that can run: one
grammar for names, one bound for sizes, one message for each mistake.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from fairway.addresses import check_literal, check_url
from fairway.core.model import DEFAULT_RULES, JOB_DEFAULTS, MOST_GRACE, Delivery, Extras, Notify, Rules
from fairway.dependencies import MOST_AFTER, read_after
from fairway.errors import InvalidRequest, PrivateAddress
from fairway.keys import check_key, payload_key
from fairway.names import (
    QUEUE_PATTERN,
    TASK_PATTERN,
    WORKER_PATTERN,
    check_globs,
    check_queue,
    check_task,
    check_text,
    check_worker,
)
from fairway.store import NewJob
from fairway.strict import compact_json, convert, strict_json
from fairway.times import LATEST, MICRO, parse_duration, parse_time
from fairway.work import check_work

__all__ = ["Backoff", "JobSpec", "new_job", "read_spec", "strict_json"]

MOST_PAYLOAD = 1024 * 1024

Duration = Annotated[
    str | int | float,
    Meta(
        description="`90s`, `5m`, `2h`, `1d`, or seconds",
        examples=["90s", 5],
        extra_json_schema={"minimum": 0, "pattern": r"^[0-9]{1,7}(ms|s|m)?$"},
    ),
]
Time = Annotated[str, Meta(description="RFC 3339 with a zone", extra_json_schema={"format": "date-time"})]
Deadline = Annotated[
    str | int | float,
    Meta(
        description="RFC 3339 with a zone, or a duration counted from the submit",
        examples=["2h", "2035-01-01T00:00:00Z"],
        extra_json_schema={"minimum": 0},
    ),
]
QueuePath = Annotated[str, Meta(extra_json_schema={"pattern": QUEUE_PATTERN, "maxLength": 519})]
TaskName = Annotated[str, Meta(extra_json_schema={"pattern": TASK_PATTERN, "maxLength": 200})]
WorkerName = Annotated[str, Meta(extra_json_schema={"pattern": WORKER_PATTERN, "maxLength": 128})]
ShortText = Annotated[str, Meta(extra_json_schema={"minLength": 1, "maxLength": 200})]
Glob = Annotated[str, Meta(extra_json_schema={"minLength": 1, "maxLength": 600})]
Globs = Annotated[list[Glob], Meta(extra_json_schema={"maxItems": 32})]
Priority = Annotated[int, Meta(ge=-32768, le=32767)]
Count = Annotated[int, Meta(ge=1, le=1_000_000)]
UniqueKey = Annotated[
    ShortText | bool, Meta(description="a key, or true: whatever the job does is its key (set mode)")
]
Limit = Annotated[int, Meta(ge=0, le=1_000_000)]
#: 0 is refused where a job is made of a spec: a schedule that was stored with it can still be read.
Concurrency = Annotated[int, Meta(le=1_000_000, extra_json_schema={"minimum": 1})]
NotifyUrl = Annotated[
    str,
    Meta(
        description="called with a POST when the job has ended",
        examples=["https://example.org/hooks/jobs"],
        extra_json_schema={"pattern": "^https?://", "maxLength": 2000},
    ),
]
EndedState = Literal["succeeded", "failed", "cancelled", "unknown"]
After = Annotated[
    list[str],
    Meta(
        description="ids of jobs that must have ended before it begins; in a bulk also `#3`, one of the call",
        extra_json_schema={"maxItems": MOST_AFTER},
    ),
]


class Backoff(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, frozen=True):
    """How long to wait before a new try: *first*, doubling, at most *max*."""

    first: Duration = 1
    max: Duration = 3600


class NotifySpec(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, frozen=True):
    """Who is told of the job's end by a call, and of which ends; all if none is named."""

    url: NotifyUrl
    on: Annotated[list[EndedState], Meta(extra_json_schema={"maxItems": 4})] = []


class JobSpec(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, frozen=True):
    """A job as its submitter asks for it."""

    queue: QueuePath = "default"
    flow: ShortText | None = None
    priority: Priority = 0
    delivery: Delivery = Delivery.AT_LEAST_ONCE
    task: TaskName | None = None
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    work: dict[str, Any] | None = None
    tags: Globs = []
    unique: UniqueKey | None = None
    unique_for: Duration | None = None
    replace: bool = False
    run_at: Time | None = None
    delay: Duration | None = None
    max_attempts: Count | UnsetType | None = UNSET
    max_crashes: Count | UnsetType | None = UNSET
    timeout: Duration | UnsetType | None = UNSET
    backoff: Backoff | None = None
    concurrency: Concurrency | None = None
    deadline: Deadline | None = None
    after: After = []
    if_failed: Literal["fail", "run"] = "fail"
    group: ShortText | None = None
    worker: WorkerName | None = None
    notify: NotifyUrl | NotifySpec | None = None
    grace: Duration | UnsetType | None = UNSET


def read_spec(value: object) -> JobSpec:
    """Read a spec from plain JSON values."""
    return convert(value, JobSpec)


def new_job(spec: JobSpec, job_id: int, now: int, together: Sequence[int] = ()) -> NewJob:
    """Turn a spec into the row to insert, or say what is wrong with it.

    *together* are the ids of the jobs of the same call, in their order.
    """
    adapter, task, payload = _contents(spec)
    run_at = _run_at(spec, now)
    return NewJob(
        job_id,
        check_queue(spec.queue),
        None if spec.flow is None else check_text(spec.flow, "flow"),
        spec.priority,
        adapter,
        task,
        check_globs(spec.tags, "tags") if spec.tags else (),
        spec.delivery,
        run_at,
        now,
        _rules(spec),
        payload,
        _unique(spec, adapter, task, payload),
        _concurrency(spec),
        _extras(spec, run_at, now, together),
        spec.replace,
    )


def _unique(spec: JobSpec, adapter: str, task: str, payload: bytes) -> str | None:
    if spec.unique is None or spec.unique is False:
        return None
    return payload_key(adapter, task, payload) if spec.unique is True else check_key(spec.unique)


def _concurrency(spec: JobSpec) -> int | None:
    if spec.concurrency is not None and spec.concurrency < 1:
        raise InvalidRequest(
            "concurrency must be at least 1: it is the queue's limit from then on, and nothing could begin"
            " there; to hold a queue up, pause it",
            field="concurrency",
        )
    return spec.concurrency


def _contents(spec: JobSpec) -> tuple[str, str, bytes]:
    """Return adapter, task and payload."""
    if (spec.task is None) == (spec.work is None):
        raise InvalidRequest("give exactly one of task and work", field="task")
    if spec.task is not None:
        check_task(spec.task)
        payload = compact_json({"args": spec.args, "kwargs": spec.kwargs}, "args")
        return "python", spec.task, _bounded(payload)
    if spec.args or spec.kwargs:
        raise InvalidRequest("args and kwargs belong to a task; work carries its own", field="args")
    adapter, task = check_work(spec.work)
    return adapter, task, _bounded(compact_json({"work": spec.work}, "work"))


def _bounded(payload: bytes) -> bytes:
    if len(payload) > MOST_PAYLOAD:
        raise InvalidRequest(
            f"the job carries {len(payload)} bytes; at most {MOST_PAYLOAD} are allowed: store large data"
            " elsewhere and send its address",
            code="too_large",
            status=413,
        )
    return payload


def _run_at(spec: JobSpec, now: int) -> int:
    if spec.run_at is None and spec.delay is None:
        return now
    if spec.run_at is not None and spec.delay is not None:
        raise InvalidRequest("give run_at or delay, not both", field="delay")
    if spec.run_at is not None:
        return parse_time(spec.run_at)
    return min(now + round(parse_duration(spec.delay) * MICRO), LATEST)


def _extras(spec: JobSpec, run_at: int, now: int, together: Sequence[int]) -> Extras | None:
    """Return what few jobs have; None for all others."""
    says_nothing = spec.deadline is spec.group is spec.unique_for is spec.worker is spec.notify is None
    if says_nothing and not spec.after:
        return None
    return Extras(
        deadline=None if spec.deadline is None else read_deadline(spec.deadline, run_at, now),
        after=read_after(spec.after, together),
        if_failed=spec.if_failed,
        group=None if spec.group is None else check_text(spec.group, "group"),
        unique_for=None if spec.unique_for is None else _unique_seconds(spec.unique_for),
        worker="" if spec.worker is None else check_worker(spec.worker, "worker"),
        notify=None if spec.notify is None else _notify(spec.notify),
    )


def _notify(asked: str | NotifySpec) -> Notify:
    url, on = (asked, []) if isinstance(asked, str) else (asked.url, asked.on)
    check_url(url, "notify")
    return Notify(url, tuple(sorted(set(on))))


def check_notified(notify: Notify) -> None:
    """Refuse a receiver whose address is a private one; a name is looked up when it is called."""
    try:
        check_literal(check_url(notify.url, "notify"))
    except PrivateAddress as error:
        raise PrivateAddress(error.detail, field="notify") from None


def _unique_seconds(value: str | int | float) -> float:
    seconds = parse_duration(value, "unique_for")
    if seconds == 0:
        raise InvalidRequest(
            "unique_for must be above 0; leave it out for a key that ends with its job", field="unique_for"
        )
    return seconds


def read_deadline(value: str | int | float, run_at: int, now: int) -> int:
    """Return the time by which a job must have begun; refused if it cannot begin by then."""
    if isinstance(value, str) and "-" in value:
        deadline = parse_time(value, "deadline")
    else:
        deadline = min(now + round(parse_duration(value, "deadline") * MICRO), LATEST)
    if deadline <= now:
        raise InvalidRequest("deadline has passed already: the job could never begin", field="deadline")
    if deadline <= run_at:
        raise InvalidRequest("deadline is not after run_at: the job could never begin", field="deadline")
    return deadline


def _rules(spec: JobSpec) -> Rules:
    if _says_nothing(spec):
        return DEFAULT_RULES
    first, most = read_backoff(spec.backoff)
    return _equal_rules(
        _max_attempts(spec), _max_crashes(spec), read_timeout(spec.timeout), first, most, _unsaid(spec),
        None if spec.grace is UNSET else read_grace(spec.grace),
    )  # fmt: skip


def _says_nothing(spec: JobSpec) -> bool:
    return (
        spec.max_attempts is UNSET
        and spec.max_crashes is UNSET
        and spec.timeout is UNSET
        and spec.backoff is None
        and spec.grace is UNSET
        and spec.delivery is Delivery.AT_LEAST_ONCE
    )


def _unsaid(spec: JobSpec) -> tuple[str, ...]:
    """Name what is left to the queue. An at-most-once job is tried once, whatever the queue says."""
    left = (
        spec.max_attempts is UNSET and spec.delivery is Delivery.AT_LEAST_ONCE,
        spec.max_crashes is UNSET,
        spec.timeout is UNSET,
        spec.backoff is None,
        spec.grace is UNSET,
    )
    return tuple(name for name, is_left in zip(JOB_DEFAULTS, left, strict=True) if is_left)


@lru_cache(maxsize=1024)
def _equal_rules(
    attempts: int | None,
    crashes: int | None,
    timeout: float | None,
    first: float,
    most: float,
    unsaid: tuple[str, ...],
    grace: float | None,
) -> Rules:
    """Equal rules are one object: a bulk of jobs shares them."""
    return Rules(attempts, crashes, timeout, first, most, unsaid, grace)


def _max_attempts(spec: JobSpec) -> int | None:
    if spec.delivery is Delivery.AT_MOST_ONCE:
        if spec.max_attempts not in (UNSET, 1):
            raise InvalidRequest(
                "an at_most_once job is tried once: leave max_attempts out or set it to 1",
                field="max_attempts",
            )
        return 1
    return DEFAULT_RULES.max_attempts if spec.max_attempts is UNSET else spec.max_attempts


def _max_crashes(spec: JobSpec) -> int | None:
    return DEFAULT_RULES.max_crashes if spec.max_crashes is UNSET else spec.max_crashes


def read_timeout(value: str | int | float | UnsetType | None) -> float | None:
    """Return the seconds that one attempt may run; None: as long as it likes."""
    if value is None or value is UNSET:
        return None
    seconds = parse_duration(value, "timeout")
    if seconds == 0:
        raise InvalidRequest("timeout must be above 0; leave it out for no timeout", field="timeout")
    return seconds


def read_grace(value: str | int | float | None) -> float | None:
    """Return the seconds from telling an attempt to end to killing it; None leaves them to the worker."""
    if value is None:
        return None
    seconds = parse_duration(value, "grace")
    if seconds > MOST_GRACE:
        raise InvalidRequest(f"grace is at most {MOST_GRACE:g} s", field="grace")
    return seconds


def read_backoff(backoff: Backoff | None) -> tuple[float, float]:
    """Return the first wait and the longest, in seconds."""
    if backoff is None:
        return DEFAULT_RULES.retry_first, DEFAULT_RULES.retry_max
    first = parse_duration(backoff.first, "backoff.first")
    most = parse_duration(backoff.max, "backoff.max")
    if first > most:
        raise InvalidRequest("backoff.first must not be above backoff.max", field="backoff.first")
    return first, most
