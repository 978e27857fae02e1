"""One exchange over HTTP/1.1 without IO: a request as bytes, its answer from bytes as they come.

What both clients, with and without an event loop, have in common. Answers are read by httptools.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import SplitResult, quote

import httptools

from fairway.errors import InvalidRequest

#: An answer larger than this is refused.
MOST_BYTES = 256 * 1024 * 1024
#: The head of an answer, all its headers together.
MOST_HEAD = 64 * 1024

_plain = re.compile(r"[!-~]+")


class Answer(NamedTuple):
    """An answer, read whole. Header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Address(NamedTuple):
    """Where a node listens, and how it is called there."""

    host: str
    port: int
    secure: bool
    name: str  # the Host header

    @classmethod
    def of(cls, url: SplitResult) -> Address:
        """Read the address of a URL."""
        host, secure = url.hostname or "", url.scheme == "https"
        name = f"[{host}]" if ":" in host else host
        port = url.port or (443 if secure else 80)
        return cls(host, port, secure, name if url.port is None else f"{name}:{url.port}")

    def write(self, method: str, target: str, body: bytes | None, headers: Mapping[str, str]) -> bytes:
        """Return a request as it is sent."""
        if not _plain.fullmatch(target):
            target = quote(target, safe="!#$%&'()*+,/:;=?@[]~")
        lines = [f"{method} {target} HTTP/1.1", f"host: {self.name}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if body is not None or method in ("POST", "PUT", "PATCH"):
            lines.append(f"content-length: {len(body or b'')}")
        head = "\r\n".join([*lines, "", ""])
        ends = len(lines) + 1
        if head.count("\n") != ends or head.count("\r") != ends or "\0" in head or not head.isascii():
            raise InvalidRequest("an address, a token or a header has a character that none may have")
        return head.encode() + (body or b"")


class Reading:
    """The answer to one request, as far as it has come. Owned by the connection that it comes on."""

    def __init__(self, method: str) -> None:
        self.status = 0  # until its head was read
        self.headers: dict[str, str] = {}
        self.pieces: deque[bytes] = deque()
        self.unread = 0  # bytes of the pieces
        self.complete = False
        self.stays = False  # whether another request may follow on the same connection
        self._method = method
        self._bytes = self._head_bytes = 0
        self._parser = httptools.HttpResponseParser(self)

    def feed(self, data: bytes) -> None:
        """Take what has come; raises ConnectionResetError if that is no answer, or too large a one."""
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            raise ConnectionResetError(f"what came is not HTTP, or more than an answer: {error}") from error
        if not self.status:
            self._head_bytes += len(data)
            if self._head_bytes > MOST_HEAD:
                raise ConnectionResetError(f"an answer with more than {MOST_HEAD} bytes of headers")

    def end(self) -> None:
        """Nothing more will come: some answers end with their connection."""
        if self.status and not self.headers.keys() & {"content-length", "transfer-encoding"}:
            self.complete = True

    def check_size(self) -> None:
        """Refuse an answer that is too large to be read whole."""
        if self._bytes > MOST_BYTES:
            raise ConnectionResetError(f"an answer of more than {MOST_BYTES} bytes")

    def take_piece(self) -> bytes:
        """Take the next piece; there must be one."""
        piece = self.pieces.popleft()
        self.unread -= len(piece)
        return piece

    def whole(self) -> Answer:
        """Return the answer; it must be complete."""
        return Answer(self.status, self.headers, b"".join(self.pieces))

    # --- what the parser tells -----------------------------------------------------------------------
    def on_message_begin(self) -> None:
        if self.complete:  # two answers to one question: whoever sends that cannot be asked again
            self.stays = False

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self.complete:
            self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status >= 200 and not self.complete:
            self.status, self.stays = status, self._parser.should_keep_alive()
            if self._method == "HEAD":  # whatever length it names, nothing follows; the parser waits for it
                self.complete, self.stays = True, False

    def on_body(self, body: bytes) -> None:
        if self.complete:
            return
        self.pieces.append(body)
        self.unread += len(body)
        self._bytes += len(body)

    def on_message_complete(self) -> None:
        if self.status:
            self.complete = True
        else:
            self.headers.clear()  # 100 to 199: the answer is still to come
