"""What may be said about a task, and about one job of it; checked here, sent to the node as it is named.

Only what was given is sent: everything else is the queue's default, then the scheduler's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from fairway.client.request import JobRequest
from fairway.errors import InvalidRequest
from fairway.times import parse_duration, parse_time

if TYPE_CHECKING:
    from fairway.client.handle import Handle

Duration = str | float | timedelta
Time = str | datetime
DeliveryName = Literal["at_least_once", "at_most_once"]


class Backoff(TypedDict, total=False):
    """The pause before a new try: *first*, doubling, at most *max*."""

    first: Duration
    max: Duration


class Notify(TypedDict, total=False):
    """Whom to tell of a job's end by a call, and of which ends; all if none is named."""

    url: str
    on: Sequence[Literal["succeeded", "failed", "cancelled", "unknown"]]


class TaskOptions(TypedDict, total=False):
    """What `@app.task(...)` takes beside the name."""

    queue: str
    priority: int
    tags: Sequence[str]
    delivery: DeliveryName
    max_attempts: int | None
    max_crashes: int | None
    timeout: Duration | None
    backoff: Backoff
    grace: Duration | None
    deadline: Duration | Time | None
    unique: str | bool | None  # a key, or True: whatever the job does is its key
    unique_for: Duration | None
    replace: bool
    notify: str | Notify | None  # a URL that is called when the job has ended


class JobOptions(TaskOptions, total=False):
    """What `task.options(...)` takes: the same, and what concerns one job only."""

    flow: str | None
    delay: Duration
    run_at: Time
    at: Time  # the same as run_at
    concurrency: int
    after: Sequence[Handle[Any] | JobRequest[Any] | str]  # a request: of the same call
    if_failed: Literal["fail", "run"]
    group: str
    worker: str | None  # the name of the only worker that may take it


def checked(options: Mapping[str, Any], known: type[TaskOptions]) -> dict[str, Any]:
    """Return options as they are sent; raises InvalidRequest for one that is unknown or malformed."""
    names = known.__annotations__
    sent: dict[str, Any] = {}
    for name, value in options.items():
        if name not in names:
            raise InvalidRequest(
                f"there is no option {name!r}; known: {', '.join(sorted(names))}", field=name
            )
        sent["run_at" if name == "at" else name] = _plain(name, value)
    if "run_at" in sent and "delay" in sent:
        raise InvalidRequest("give delay or run_at, not both", field="delay")
    return sent


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return *base* with *over* put on top; a new delay ends an old run_at, and the other way round."""
    opposite = {"delay": "run_at", "run_at": "delay"}
    ended = {opposite[name] for name in over if name in opposite}
    return {**{name: value for name, value in base.items() if name not in ended}, **over}


def _plain(name: str, value: Any) -> Any:
    if name in ("run_at", "at"):
        return plain_time(value, name)
    if name in ("delay", "timeout", "grace", "unique_for") and value is not None:
        return plain_duration(value, name)
    if name == "deadline" and value is not None:
        return _deadline(value)
    if name == "backoff":
        return _backoff(value)
    if name in ("priority", "max_attempts", "max_crashes", "concurrency"):
        return _count(value, name)
    if name == "replace" or (name == "unique" and isinstance(value, bool)):
        return _truth(value, name)
    if name == "tags":
        return _texts(value)
    if name == "after":
        return _after(value)
    if name == "notify":
        return _notify(value)
    return _text(value, name)


def plain_duration(value: Any, name: str) -> float:
    """Return a duration in seconds, as it is sent."""
    return parse_duration(value.total_seconds() if isinstance(value, timedelta) else value, name)


def _deadline(value: Any) -> str | float:
    """Return a deadline as it is sent: a time, or a duration counted from the submit."""
    if isinstance(value, datetime) or (isinstance(value, str) and "-" in value):
        return plain_time(value, "deadline")
    return plain_duration(value, "deadline")


def _backoff(value: Any) -> dict[str, float]:
    if not isinstance(value, dict) or not value.keys() <= {"first", "max"}:
        raise InvalidRequest(
            f"backoff must be like {{'first': 1, 'max': 60}}, not {value!r}", field="backoff"
        )
    return {name: plain_duration(seconds, f"backoff.{name}") for name, seconds in value.items()}


def plain_time(value: Any, name: str) -> str:
    """Return a time as RFC 3339 text, as it is sent."""
    text = value.isoformat() if isinstance(value, datetime) else value
    if not isinstance(text, str):
        raise InvalidRequest(f"{name} must be a datetime with a zone or an RFC 3339 text", field=name)
    parse_time(text, name)
    return text


def _count(value: Any, name: str) -> int | None:
    if value is None and name.startswith("max_"):
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidRequest(f"{name} must be a whole number, not {value!r}", field=name)
    return value


def _truth(value: Any, name: str) -> bool:
    if not isinstance(value, bool):
        raise InvalidRequest(f"{name} must be True or False, not {value!r}", field=name)
    return value


def _texts(value: Any) -> list[str]:
    if isinstance(value, str) or not all(isinstance(one, str) for one in value):
        raise InvalidRequest(f"tags must be a list of texts, not {value!r}", field="tags")
    return list(value)


def _after(value: Any) -> list[Any]:
    """Return ids, and requests as they are: they have no id before they are submitted together."""
    given = [value] if isinstance(value, str) or not hasattr(value, "__iter__") else list(value)
    return [_awaited(one) for one in given]


def _awaited(value: Any) -> Any:
    found = value if isinstance(value, str | JobRequest) else getattr(value, "id", None)
    if not isinstance(found, str | JobRequest):
        raise InvalidRequest(f"after takes handles, job requests and ids, not {value!r}", field="after")
    return found


def _notify(value: Any) -> Any:
    if isinstance(value, str | None):
        return value
    if not isinstance(value, dict) or not value.keys() <= {"url", "on"} or "url" not in value:
        raise InvalidRequest(
            f"notify must be a URL, or like {{'url': 'https://...', 'on': ['failed']}}, not {value!r}",
            field="notify",
        )
    return {**value, "on": list(value.get("on", ()))}


def _text(value: Any, name: str) -> Any:
    if not isinstance(value, str | None):
        raise InvalidRequest(f"{name} must be a text, not {value!r}", field=name)
    return value
