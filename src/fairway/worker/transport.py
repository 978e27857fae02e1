"""How an agent reaches a node: the contract, and the way for a worker inside the node's own process."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from fairway.desk import WorkerPort
from fairway.wire.messages import FromWorker, ToWorker


class Disconnected(Exception):
    """The connection to the node is gone; the agent tries again."""


class NotAdmitted(Disconnected):
    """The node wants a token that we do not have; people must help."""

    def __init__(self, why: str, address: str) -> None:
        super().__init__(why)
        self.address = address


class Transport(Protocol):
    """One connection to a node."""

    async def send(self, messages: Sequence[FromWorker]) -> None:
        """Send messages in order; waits when the node is slow; raises Disconnected."""

    async def receive(self) -> Sequence[ToWorker]:
        """Wait for the next messages; raises Disconnected."""

    def give_straight(self, give: Callable[[list[ToWorker]], None]) -> None:
        """Let messages be given by a call as well as by `receive`, in their order, where that is sooner."""

    async def close(self) -> None:
        """Close the connection."""


#: Opens a connection; raises Disconnected or OSError if it cannot.
Connect = Callable[[], Awaitable[Transport] | Transport]


class LocalTransport:
    """A connection inside one process: messages are passed as they are, nothing is encoded."""

    def __init__(self, port: WorkerPort) -> None:
        self._port = port
        self._frames = port.next_frames()

    async def send(self, messages: Sequence[FromWorker]) -> None:
        """Hand messages to the node."""
        for message in messages:
            await self._port.receive(message)

    async def receive(self) -> Sequence[ToWorker]:
        """Wait for the node's next batch."""
        try:
            return await anext(self._frames)
        except StopAsyncIteration:
            raise Disconnected("the node closed the port") from None

    def give_straight(self, give: Callable[[list[ToWorker]], None]) -> None:
        """Let begins come by a call: a job that nothing holds up waits for each task that must wake."""
        self._port.give_straight(give)

    async def close(self) -> None:
        """Tell the node that this worker is gone."""
        self._port.closed()
