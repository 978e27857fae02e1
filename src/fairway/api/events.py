"""Events as they happen: server-sent, numbered, resumable."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import msgspec

from fairway.api.answers import Answer, Stream, encode
from fairway.api.operation import Call, Operation
from fairway.desk import Desk
from fairway.errors import InvalidRequest
from fairway.query import Query, matches_event, parse_for_events
from fairway.store import NumberedEvent
from fairway.views import event_view

_id = re.compile(r"\d{1,18}\.\d{1,9}", re.ASCII)


class EventsQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Which events, and behind which id (else from now on)."""

    q: str = ""
    after: str | None = None


async def watch(call: Call) -> Answer | Stream:
    """Send events until the client goes."""
    asked: EventsQuery = call.query
    query = parse_for_events(asked.q)
    return Stream(_frames(call.desk, query, _after(call, asked)))


def _after(call: Call, asked: EventsQuery) -> str | None:
    """A browser that reconnects names the last id it saw in a header, which is newer than the URL's."""
    header = call.headers.get(b"last-event-id")
    after = asked.after if header is None else header.decode("latin-1")
    if after is not None and not _id.fullmatch(after):
        raise InvalidRequest("an event id has the form number.index, such as 17.0", field="after")
    return after


async def _frames(desk: Desk, query: Query, after: str | None) -> AsyncIterator[bytes]:
    yield b": hello\n\n"
    async for events in desk.events(after):
        if events is None:
            yield b": ping\n\n"
            continue
        chosen = [_sse(one) for one in events if one.event.kind == "gap" or matches_event(query, one.event)]
        if chosen:
            yield b"".join(chosen)


def _sse(numbered: NumberedEvent) -> bytes:
    head = f"id: {numbered.number}.{numbered.offset}\nevent: {numbered.event.kind}\ndata: "
    return head.encode() + encode(event_view(numbered)) + b"\n\n"


OPERATIONS = [
    Operation(
        "GET", "/v1/events", watch, "Watch events as they happen",
        query=EventsQuery, media="text/event-stream",
        headers=(("Last-Event-ID", "go on behind this event"),),
    ),
]  # fmt: skip
