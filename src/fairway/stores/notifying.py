"""What is told of a job's end to whoever wanted to be told: written down in the commit that ends it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec

from fairway.core.lifecycle import State
from fairway.ids import show
from fairway.store import StoredJob
from fairway.times import show_time

#: A value or an error object that is longer is left out: whoever wants it asks for the job.
MOST_OUTCOME = 64 * 1024

_write = msgspec.json.Encoder().encode


class NewDelivery(NamedTuple):
    """A call to be made: the parameters of `save_delivery`."""

    job: int
    url: str
    host: str
    body: bytes
    made_at: int


def deliveries_of(jobs: Iterable[StoredJob], now: int) -> Iterator[NewDelivery]:
    """Yield the calls that the ends of *jobs* ask for."""
    for job in jobs:
        notify = job.extras.notify if job.extras is not None else None
        if notify is not None and (not notify.on or job.state.value in notify.on):
            yield NewDelivery(job.id, notify.url, host_of(notify.url), body_of(job), now)


def host_of(url: str) -> str:
    """Return whom a call goes to: calls of one host share its bounds, whatever their paths are."""
    return urlsplit(url).netloc.lower()


def body_of(job: StoredJob) -> bytes:
    """Write an ended job as its receiver sees it: as `GET /v1/jobs/{id}` does, without its arguments."""
    return _write(
        {
            "id": show(job.id),
            "queue": job.queue,
            "flow": job.flow,
            "group": None if job.extras is None else job.extras.group,
            "task": job.task or None,
            "state": job.state.value,
            "attempt": job.attempt,
            "tries": job.tries,
            "generation": job.generation,
            "worker": job.worker,
            "cause": job.cause,
            "created_at": show_time(job.created_at),
            "started_at": None if job.started_at is None else show_time(job.started_at),
            "ended_at": None if job.ended_at is None else show_time(job.ended_at),
            "outcome": _outcome(job),
        }
    )


def _outcome(job: StoredJob) -> dict[str, Any]:
    body = job.outcome or b"null"
    if job.state is State.SUCCEEDED:
        if len(body) > MOST_OUTCOME:
            return {"ok": True, "cut": True}
        return {"ok": True, "value": msgspec.Raw(body)}
    found = msgspec.json.decode(body)
    error = found if isinstance(found, dict) else {}
    reason = str(error.pop("reason", job.state.value))
    if len(body) > MOST_OUTCOME:
        texts = {name: str(error.get(name) or "")[:4000] for name in ("type", "message")}
        return {"ok": False, "reason": reason, "error": texts, "cut": True}
    return {"ok": False, "reason": reason, "error": error or None}
