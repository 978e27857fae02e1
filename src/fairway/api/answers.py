"""Answers: what a call gives back, and how it goes onto the wire.

Responses are built as raw ASGI messages: a response object of a framework costs more than the call.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from typing import Any, NamedTuple

import msgspec

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Header = tuple[bytes, bytes]

JSON = b"application/json"
TEXT = b"text/plain; charset=utf-8"
SSE = b"text/event-stream"

#: Answers are private, change all the time, and are never to be guessed at by a browser.
ALWAYS: tuple[Header, ...] = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))

encode = msgspec.json.Encoder().encode


class Answer(NamedTuple):
    """A whole answer."""

    status: int
    body: bytes
    media: bytes = JSON
    headers: tuple[Header, ...] = ()


class Stream(NamedTuple):
    """An answer that goes on until either side has had enough."""

    chunks: AsyncIterator[bytes]
    media: bytes = SSE


def answer_json(value: object, status: int = 200, *headers: Header) -> Answer:
    """Answer with a value."""
    return Answer(status, encode(value), JSON, headers)


async def send_answer(send: Send, answer: Answer) -> None:
    """Send a whole answer."""
    headers = [*ALWAYS, *answer.headers]
    if answer.status != 204:
        headers += ((b"content-type", answer.media), (b"content-length", b"%d" % len(answer.body)))
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})
