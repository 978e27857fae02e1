"""Streams: answers without an end, which stop when the client goes or the server closes.

Owned by one Api; a stream's pump is a task so that it can be stopped between two chunks, and its response
is then ended properly.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from fairway.api.answers import ALWAYS, Receive, Send, Stream


class Streams:
    """The streams that are open now."""

    def __init__(self) -> None:
        self._pumps: set[asyncio.Task[None]] = set()
        self._closed = False

    def __len__(self) -> int:
        return len(self._pumps)

    async def serve(self, stream: Stream, receive: Receive, send: Send) -> None:
        """Send chunks until they end, the client goes, or the server closes."""
        headers = [(b"content-type", stream.media), *ALWAYS, (b"x-accel-buffering", b"no")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await self._pump_until_gone(stream, receive, send)
        await send({"type": "http.response.body", "body": b""})

    def close(self) -> None:
        """End all streams, now and from now on."""
        self._closed = True
        for pump in self._pumps:
            pump.cancel()

    async def _pump_until_gone(self, stream: Stream, receive: Receive, send: Send) -> None:
        pump = asyncio.create_task(_pump(stream, send))
        gone = asyncio.create_task(_wait_until_gone(receive))
        self._pumps.add(pump)
        if self._closed:
            pump.cancel()
        try:
            await asyncio.wait({pump, gone}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._pumps.discard(pump)
            await _stop(gone)
            await _stop(pump)


async def _pump(stream: Stream, send: Send) -> None:
    try:
        async for chunk in stream.chunks:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
    finally:
        close = getattr(stream.chunks, "aclose", None)
        if close is not None:
            await close()


async def _wait_until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _stop(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
