"""uvicorn's HTTP protocol with bounds it lacks: on the size of headers, and on the time they may take.

What cannot even be parsed as HTTP is answered with problem+json like everything else.
"""

from __future__ import annotations

import asyncio
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from fairway.api.answers import Answer
from fairway.api.joined import JoinedTransport
from fairway.api.problems import problem

MOST_HEADER_BYTES = 32 * 1024
HEADER_SECONDS = 15.0


class BoundedProtocol(HttpToolsProtocol):
    """One connection; closes it when a request's head is too long or takes too long."""

    _head_bytes = 0
    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._joined = JoinedTransport(transport, self.loop)
        self.transport = cast(asyncio.Transport, self._joined)
        self._start_head_timer()

    def handle_websocket_upgrade(self) -> None:
        """From here on each message goes out by itself."""
        self._joined.flush()
        self.transport = self._joined.plain
        super().handle_websocket_upgrade()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_head_timer()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        self._head_bytes = 0
        if self._head_timer is None:
            self._start_head_timer()
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value))
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._stop_head_timer()
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        """Answer what is not HTTP."""
        if self._head_bytes > MOST_HEADER_BYTES:
            answer = problem(431, "headers_too_large", f"at most {MOST_HEADER_BYTES} bytes of headers")
        else:
            answer = problem(400, "bad_http", "this is not an HTTP request that can be read")
        if not self.transport.is_closing():
            self.transport.write(_raw(answer))
            self.transport.close()

    def _count(self, size: int) -> None:
        self._head_bytes += size
        if self._head_bytes > MOST_HEADER_BYTES:
            raise ValueError("headers too large")  # the parser stops, and the error becomes the answer above

    def _start_head_timer(self) -> None:
        self._head_timer = self.loop.call_later(HEADER_SECONDS, self._head_is_late)

    def _stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _head_is_late(self) -> None:
        self._head_timer = None
        if not self.transport.is_closing():
            self.transport.close()


def _raw(answer: Answer) -> bytes:
    status: Any = answer.status
    phrase = "Bad Request" if status == 400 else "Request Header Fields Too Large"
    head = (
        f"HTTP/1.1 {status} {phrase}\r\ncontent-type: {answer.media.decode()}\r\n"
        f"content-length: {len(answer.body)}\r\nconnection: close\r\n\r\n"
    )
    return head.encode() + answer.body
