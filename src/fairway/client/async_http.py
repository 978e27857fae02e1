"""Connections of the asynchronous client: kept alive, some for each event loop.

Plain HTTP/1.1 on asyncio, its answers read by httptools: a small call costs 0.1 ms of client time where
httpx takes 0.8, which a job that waits for nothing else would feel.
"""

from __future__ import annotations

import asyncio
import re
import ssl
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from typing import cast
from urllib.parse import SplitResult, quote
from weakref import WeakKeyDictionary

import httptools

from fairway.client import problems
from fairway.client.connections import MOST_BYTES, MOST_IDLE, Answer, is_silent
from fairway.errors import InvalidRequest

#: Waiting for results holds a connection each.
MOST_CONNECTIONS = 1000
#: Of an answer that is read piece by piece: so much may lie here unread.
MOST_UNREAD = 1024 * 1024
#: The head of an answer, all its headers together.
MOST_HEAD = 64 * 1024

_plain = re.compile(r"[!-~]+")
_broken = re.compile(r"[\r\n\0]")


class AsyncConnections:
    """Opens connections to one node and keeps idle ones; a loop's connections die with the loop."""

    def __init__(self, url: SplitResult) -> None:
        self._host = url.hostname or ""
        self._port = url.port or (443 if url.scheme == "https" else 80)
        self._secure = url.scheme == "https"
        self._tls: ssl.SSLContext | None = None
        name = f"[{self._host}]" if ":" in self._host else self._host
        self._name = name if url.port is None else f"{name}:{url.port}"
        self._loops: WeakKeyDictionary[asyncio.AbstractEventLoop, _Idle] = WeakKeyDictionary()
        self._changing = threading.Lock()  # loops of several threads come and go

    async def exchange(
        self, method: str, target: str, body: bytes | None, headers: Mapping[str, str], timeout: float
    ) -> Answer:
        """Send one request and read its answer; raises OSError (TimeoutError) when it cannot."""
        request = self._written(method, target, body, headers)
        idle = self._idle()
        async with asyncio.timeout(timeout), idle.room:
            connection = idle.lend(idle.take() or await self._connect())
            try:
                connection.ask(request, method)
                answer = await connection.answer()
            except BaseException:
                connection.close()
                raise
            finally:
                idle.give_back(connection)
            return answer

    async def stream(self, target: str, headers: Mapping[str, str], silence: float) -> AsyncIterator[bytes]:
        """Yield the bytes of an answer that does not end; raises what its status means."""
        request = self._written("GET", target, None, {**headers, "connection": "close"})
        idle = self._idle()
        async with asyncio.timeout(silence):
            connection = idle.lend(await self._connect())
        try:
            async with asyncio.timeout(silence):
                connection.ask(request, "GET")
                status = await connection.status()
                if status != 200:
                    answer = await connection.answer()
                    raise problems.error_from(answer.status, answer.headers, answer.body)
            while True:
                async with asyncio.timeout(silence):
                    piece = await connection.piece()
                if not piece:
                    return
                yield piece
        finally:
            connection.close()
            idle.give_back(connection)

    def close(self) -> None:
        """Close the connections of every loop that still runs, those in use when they come back."""
        for loop, idle in self._forget():
            _tell(loop, idle.close)

    def cut(self) -> None:
        """Close those in use, too: whoever waits for an answer hears that none will come."""
        for loop, idle in self._forget():
            _tell(loop, idle.cut)

    def _forget(self) -> list[tuple[asyncio.AbstractEventLoop, _Idle]]:
        with self._changing:
            loops, self._loops = list(self._loops.items()), WeakKeyDictionary()
        return loops

    def _idle(self) -> _Idle:
        loop = asyncio.get_running_loop()
        idle = self._loops.get(loop)
        if idle is None:
            with self._changing:
                for other in [other for other in self._loops if other.is_closed()]:
                    del self._loops[other]
                idle = self._loops[loop] = _Idle()
        return idle

    async def _connect(self) -> _Connection:
        if self._secure and self._tls is None:  # it reads all certificates: 20 ms
            self._tls = await asyncio.to_thread(ssl.create_default_context)
        try:
            _, connection = await asyncio.get_running_loop().create_connection(
                _Connection, self._host, self._port, ssl=self._tls
            )
        except TimeoutError:
            raise
        except OSError as cause:
            raise ConnectionRefusedError(str(cause) or type(cause).__name__) from cause
        return connection

    def _written(self, method: str, target: str, body: bytes | None, headers: Mapping[str, str]) -> bytes:
        """Return a request as it is sent."""
        if not _plain.fullmatch(target):
            target = quote(target, safe="!#$%&'()*+,/:;=?@[]~")
        lines = [f"{method} {target} HTTP/1.1", f"host: {self._name}"]
        lines += (f"{name}: {value}" for name, value in headers.items())
        if body is not None or method in ("POST", "PUT", "PATCH"):
            lines.append(f"content-length: {len(body or b'')}")
        head = "\r\n".join([*lines, "", ""])
        if any(_broken.search(line) for line in lines) or not head.isascii():
            raise InvalidRequest("an address, a token or a header has a character that none may have")
        return head.encode() + (body or b"")


def _tell(loop: asyncio.AbstractEventLoop, word: Callable[[], None]) -> None:
    """Do something in a loop's own thread."""
    if loop is asyncio._get_running_loop():
        word()
    else:
        with suppress(RuntimeError):  # it is closed, and its connections with it
            loop.call_soon_threadsafe(word)


