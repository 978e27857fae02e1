"""Requests as jobs to insert, for whoever writes them to the database without a node in between."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from fairway.client.channel import Job, first_state
from fairway.client.codec import EMPTY
from fairway.client.request import JobRequest
from fairway.dependencies import check_call
from fairway.errors import InvalidRequest
from fairway.ids import IdMaker, give_out, show
from fairway.keys import payload_key
from fairway.spec import new_job, read_spec
from fairway.store import NewJob
from fairway.strict import MOST_DEPTH

MOST_LIKENESSES = 1000
_OF_THE_MOMENT = frozenset(("run_at", "delay", "deadline", "after"))
_long_number = re.compile(rb"[0-9]{16}|[0-9][eE]")


class Likenesses:
    """Jobs as tasks have made them: the next one of a task with the same options is like it in most."""

    def __init__(self) -> None:
        # Tasks and options are kept, so that nothing else can have their identity; what they carried is not.
        self._known: dict[tuple[int, int], tuple[object, object, NewJob]] = {}

    def find(self, request: JobRequest[Any], now: int) -> NewJob | None:
        """Return a job that one of this request is like, if it were submitted now."""
        known = self._known.get((id(request.task), id(request.options)))
        return None if known is None else known[2]._replace(run_at=now, created_at=now)

    def keep(self, request: JobRequest[Any], job: NewJob) -> None:
        """Remember a job, unless its options mean something else at another time."""
        if not request.options.keys() & _OF_THE_MOMENT:
            if len(self._known) >= MOST_LIKENESSES:
                self._known.clear()
            of = request.task, request.options
            self._known[id(of[0]), id(of[1])] = *of, job._replace(payload=b"")


def new_jobs(
    requests: Sequence[JobRequest[Any]], now: int, likenesses: Likenesses | None = None
) -> list[NewJob]:
    """Return the rows to insert for these requests, checked as a node would check them.

    Those of one task with the same options differ in their id and what they carry: the rest is read once.
    """
    known = likenesses or Likenesses()
    alike: dict[tuple[int, int], NewJob | None] = {}
    jobs = []
    queues = [request.options.get("queue", "") for request in requests]
    ids = give_out(IdMaker().take(len(requests), now // 1000), queues)
    for request, number in zip(requests, ids, strict=True):
        which = (id(request.task), id(request.options))
        like = alike.get(which) or known.find(request, now)
        payload = b'{"args":%b,"kwargs":%b}' % (request.args, request.kwargs)
        if like is not None and (payload == EMPTY or _needs_no_check(payload)):
            unique = like.unique
            if unique is not None and request.options["unique"] is True:
                unique = payload_key(like.adapter, like.task, payload)
            jobs.append(NewJob._make((number, *like[1:11], payload, unique, *like[13:])))
        else:
            like = _new_job(request, number, now, ids)
            known.keep(request, like)
            jobs.append(like)
        alike[which] = like
    if any(like is not None and like.extras is not None and like.extras.after for like in alike.values()):
        check_call([job.extras.after if job.extras else () for job in jobs], ids)
    return jobs


def _needs_no_check(payload: bytes) -> bool:
    """Say whether JSON that we wrote ourselves surely has nothing in it that a node would refuse."""
    return (
        len(payload) < 10_000
        and b"\\" not in payload
        and payload.count(b"[") + payload.count(b"{") < MOST_DEPTH
        and not _long_number.search(payload)
    )


def shown(requests: Sequence[JobRequest[Any]], ids: Sequence[int]) -> list[Job]:
    """Return what is known of jobs that were just accepted."""
    return [
        {"id": show(number), "state": first_state(request), "task": request.task.name}
        for request, number in zip(requests, ids, strict=True)
    ]


def _new_job(request: JobRequest[Any], number: int, now: int, together: Sequence[int]) -> NewJob:
    try:
        body = msgspec.json.encode(request.body())
    except UnicodeEncodeError as error:
        raise InvalidRequest(f"an option of {request.task.name} has half a character: {error}") from None
    spec = read_spec(msgspec.json.decode(body))
    return new_job(spec, number, now, together)
