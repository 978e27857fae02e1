"""The node's own worker: the same agent as everywhere, over a transport without a network.

While this node leads, messages pass as objects between the agent and a port of the engine. While another
node leads, the agent joins that one by WebSocket like any other worker. The worker holds an OS lock beside
the database, so that whoever leads next knows at once that it is dead.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from fairway.errors import WorldError
from fairway.stores.sqlite.locks import FileLock
from fairway.worker.agent import Agent
from fairway.worker.app import WorkerOptions, build_agent
from fairway.worker.socket_transport import connector
from fairway.worker.transport import Disconnected, LocalTransport, Transport

if TYPE_CHECKING:
    from fairway.node.app import Node


class OwnWorker:
    """Runs a worker inside a node's process."""

    def __init__(self, node: Node) -> None:
        self._node = node
        options = node.options
        self._agent: Agent = build_agent(
            WorkerOptions(
                name=node.name,
                slots=options.slots or os.cpu_count() or 1,
                tags=list(options.tags),
                queues=list(options.queues) or ["**"],
                apps=list(options.apps),
                async_per_slot=options.async_per_slot,
            ),
            self._connect,
        )
        self._lock: FileLock = node.locks.lock_of(self._agent.identity.incarnation)
        self._running: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start the adapters, then serve; raises CannotImport if an app cannot be imported."""
        self._lock.try_lock()
        if self._lock.descriptor is not None:
            # The guardian holds it too: the worker counts as dead only when its children are gone.
            self._agent.warden.inherit += (self._lock.descriptor,)
        await self._agent.start()
        self._running = asyncio.create_task(self._agent.run(), name="own-worker")

    async def stop(self, grace_seconds: float) -> None:
        """Hand back what runs; within the grace and two seconds."""
        await self._agent.close(grace_seconds)
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)
        self._lock.release(remove=True)

    async def _connect(self) -> Transport:
        engine = self._node.engine
        if engine is not None:
            return LocalTransport(engine.open_port())
        try:
            leadership = await self._node.store.find_leadership()
        except WorldError as error:
            raise Disconnected(str(error)) from None
        if leadership is None or not leadership.holder or leadership.holder == self._node.incarnation:
            raise Disconnected("nobody leads yet")
        return await connector([leadership.url])()
