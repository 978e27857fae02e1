"""The worker socket: one WebSocket per worker, relayed to the node frame by frame.

1. The first frame must be a hello, within ten seconds; its kind (binary or text) sets the language.
2. From then on one task reads and one writes; when either ends, so does the other.
3. Whatever the worker does wrong is answered with a refusal that has a code, then the connection closes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from fairway.api.answers import Receive, Scope, Send
from fairway.api.frames import BadFrame, encoder_for, read_frame
from fairway.desk import Desk, WorkerPort
from fairway.errors import CallerError, WorldError
from fairway.wire.messages import Hello, Refusal, ToWorker

log = logging.getLogger("fairway.api")

PATH = "/v1/worker"
HELLO_SECONDS = 10.0
GOING_AWAY, REFUSED, BROKEN, TRY_LATER = 1001, 1008, 1011, 1013

Encode = Callable[[ToWorker], bytes | str]


class WorkerSocket:
    """The endpoint workers connect to."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["fairway.route"] = PATH
        await receive()  # the connect message
        await send({"type": "websocket.accept"})
        connection = Connection(receive, send)
        try:
            await self._serve(connection)
        except Left:
            pass
        except Exception as error:
            await connection.refuse(error)

    async def _serve(self, connection: Connection) -> None:
        hello = await connection.read_hello()
        port = self._desk.attach_worker()
        try:
            await port.receive(hello)
            await connection.relay(port)
        finally:
            port.closed()


class Left(Exception):
    """The worker closed the connection."""


class Connection:
    """Our end of one worker's WebSocket."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive, self._send = receive, send
        self._encode: Encode = encoder_for(b"")

    async def read_hello(self) -> Hello:
        """Return the first frame, which must be a hello."""
        try:
            async with asyncio.timeout(HELLO_SECONDS):
                frame = await self._next()
        except TimeoutError:
            raise BadFrame(f"no hello within {HELLO_SECONDS:g} s", code="hello_timeout") from None
        self._encode = encoder_for(frame)
        message = read_frame(frame)
        if not isinstance(message, Hello):
            raise BadFrame("the first frame must be a hello", code="hello_first")
        return message

    async def relay(self, port: WorkerPort) -> None:
        """Carry frames both ways until one side ends."""
        tasks = {asyncio.create_task(self._read(port)), asyncio.create_task(self._write(port))}
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            ends = await asyncio.gather(*tasks, return_exceptions=True)
        for end in ends:
            if isinstance(end, Exception):
                raise end

    async def refuse(self, error: Exception) -> None:
        """Say why, then close; the worker may be gone already."""
        refusal, code = _refusal(error)
        with suppress(Exception):
            await self._send_one(refusal)
            await self._send({"type": "websocket.close", "code": code, "reason": refusal.code})

    async def _read(self, port: WorkerPort) -> None:
        while True:
            message = read_frame(await self._next())
            if isinstance(message, Hello):
                raise BadFrame("only the first frame may be a hello")
            await port.receive(message)

    async def _write(self, port: WorkerPort) -> None:
        last: ToWorker | None = None
        async for messages in port.next_frames():
            for last in messages:
                await self._send_one(last)
        await self._send({"type": "websocket.close", "code": _close_code(last)})

    async def _next(self) -> bytes | str:
        message = await self._receive()
        if message["type"] == "websocket.disconnect":
            raise Left
        data: bytes | None = message.get("bytes")
        return message["text"] if data is None else data

    async def _send_one(self, message: ToWorker) -> None:
        frame = self._encode(message)
        kind = "text" if isinstance(frame, str) else "bytes"
        await self._send({"type": "websocket.send", kind: frame})


def _close_code(last: ToWorker | None) -> int:
    if not isinstance(last, Refusal):
        return GOING_AWAY
    return TRY_LATER if last.code == "no_leader" else REFUSED


def _refusal(error: Exception) -> tuple[Refusal, int]:
    if isinstance(error, CallerError):
        return Refusal(error.code, error.detail[:500]), REFUSED
    if isinstance(error, WorldError):
        return Refusal(error.code, str(error)[:500]), TRY_LATER
    log.error("a worker's connection failed", exc_info=error)
    return Refusal("internal", "this is the node's fault; it was logged"), BROKEN
