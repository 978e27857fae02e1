"""Relaying: what only the leader can answer is put to its node, so that any node serves anything.

A question is passed on as it came, with a mark: a node that gets a marked one and does not lead answers so
itself, hence nothing goes in circles. What broke before anything was sent is NoLeader; what broke later is
Unanswered, since nobody can know whether it was done.

A worker's stream is continued by a WebSocket of our own to the leader's node: frames pass as they are, in
order, each sent before the next is read, so a slow end slows the other. When one end closes, or another node
leads, both are closed; the worker comes back with a hello.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus, WebSocketException

from fairway.desk import RELAYED, Question, Reply
from fairway.errors import NoLeader, Unanswered
from fairway.node.link import REFUSES_US, Link, bearer, prefix_of, refusal
from fairway.store import Leadership
from fairway.wire.messages import MOST_BYTES
from fairway.worker.socket_transport import KEEPALIVE, address_of

LINK_SECONDS = 1.0
LEADER_SECONDS = 5.0
RING_SECONDS = 1.0


class Relay:
    """Puts questions and workers' streams to the leader's node."""

    def __init__(self, link: Link, name: str, token: str | None) -> None:
        self._link = link
        self._headers = bearer(token) | {RELAYED: name}
        self._rung = False
        self._ringing: asyncio.Task[None] | None = None

    async def pass_on(self, question: Question, timeout: float) -> Reply:
        """Put a question to the leader's node and return its answer."""
        leader = await self._link.until_up(LINK_SECONDS)
        try:
            async with asyncio.timeout(timeout):
                reply = Reply(*await self._exchange(leader, question, timeout))
        except ConnectionRefusedError as error:
            raise NoLeader(f"{_name(leader)} cannot be reached: {error}") from None
        except OSError as error:  # a time that is over as well
            why = str(error) or "in time"
            raise Unanswered(f"{_name(leader)} did not answer ({why}); it may have been done") from None
        if reply.status in REFUSES_US:
            raise NoLeader(refusal(leader, reply.status))
        return reply

    def ring(self) -> None:
        """Tell the leader that somebody inserted, if it is reached; one call may stand for many."""
        self._rung = True
        if self._link.up and (self._ringing is None or self._ringing.done()):
            self._ringing = asyncio.create_task(self._ring(), name="ring")

    async def open_tunnel(self) -> LeaderTunnel | None:
        """Connect to the leader's worker socket, as soon as somebody leads; None if it is this node."""
        leader = await self._link.until_best(LEADER_SECONDS)
        if leader is None:
            return None
        try:
            connection = await connect(
                address_of(leader.url),
                additional_headers=self._headers,
                max_size=MOST_BYTES,
                compression=None,
                proxy=None,
                **KEEPALIVE,
            )
        except (WebSocketException, OSError) as error:
            if isinstance(error, InvalidStatus) and error.response.status_code in REFUSES_US:
                raise NoLeader(refusal(leader, error.response.status_code)) from None
            raise NoLeader(f"{_name(leader)} cannot be reached: {error}") from None
        return LeaderTunnel(connection, self._link, leader)

    async def _ring(self) -> None:
        with suppress(NoLeader):
            while self._rung:
                self._rung = False  # before it is sent: what comes meanwhile needs another
                await self.pass_on(Question("POST", "/v1/cluster/ring", {}), RING_SECONDS)

    async def _exchange(
        self, leader: Leadership, question: Question, timeout: float
    ) -> tuple[int, Mapping[str, str], bytes]:
        headers = self._headers | question.headers
        connections = self._link.connections(leader)
        target = prefix_of(leader) + question.target
        return await connections.exchange(question.method, target, question.body, headers, timeout)


class LeaderTunnel:
    """One worker's stream, continued to the leader's node."""

    def __init__(self, connection: ClientConnection, link: Link, leader: Leadership) -> None:
        self._connection, self._link, self._leader = connection, link, leader

    async def send(self, frame: bytes | str) -> None:
        """Pass a frame on to the leader."""
        try:
            await self._connection.send(frame)
        except (WebSocketException, OSError) as error:
            raise NoLeader(f"{_name(self._leader)} is gone: {error}") from None

    async def receive(self) -> bytes | str:
        """Wait for a frame of the leader's."""
        try:
            return await self._connection.recv()
        except (WebSocketException, OSError) as error:
            raise NoLeader(f"{_name(self._leader)} is gone: {error}") from None

    async def until_over(self) -> None:
        """Return when another node leads."""
        await self._link.until_other_than(self._leader)

    async def close(self) -> None:
        """Close our end; the leader hears that the worker left."""
        with suppress(WebSocketException, OSError):
            await self._connection.close()


def _name(leader: Leadership) -> str:
    return f"the leader's node, {leader.name} at {leader.url},"
