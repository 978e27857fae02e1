"""A connection to a node over a WebSocket: one message a frame, msgpack in binary frames."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from itertools import count
from urllib.parse import urlsplit, urlunsplit

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException

from fairway.wire.messages import MOST_BYTES, FromWorker, ToWorker
from fairway.worker.transport import Disconnected

OPEN_SECONDS = 5.0
_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[ToWorker] = msgspec.msgpack.Decoder(ToWorker)


class SocketTransport:
    """One WebSocket."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection

    async def send(self, messages: Sequence[FromWorker]) -> None:
        """Send each message as a frame."""
        try:
            for message in messages:
                await self._connection.send(_encoder.encode(message))
        except (WebSocketException, OSError) as error:
            raise Disconnected(str(error)) from error

    async def receive(self) -> Sequence[ToWorker]:
        """Wait for the next frame."""
        try:
            frame = await self._connection.recv()
            return [_decoder.decode(frame if isinstance(frame, bytes) else frame.encode())]
        except msgspec.MsgspecError as error:
            raise Disconnected(f"the node sent what is not a message: {error}") from error
        except (WebSocketException, OSError) as error:
            raise Disconnected(str(error)) from error

    async def close(self) -> None:
        """Close the socket."""
        try:
            await self._connection.close()
        except (WebSocketException, OSError):
            return


def connector(urls: Sequence[str]) -> Callable[[], Awaitable[SocketTransport]]:
    """Return a way to connect that tries one URL after the other, a new one at each call."""
    addresses = [address_of(url) for url in urls]
    turn = count()

    async def open_one() -> SocketTransport:
        address = addresses[next(turn) % len(addresses)]
        try:
            # No compression: results are small, and it would cost more than all the rest of a job.
            connection = await connect(
                address,
                max_size=MOST_BYTES,
                open_timeout=OPEN_SECONDS,
                close_timeout=1.0,
                compression=None,
                proxy=None,
            )
        except (WebSocketException, OSError, TimeoutError) as error:
            raise Disconnected(f"{address}: {error}") from error
        return SocketTransport(connection)

    return open_one


def address_of(url: str) -> str:
    """Return the WebSocket address of a node's URL."""
    parts = urlsplit(url if "//" in url else f"http://{url}")
    scheme = {"http": "ws", "https": "wss"}.get(parts.scheme, parts.scheme)
    path = parts.path.rstrip("/")
    if not path.endswith("/v1/worker"):
        path += "/v1/worker"
    return urlunsplit((scheme, parts.netloc, path, "", ""))
