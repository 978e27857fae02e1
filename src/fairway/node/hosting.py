"""The node's own worker: the same agent as everywhere, over a transport without a network.

While this node leads, messages pass as objects between the agent and a port of the engine. While another
node leads, the agent joins that one by WebSocket like any other worker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fairway.node.app import Node


class OwnWorker:
    """Runs a worker inside a node's process."""

    def __init__(self, node: Node) -> None:
        self._node = node

    async def start(self) -> None: ...

    async def stop(self, grace: float) -> int:
        return 0
