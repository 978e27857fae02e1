"""The worker put together: `fairway worker --join URL`, and the worker inside a node."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fairway.adapter import Adapter
from fairway.adapters.command import CommandAdapter
from fairway.adapters.http import HttpAdapter
from fairway.adapters.python.adapter import PythonAdapter
from fairway.adapters.python.link import CannotImport as CannotImport
from fairway.adapters.python.recycling import Bounds
from fairway.adapters.rails import make_rails_adapter
from fairway.adapters.warm.adapter import WarmAdapter
from fairway.adapters.warm.child import CannotStart as CannotStart
from fairway.worker.agent import Agent, Capacity
from fairway.worker.identity import take_identity
from fairway.worker.socket_transport import Connector
from fairway.worker.transport import Connect
from fairway.worker.warden import Warden

#: With the few seconds it takes to stop the rest, below the ten after which `docker stop` kills.
GRACE_SECONDS = 6.0
HURRY_SECONDS = 4.0


@dataclass(slots=True)
class WorkerOptions:
    """What a worker is told at its start."""

    join: list[str] = field(default_factory=list)
    name: str = field(default_factory=socket.gethostname)
    slots: int = field(default_factory=lambda: os.cpu_count() or 1)
    tags: list[str] = field(default_factory=list)
    queues: list[str] = field(default_factory=lambda: ["**"])
    apps: list[str] = field(default_factory=list)
    adapters: dict[str, list[str]] = field(default_factory=dict)  # warm ones: what to start, by name
    rails: str | None = None
    warm_jobs: int = 0
    async_per_slot: int = 100
    max_jobs_per_child: int | None = None
    max_child_age: float | None = None  # seconds
    max_child_memory: int | None = None  # bytes
    data_dir: Path | None = None
    grace_seconds: float = GRACE_SECONDS
    allow_private: bool = False  # requests may go into networks that are not public
    token: str | None = field(default_factory=lambda: os.environ.get("FAIRWAY_TOKEN") or None, repr=False)


def build_agent(options: WorkerOptions, connect: Connect) -> Agent:
    """Put a worker together; *connect* says how it reaches a node."""
    identity = take_identity(options.name, options.data_dir)
    warden = Warden(inherit=() if identity.lock_fd is None else (identity.lock_fd,))
    adapters = build_adapters(options, warden)
    capacity = Capacity(options.slots, tuple(options.tags), tuple(options.queues), options.async_per_slot)
    learn = connect.learn if isinstance(connect, Connector) else None
    return Agent(identity, capacity, adapters, connect, warden, learn)


def build_adapters(options: WorkerOptions, warden: Warden) -> list[Adapter]:
    """Return one of each kind of adapter that this worker has work for: the one place that names them."""
    adapters: list[Adapter] = [CommandAdapter(warden), HttpAdapter(options.allow_private)]
    if options.apps:
        bounds = Bounds(options.max_jobs_per_child, options.max_child_age, options.max_child_memory)
        adapters.append(PythonAdapter(warden, options.apps, options.slots, options.async_per_slot, bounds))
    for name, argv in options.adapters.items():
        adapters.append(WarmAdapter(name, argv, warden, options.slots, recycle_jobs=options.warm_jobs))
    if options.rails is not None:
        adapters.append(make_rails_adapter(options.rails, warden, options.slots, options.warm_jobs))
    return adapters


async def run_worker(options: WorkerOptions) -> int:
    """Be a worker until a signal comes; return the exit code."""
    agent = build_agent(options, Connector(options.join, options.token))
    try:
        await agent.start()
    except (CannotImport, CannotStart) as error:
        print(f"fairway: {explain_import(options.apps, error)}", file=sys.stderr)
        return 1
    stopping = asyncio.Event()
    at_once = asyncio.Event()
    take_signals(stopping, at_once)
    running = asyncio.create_task(agent.run())
    stopped = asyncio.create_task(stopping.wait())
    await asyncio.wait([running, stopped], return_when=asyncio.FIRST_COMPLETED)
    await close_or_hurry(agent, options.grace_seconds, at_once)
    stopped.cancel()
    return 0 if not running.done() or running.cancelled() or running.exception() is None else 1


def take_signals(stopping: asyncio.Event, at_once: asyncio.Event) -> None:
    """The first SIGTERM or SIGINT drains, the second hands back at once."""

    def take() -> None:
        (at_once if stopping.is_set() else stopping).set()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, take)


async def close_or_hurry(agent: Agent, grace_seconds: float, at_once: asyncio.Event) -> None:
    """Close within the grace; if a second signal comes, hand back now what still runs."""
    closing = asyncio.create_task(agent.close(grace_seconds))
    hurry = asyncio.create_task(at_once.wait())
    await asyncio.wait([closing, hurry], return_when=asyncio.FIRST_COMPLETED)
    hurry.cancel()
    if not closing.done():
        agent.hurry()
        await asyncio.wait([closing], timeout=HURRY_SECONDS)
    if not closing.done():
        closing.cancel()
        await agent.warden.close()
    await asyncio.wait([closing], timeout=2)


def explain_import(apps: Sequence[str], error: CannotImport | CannotStart) -> str:
    """Say which app cannot be imported, or which adapter does not start, and why."""
    if isinstance(error, CannotStart):
        return str(error)
    reason = str(error).strip().rpartition("\n")[2]
    return f"cannot import {', '.join(apps)}: {reason}\n\n{error}"
