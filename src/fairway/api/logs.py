"""Logs: what an attempt wrote, as text, or as it comes when following.

A follower is served from the store, where the log is: as soon as something new is there if this node leads,
else it looks once a second. It goes on to the next attempt if none was named, and ends with the job. One that
comes back names the last id it saw and goes on behind it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Annotated

import msgspec
from msgspec import Meta

from fairway.api.answers import TEXT, Answer, Stream, encode
from fairway.api.jobs import find_job_id
from fairway.api.operation import Call, Operation
from fairway.api.relaying import may_pass_on
from fairway.core.lifecycle import ENDED
from fairway.desk import Desk
from fairway.errors import InvalidRequest
from fairway.store import LogLine
from fairway.times import show_time

PAGE = 5000
MOST_PAGES = 200
POLL_SECONDS = 1.0
LAST_LINES_SECONDS = 0.3
#: A job that writes all the time is read so often.
PAUSE_SECONDS = 0.05

_id = re.compile(r"(\d{1,9})\.(\d{1,9})", re.ASCII)


class LogQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Which attempt (the latest that wrote, if none is named), and whether to follow."""

    attempt: Annotated[int, Meta(ge=1, le=2**31 - 1)] | None = None
    follow: bool = False


async def show_log(call: Call) -> Answer | Stream:
    """Show what a job wrote."""
    job_id = find_job_id(call)
    asked: LogQuery = call.query
    await call.desk.get_job(job_id)
    if asked.follow:
        return Stream(_follow(call.desk, job_id, asked.attempt, _last_seen(call)))
    # Output may still be on its way into the store, which only the leader can know.
    passed = await may_pass_on(call.desk, call.question)
    if passed is not None:
        return passed
    await call.desk.settle_log()
    return Answer(200, await _read_all(call.desk, job_id, asked.attempt), TEXT)


async def _read_all(desk: Desk, job: int, attempt: int | None) -> bytes:
    """Return the log as text, up to a bound."""
    texts: list[str] = []
    after = -1
    for _ in range(MOST_PAGES):
        lines = await desk.store.read_log(job, attempt, after, PAGE)
        texts += (line.text for line in lines)
        if len(lines) < PAGE:
            break
        # The attempt is fixed by the first page: a newer one must not be mixed in.
        attempt, after = lines[-1].attempt, lines[-1].number
    return "".join(texts).encode(errors="replace")


def _last_seen(call: Call) -> tuple[int, int] | None:
    """Return the attempt and the number of the last line that a follower has, if it comes back."""
    header = call.headers.get(b"last-event-id")
    if header is None:
        return None
    found = _id.fullmatch(header.decode("latin-1"))
    if found is None:
        raise InvalidRequest("an id has the form attempt.number, such as 1.17", field="Last-Event-ID")
    return int(found[1]), int(found[2])


async def _follow(
    desk: Desk, job: int, attempt: int | None, last_seen: tuple[int, int] | None
) -> AsyncIterator[bytes]:
    place = Place(attempt, last_seen)
    yield b": hello\n\n"
    with desk.follow_log(job) as grown:
        drained = False
        while True:
            grown.clear()  # before we look: what comes meanwhile is seen the next time
            lines = await desk.store.read_log(job, place.attempt, place.after, PAGE)
            if lines:
                place.attempt, place.after = lines[-1].attempt, lines[-1].number
                yield b"".join(_sse(line) for line in lines)
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            stored = await desk.get_job(job)
            if stored.state in ENDED or (attempt is not None and stored.attempt > attempt):
                if drained:
                    break
                drained = True  # the last lines may be on their way still
                await desk.settle_log()
                await asyncio.sleep(0 if desk.leads else LAST_LINES_SECONDS)
            elif attempt is None and place.attempt is not None and stored.attempt > place.attempt:
                place = Place(None, None)
            elif not await _grows(desk, job, grown):
                yield b": waiting\n\n"
    yield b"event: end\ndata: {}\n\n"


class Place:
    """How far a follower has read: of which attempt (None: the latest), and behind which line."""

    def __init__(self, attempt: int | None, last_seen: tuple[int, int] | None) -> None:
        self.attempt, self.after = attempt, -1
        if last_seen is not None and attempt in (None, last_seen[0]):
            self.attempt, self.after = last_seen


async def _grows(desk: Desk, job: int, grown: asyncio.Event) -> bool:
    """Wait until the log has grown, the job has ended or a second is over; say whether it has grown."""
    growing = asyncio.ensure_future(grown.wait())
    ending = asyncio.ensure_future(desk.wait_job(job, POLL_SECONDS))
    try:
        await asyncio.wait({growing, ending}, return_when=asyncio.FIRST_COMPLETED)
        if ending.done():
            ending.result()  # a store that does not answer ends the stream
        return growing.done()
    finally:
        growing.cancel()
        ending.cancel()


def _sse(line: LogLine) -> bytes:
    data = encode({"at": show_time(line.at), "stream": line.stream, "text": line.text})
    return f"id: {line.attempt}.{line.number}\nevent: log\ndata: ".encode() + data + b"\n\n"


OPERATIONS = [
    Operation(
        "GET", "/v1/jobs/{id}/log", show_log, "Show what a job wrote: text, or events when following",
        query=LogQuery, errors=(404,), media="text/plain",
        headers=(("Last-Event-ID", "when following: go on behind this line"),),
    ),
]  # fmt: skip
