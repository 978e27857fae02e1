"""Logs: what an attempt wrote, as text, or as it comes when following.

A follower is served from the store, where the log is, at most once a second; it goes on to the next
attempt if none was named, and ends with the job.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated

import msgspec
from msgspec import Meta

from fairway.api.answers import TEXT, Answer, Stream, encode
from fairway.api.jobs import find_job_id
from fairway.api.operation import Call, Operation
from fairway.core.lifecycle import ENDED
from fairway.desk import Desk
from fairway.store import LogLine
from fairway.times import show_time

PAGE = 5000
MOST_PAGES = 200
POLL_SECONDS = 1.0
LAST_LINES_SECONDS = 0.3


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
        return Stream(_follow(call.desk, job_id, asked.attempt))
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


async def _follow(desk: Desk, job: int, attempt: int | None) -> AsyncIterator[bytes]:
    current, after, drained = attempt, -1, False
    while True:
        lines = await desk.store.read_log(job, current, after, PAGE)
        if lines:
            current, after = lines[-1].attempt, lines[-1].number
            yield b"".join(_sse(line) for line in lines)
            continue
        stored = await desk.wait_job(job, POLL_SECONDS)
        if stored.state in ENDED or (attempt is not None and stored.attempt > attempt):
            if drained:
                break
            drained = True  # the last lines may be on their way still
            await asyncio.sleep(LAST_LINES_SECONDS)
        elif current is not None and attempt is None and stored.attempt > current:
            current, after = None, -1
        else:
            yield b": waiting\n\n"
    yield b"event: end\ndata: {}\n\n"


def _sse(line: LogLine) -> bytes:
    data = encode({"at": show_time(line.at), "stream": line.stream, "text": line.text})
    return f"id: {line.attempt}.{line.number}\nevent: log\ndata: ".encode() + data + b"\n\n"


OPERATIONS = [
    Operation(
        "GET", "/v1/jobs/{id}/log", show_log, "Show what a job wrote: text, or events when following",
        query=LogQuery, errors=(404,), media="text/plain",
    ),
]  # fmt: skip
