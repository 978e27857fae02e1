"""The node's own worker: the same agent as everywhere, over a transport without a network.

While this node leads, messages pass as objects between the agent and a port of the engine. While another
node leads, the agent joins that one by WebSocket like any other worker, or a third one that relays if the
leader's is not reached from here. Beside a database file the worker holds an OS lock, so that whoever leads
next knows at once that it is dead; elsewhere it leaves a trace for its successor, if its name is to stay.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from fairway.errors import WorldError
from fairway.node.link import bearer
from fairway.store import Leadership
from fairway.stores.sqlite.locks import FileLock
from fairway.worker.agent import Agent
from fairway.worker.app import WorkerOptions, build_agent
from fairway.worker.socket_transport import address_of, open_transport
from fairway.worker.transport import Disconnected, LocalTransport, Transport

if TYPE_CHECKING:
    from fairway.node.app import Node

LEADER_SECONDS = 5.0


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
                adapters=dict(options.adapters),
                rails=options.rails,
                warm_jobs=options.warm_jobs,
                grace_seconds=options.grace_seconds,
                async_per_slot=options.async_per_slot,
                allow_private=options.allow_private,
                max_jobs_per_child=options.max_jobs_per_child,
                max_child_age=options.max_child_age,
                max_child_memory=options.max_child_memory,
                data_dir=options.worker_home() if node.locks is None and options.name else None,
            ),
            self._connect,
        )
        self._lock: FileLock | None = None
        if node.locks is not None:
            self._lock = node.locks.lock_of(self._agent.identity.incarnation)
        self._term = self._turn = 0  # under each new leader its own node is tried first
        self._running: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start the adapters, then serve; raises CannotImport or CannotStart if one cannot work."""
        if self._lock is not None and self._lock.try_lock() and self._lock.descriptor is not None:
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
        if self._lock is not None:
            self._lock.release(remove=True)

    def hurry(self) -> None:
        """Hand back what runs now, whatever the grace."""
        self._agent.hurry()

    async def _connect(self) -> Transport:
        try:
            leader = None if self._node.engine else await self._node.link.until_best(LEADER_SECONDS)
            urls = [] if leader is None else await self._ways_to(leader)
        except WorldError as error:
            raise Disconnected(str(error)) from None
        if leader is None:
            return self._open_locally()
        if leader.term != self._term:
            self._term, self._turn = leader.term, 0
        address = address_of(urls[self._turn % len(urls)])
        self._turn += 1
        return await open_transport(address, bearer(self._node.options.token))

    def _open_locally(self) -> Transport:
        engine = self._node.engine
        if engine is None:
            raise Disconnected("this node has just ceased to lead")
        return LocalTransport(engine.open_port())

    async def _ways_to(self, leader: Leadership) -> list[str]:
        """Return the leader's own address, then those of the nodes that may reach it for us."""
        nodes = await self._node.store.nodes()
        others = [node.url for node in nodes if node.url and node.incarnation != self._node.incarnation]
        return list(dict.fromkeys([leader.url, *others]))
