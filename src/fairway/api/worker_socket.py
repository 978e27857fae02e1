"""The worker socket: one WebSocket per worker, relayed to the node frame by frame.

1. The first frame must be a hello, within ten seconds; its kind (binary or text) sets the language.
2. From then on one task reads and one writes; when either ends, so does the other. On a node that does not
   lead, frames pass to the leader's node and back as they are.
3. Whatever the worker does wrong is answered with a refusal that has a code, then the connection closes. But
   what its jobs' code says wrongly of itself is only left out, counted, and logged once a connection.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from fairway.api.answers import Receive, Scope, Send
from fairway.api.frames import BadFrame, encoder_for, read_frame
from fairway.api.tally import Tally
from fairway.desk import RELAYED, Desk, Tunnel, WorkerPort
from fairway.errors import CallerError, WorldError
from fairway.wire.messages import Hello, Refusal, ToWorker

log = logging.getLogger("fairway.api")

PATH = "/v1/worker"
HELLO_SECONDS = 10.0
GOING_AWAY, REFUSED, BROKEN, TRY_LATER = 1001, 1008, 1011, 1013

_relayed = RELAYED.encode()

Encode = Callable[[ToWorker], bytes | str]


class WorkerSocket:
    """The endpoint workers connect to."""

    def __init__(self, desk: Desk, tally: Tally) -> None:
        self._desk, self._tally = desk, tally

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["fairway.route"] = PATH
        await receive()  # the connect message
        await send({"type": "websocket.accept"})
        connection = Connection(receive, send, self._tally)
        try:
            await self._serve(connection, _relayed in dict(scope["headers"]))
        except Left:
            pass
        except Exception as error:
            await connection.refuse(error)

    async def _serve(self, connection: Connection, relayed: bool) -> None:
        hello = await connection.read_hello()
        tunnel = None if relayed else await self._desk.open_tunnel()
        if tunnel is not None:
            await connection.pass_through(tunnel)
            return
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

    def __init__(self, receive: Receive, send: Send, tally: Tally) -> None:
        self._receive, self._send, self._tally = receive, send, tally
        self._worker = ""
        self._has_complained = False
        self._encode: Encode = encoder_for(b"")
        self._first: bytes | str = b""

    async def read_hello(self) -> Hello:
        """Return the first frame, which must be a hello."""
        try:
            async with asyncio.timeout(HELLO_SECONDS):
                frame = await self._next()
        except TimeoutError:
            raise BadFrame(f"no hello within {HELLO_SECONDS:g} s", code="hello_timeout") from None
        self._encode, self._first = encoder_for(frame), frame
        message = read_frame(frame)
        if not isinstance(message, Hello):
            raise BadFrame("the first frame must be a hello", code="hello_first")
        self._worker = message.name
        return message

    async def relay(self, port: WorkerPort) -> None:
        """Carry frames both ways until one side ends."""
        await _until_first(self._read(port), self._write(port))

    async def pass_through(self, tunnel: Tunnel) -> None:
        """Carry frames both ways as they are, until one side ends or another node leads."""
        try:
            await tunnel.send(self._first)
            await _until_first(self._pass_up(tunnel), self._pass_down(tunnel), tunnel.until_over())
            await self._send({"type": "websocket.close", "code": GOING_AWAY})
        finally:
            await tunnel.close()

    async def refuse(self, error: Exception) -> None:
        """Say why, then close; the worker may be gone already."""
        refusal, code = _refusal(error)
        with suppress(Exception):
            await self._send_one(refusal)
            await self._send({"type": "websocket.close", "code": code, "reason": refusal.code})

    async def _read(self, port: WorkerPort) -> None:
        while True:
            message = read_frame(await self._next(), self._drop_note)
            if isinstance(message, Hello):
                raise BadFrame("only the first frame may be a hello")
            await port.receive(message)

    def _drop_note(self, error: CallerError) -> None:
        self._tally.bad_notes += 1
        if not self._has_complained:
            self._has_complained = True
            log.warning("a worker's note is left out", extra={"worker": self._worker, "why": error.detail})

    async def _write(self, port: WorkerPort) -> None:
        last: ToWorker | None = None
        async for messages in port.next_frames():
            for last in messages:
                await self._send_one(last)
        await self._send({"type": "websocket.close", "code": _close_code(last)})

    async def _pass_up(self, tunnel: Tunnel) -> None:
        while True:
            await tunnel.send(await self._next())

    async def _pass_down(self, tunnel: Tunnel) -> None:
        while True:
            await self._send_frame(await tunnel.receive())

    async def _next(self) -> bytes | str:
        message = await self._receive()
        if message["type"] == "websocket.disconnect":
            raise Left
        data: bytes | None = message.get("bytes")
        return message["text"] if data is None else data

    async def _send_one(self, message: ToWorker) -> None:
        await self._send_frame(self._encode(message))

    async def _send_frame(self, frame: bytes | str) -> None:
        kind = "text" if isinstance(frame, str) else "bytes"
        await self._send({"type": "websocket.send", kind: frame})


async def _until_first(*duties: Coroutine[Any, Any, None]) -> None:
    """Do all of these until one ends, then none; raise what went wrong."""
    tasks = {asyncio.create_task(duty) for duty in duties}
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
    for end in ends:
        if isinstance(end, Exception):
            raise end


def _close_code(last: ToWorker | None) -> int:
    if not isinstance(last, Refusal):
        return GOING_AWAY
    return TRY_LATER if last.code == "no_leader" else REFUSED


def _refusal(error: Exception) -> tuple[Refusal, int]:
    if isinstance(error, CallerError):
        return Refusal(error.code, error.detail[:500]), REFUSED
    if isinstance(error, WorldError):
        return Refusal(error.code, str(error)[:500]), TRY_LATER
    if isinstance(error, OSError):  # it went while we spoke
        return Refusal("gone", "the connection is gone"), GOING_AWAY
    log.error("a worker's connection failed", exc_info=error)
    return Refusal("internal", "this is the node's fault; it was logged"), BROKEN