class _Idle:
    """The connections of one event loop: the idle ones, those in use, how many there may be in all."""

    def __init__(self) -> None:
        self.room = asyncio.Semaphore(MOST_CONNECTIONS)
        self._connections: list[_Connection] = []
        self._lent: set[_Connection] = set()
        self._closed = False

    def take(self) -> _Connection | None:
        """Return the one used last, if one is still open."""
        while self._connections:
            connection = self._connections.pop()
            if connection.can_ask and connection.is_silent:
                return connection
            connection.close()
        return None

    def lend(self, connection: _Connection) -> _Connection:
        """Note that a connection is in use."""
        self._lent.add(connection)
        return connection

    def give_back(self, connection: _Connection) -> None:
        """Keep a connection for the next call, if it can be used again."""
        self._lent.discard(connection)
        if connection.can_ask and len(self._connections) < MOST_IDLE and not self._closed:
            self._connections.append(connection)
        else:
            connection.close()

    def close(self) -> None:
        """Close them, and those that are still to come back."""
        self._closed = True
        while self._connections:
            self._connections.pop().close()

    def cut(self) -> None:
        """Close those in use, too."""
        self.close()
        for connection in self._lent:
            connection.close()


class _Connection(asyncio.Protocol):
    """One connection: one request at a time, its answer read whole or piece by piece."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._error: Exception | None = None  # why it is over
        self._changed = asyncio.Event()
        self._begin()
        self._complete = True  # nothing was asked

    def _begin(self, method: str = "") -> None:
        self._method = method
        self._parser = httptools.HttpResponseParser(self)
        self._status = 0  # until its head was read
        self._headers: dict[str, str] = {}
        self._pieces: deque[bytes] = deque()
        self._unread, self._bytes, self._head_bytes = 0, 0, 0
        self._complete = self._stays = self._paused = False

    # --- asking ----------------------------------------------------------------------------------
    @property
    def can_ask(self) -> bool:
        """Whether the next request may be sent on it."""
        return self._error is None and self._complete

    @property
    def is_silent(self) -> bool:
        """Whether nothing has come since the last answer, an end of the connection least of all."""
        socket = self._transport.get_extra_info("socket") if self._transport is not None else None
        return socket is not None and is_silent(socket)

    def ask(self, request: bytes, method: str) -> None:
        """Send a request."""
        assert self._transport is not None
        self._begin(method)
        self._transport.write(request)

    async def status(self) -> int:
        """Wait for the head of the answer and return its status."""
        while not self._status:
            await self._news()
        return self._status

    async def answer(self) -> Answer:
        """Wait for the whole answer."""
        while not self._complete:
            if self._bytes > MOST_BYTES:
                raise ConnectionResetError(f"an answer of more than {MOST_BYTES} bytes")
            self._unread = 0  # all of it is wanted
            self._resume()
            await self._news()
        if not self._stays:
            self.close()
        return Answer(self._status, self._headers, b"".join(self._pieces))

    async def piece(self) -> bytes:
        """Wait for the next piece of the answer; none is its end."""
        while not self._pieces:
            if self._complete:
                return b""
            await self._news()
        piece = self._pieces.popleft()
        self._unread -= len(piece)
        self._resume()
        return piece

    def close(self) -> None:
        """Give it up."""
        self._error = self._error or ConnectionResetError("the connection was closed")
        if self._transport is not None:
            self._transport.abort()

    async def _news(self) -> None:
        if self._error is not None:
            raise self._error
        self._changed.clear()
        await self._changed.wait()

    def _resume(self) -> None:
        if self._paused and self._unread <= MOST_UNREAD and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()

    # --- what the loop tells -----------------------------------------------------------------------
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self._complete:  # to nothing we asked
            self.close()
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._error = ConnectionResetError(f"what came is not HTTP, or more than an answer: {error}")
            self.close()
        if not self._status:
            self._head_bytes += len(data)
            if self._head_bytes > MOST_HEAD:
                self._error = ConnectionResetError(f"an answer with more than {MOST_HEAD} bytes of headers")
                self.close()
        self._changed.set()
        if self._unread > MOST_UNREAD and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()

    def eof_received(self) -> None:
        if self._status and not self._headers.keys() & {"content-length", "transfer-encoding"}:
            self._complete = True  # such an answer ends with its connection

    def connection_lost(self, error: Exception | None) -> None:
        if self._error is None:
            self._error = ConnectionResetError(str(error) if error else "the node closed the connection")
        self._changed.set()

    # --- what the parser tells -----------------------------------------------------------------------
    def on_message_begin(self) -> None:
        if self._complete:  # two answers to one question: whoever sends that cannot be asked again
            self._stays = False

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._complete:
            self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status >= 200 and not self._complete:
            self._status, self._stays = status, self._parser.should_keep_alive()
            if self._method == "HEAD":  # whatever length it names, nothing follows; the parser waits for it
                self._complete, self._stays = True, False

    def on_body(self, body: bytes) -> None:
        if self._complete:
            return
        self._pieces.append(body)
        self._unread += len(body)
        self._bytes += len(body)

    def on_message_complete(self) -> None:
        if self._status:
            self._complete = True
        else:
            self._headers.clear()  # 100 to 199: the answer is still to come
