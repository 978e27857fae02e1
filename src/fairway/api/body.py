"""Bodies: read with a bound on size and time, and only if they are plain JSON."""

from __future__ import annotations

import asyncio

from fairway.api.answers import Receive
from fairway.api.problems import Turned
from fairway.errors import InvalidRequest
from fairway.strict import strict_json

MOST_BYTES = 2 * 1024 * 1024
MOST_BULK_BYTES = 16 * 1024 * 1024
READ_SECONDS = 30.0


class Gone(Exception):
    """The client went away in the middle of its request; there is nobody to answer."""


async def read_body(headers: dict[bytes, bytes], receive: Receive, most: int) -> bytes:
    """Return the body, refusing it by its headers where they tell enough."""
    check_length(headers, most)
    check_type(headers)
    return await _read_in_time(receive, most)


async def _read_in_time(receive: Receive, most: int) -> bytes:
    try:
        async with asyncio.timeout(READ_SECONDS):
            return await _read_parts(receive, most)
    except TimeoutError:
        raise Turned(408, "slow_body", f"the body did not arrive within {READ_SECONDS:g} s") from None


async def refuse_body(headers: dict[bytes, bytes], receive: Receive) -> None:
    """Refuse a body where none is asked for; clients that always send one send `{}`."""
    if b"transfer-encoding" not in headers and headers.get(b"content-length", b"0") == b"0":
        return  # nothing comes: nearly every call, and its content type says nothing
    check_length(headers, MOST_BYTES)
    body = await _read_in_time(receive, MOST_BYTES)
    if body:  # a proxy may send none in chunks
        check_type(headers)
        if strict_json(body) != {}:
            raise InvalidRequest("this call takes no body; send none, or {}")


def check_length(headers: dict[bytes, bytes], most: int) -> None:
    """Refuse a body that says itself that it is too large, before reading it."""
    length = headers.get(b"content-length", b"0")
    if not length.isdigit():
        raise Turned(400, "bad_length", "Content-Length is not a number")
    if len(length) > 12 or int(length) > most:
        raise _too_large(most)


def check_type(headers: dict[bytes, bytes]) -> None:
    """Refuse what is not uncompressed JSON in UTF-8."""
    coding = headers.get(b"content-encoding", b"identity").strip().lower()
    if coding not in (b"identity", b""):
        raise Turned(400, "compressed_body", "send the body uncompressed, without Content-Encoding")
    media = headers.get(b"content-type", b"")
    if media != b"application/json" and not _is_json(media):
        raise Turned(415, "not_json", "send a JSON body with Content-Type: application/json")


def _is_json(media: bytes) -> bool:
    name, _, parameters = media.lower().partition(b";")
    charset = parameters.replace(b" ", b"").replace(b'"', b"")
    return name.strip() == b"application/json" and charset in (b"", b"charset=utf-8", b"charset=utf8")


async def _read_parts(receive: Receive, most: int) -> bytes:
    body, more = await _next(receive)
    while more and len(body) <= most:
        part, more = await _next(receive)
        body += part
    if len(body) > most:
        raise _too_large(most)
    return bytes(body)


async def _next(receive: Receive) -> tuple[bytes | bytearray, bool]:
    message = await receive()
    if message["type"] == "http.disconnect":
        raise Gone
    more = message.get("more_body", False)
    body = message.get("body", b"")
    # Growing bytes part by part would copy a large body hundreds of times.
    return (bytearray(body) if more else body), more


def _too_large(most: int) -> Turned:
    return Turned(413, "too_large", f"the body is too large; at most {most} bytes are allowed here")
