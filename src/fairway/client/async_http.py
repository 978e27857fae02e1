"""Connections of the asynchronous client: kept alive, some for each event loop.

Plain HTTP/1.1 on asyncio, its answers read by httptools: a small call costs 0.1 ms of client time where
httpx takes 0.8, which a job that waits for nothing else would feel.
"""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from typing import cast
from urllib.parse import SplitResult
from weakref import WeakKeyDictionary

from fairway.client import problems
from fairway.client.connections import MOST_IDLE, is_silent
from fairway.client.exchange import Address, Answer, Reading

#: Waiting for results holds a connection each.
MOST_CONNECTIONS = 1000
#: Of an answer that is read piece by piece: so much may lie here unread.
MOST_UNREAD = 1024 * 1024


class AsyncConnections:
    """Opens connections to one node and keeps idle ones; a loop's connections die with the loop."""

    def __init__(self, url: SplitResult) -> None:
        self._address = Address.of(url)
        self._tls: ssl.SSLContext | None = None
        self._loops: WeakKeyDictionary[asyncio.AbstractEventLoop, _Idle] = WeakKeyDictionary()
        self._changing = threading.Lock()  # loops of several threads come and go

    async def exchange(
        self, method: str, target: str, body: bytes | None, headers: Mapping[str, str], timeout: float
    ) -> Answer:
        """Send one request and read its answer; raises OSError (TimeoutError) when it cannot."""
        request = self._address.write(method, target, body, headers)
        idle = self._idle()
        async with asyncio.timeout(timeout), idle.room:
            connection = idle.lend(idle.take() or await self._connect())
            try:
                answer = await connection.answer(connection.ask(request, method))
            except BaseException:
                connection.close()
                raise
            finally:
                idle.give_back(connection)
            return answer

    async def stream(self, target: str, headers: Mapping[str, str], silence: float) -> AsyncIterator[bytes]:
        """Yield the bytes of an answer that does not end; raises what its status means."""
        request = self._address.write("GET", target, None, {**headers, "connection": "close"})
        idle = self._idle()
        async with asyncio.timeout(silence):
            connection = idle.lend(await self._connect())
        try:
            async with asyncio.timeout(silence):
                reading = connection.ask(request, "GET")
                if await connection.status(reading) != 200:
                    raise problems.error_from(*await connection.answer(reading))
            while True:
                async with asyncio.timeout(silence):
                    piece = await connection.piece(reading)
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
        if self._address.secure and self._tls is None:  # it reads all certificates: 20 ms
            self._tls = await asyncio.to_thread(ssl.create_default_context)
        try:
            _, connection = await asyncio.get_running_loop().create_connection(
                _Connection, self._address.host, self._address.port, ssl=self._tls
            )
        except TimeoutError:
            raise
        except OSError as cause:
            raise ConnectionRefusedError(str(cause) or type(cause).__name__) from cause
        return connection


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
        self._reading: Reading | None = None  # None: nothing was asked
        self._waiter: asyncio.Future[None] | None = None
        self._paused = False

    # --- asking ----------------------------------------------------------------------------------
    @property
    def can_ask(self) -> bool:
        """Whether the next request may be sent on it."""
        return self._error is None and (self._reading is None or self._reading.complete)

    @property
    def is_silent(self) -> bool:
        """Whether nothing has come since the last answer, an end of the connection least of all."""
        socket = self._transport.get_extra_info("socket") if self._transport is not None else None
        return socket is not None and is_silent(socket)

    def ask(self, request: bytes, method: str) -> Reading:
        """Send a request; what comes is read by what is returned."""
        assert self._transport is not None
        reading = self._reading = Reading(method)
        self._transport.write(request)
        return reading

    async def status(self, reading: Reading) -> int:
        """Wait for the head of the answer and return its status."""
        while not reading.status:
            await self._news()
        return reading.status

    async def answer(self, reading: Reading) -> Answer:
        """Wait for the whole answer."""
        while not reading.complete:
            reading.check_size()
            reading.unread = 0  # all of it is wanted
            self._resume()
            await self._news()
        if not reading.stays:
            self.close()
        return reading.whole()

    async def piece(self, reading: Reading) -> bytes:
        """Wait for the next piece of the answer; none is its end."""
        while not reading.pieces:
            if reading.complete:
                return b""
            await self._news()
        piece = reading.take_piece()
        if reading.unread <= MOST_UNREAD:
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
        self._waiter = asyncio.get_running_loop().create_future()
        await self._waiter

    def _resume(self) -> None:
        if self._paused and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()

    # --- what the loop tells -----------------------------------------------------------------------
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        reading = self._reading
        if reading is None or reading.complete:  # to nothing we asked
            self.close()
            return
        try:
            reading.feed(data)
        except ConnectionResetError as error:
            self._error = error
            self.close()
        self._changed()
        if reading.unread > MOST_UNREAD and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()

    def eof_received(self) -> None:
        if self._reading is not None:
            self._reading.end()

    def connection_lost(self, error: Exception | None) -> None:
        if self._error is None:
            self._error = ConnectionResetError(str(error) if error else "the node closed the connection")
        self._changed()

    def _changed(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
