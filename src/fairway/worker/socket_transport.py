"""A connection to a node over a WebSocket: one message a frame, msgpack in binary frames.

A worker knows several nodes: those it was given, and those the cluster told it of. It tries them in turn, so
that the end of the one it joined through costs it a moment and none of its jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypedDict
from urllib.parse import urlsplit, urlunsplit

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus, WebSocketException

from fairway.names import check_token
from fairway.wire.messages import MOST_BYTES, FromWorker, ToWorker
from fairway.worker.transport import Disconnected, NotAdmitted


class Keepalive(TypedDict):
    """How an open WebSocket is watched."""

    open_timeout: float
    close_timeout: float
    ping_interval: float
    ping_timeout: float


#: A node that vanished without a word is noticed before the next leader is elected (its TTL is 5 s), and
#: with time left, of a lease of 10 s, to try others.
KEEPALIVE: Keepalive = {
    "open_timeout": 2.0, "close_timeout": 1.0, "ping_interval": 1.0, "ping_timeout": 2.5,
}  # fmt: skip
#: More nodes than this need not be known.
MOST_NODES = 100
NO_TOKEN = "the node wants a token: set FAIRWAY_TOKEN"
WRONG_TOKEN = "the node does not accept this token: set FAIRWAY_TOKEN as the node has it"

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

    def give_straight(self, give: Callable[[list[ToWorker]], None]) -> None:
        """Nothing comes from here but frames."""

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


class Connector:
    """Opens connections to the nodes it knows, a new one at each call: those given, then those learned."""

    def __init__(self, given: Sequence[str], token: str | None = None) -> None:
        self._given = [address_of(url) for url in given]
        self._learned: list[str] = []
        self._headers = {"authorization": f"Bearer {token}"} if check_token(token) else {}
        self._turn = 0

    def learn(self, urls: Sequence[str]) -> None:
        """The cluster says where else it can be reached."""
        self._learned = [address_of(url) for url in urls[:MOST_NODES]]

    @property
    def addresses(self) -> list[str]:
        """Every address known, each once."""
        return list(dict.fromkeys([*self._given, *self._learned]))

    async def __call__(self) -> SocketTransport:
        """Try the next one; raises Disconnected if it does not answer."""
        addresses = self.addresses
        address = addresses[self._turn % len(addresses)]
        self._turn += 1
        return await open_transport(address, self._headers)


def connector(urls: Sequence[str], token: str | None = None) -> Connector:
    """Return a way to connect to one of these nodes."""
    return Connector(urls, token)


async def open_transport(address: str, headers: Mapping[str, str]) -> SocketTransport:
    """Open one WebSocket; raises Disconnected if it cannot."""
    try:
        # No compression: results are small, and it would cost more than all the rest of a job.
        connection = await connect(
            address,
            additional_headers=headers,
            max_size=MOST_BYTES,
            compression=None,
            proxy=None,
            **KEEPALIVE,
        )
    except (WebSocketException, OSError, TimeoutError) as error:
        if isinstance(error, InvalidStatus) and error.response.status_code == 401:
            raise NotAdmitted(WRONG_TOKEN if "authorization" in headers else NO_TOKEN, address) from error
        raise Disconnected(f"{address}: {error}") from error
    return SocketTransport(connection)


def address_of(url: str) -> str:
    """Return the WebSocket address of a node's URL."""
    parts = urlsplit(url if "//" in url else f"http://{url}")
    scheme = {"http": "ws", "https": "wss"}.get(parts.scheme, parts.scheme)
    path = parts.path.rstrip("/")
    if not path.endswith("/v1/worker"):
        path += "/v1/worker"
    return urlunsplit((scheme, parts.netloc, path, "", ""))
