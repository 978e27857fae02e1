"""A node with nothing around it: the real desk, engine, feed and election, on a store in memory.

`Shell` is the node itself, less its file, its network and its own worker. `HeldStore` keeps everything as the
memory store does and lets a test hold commits; `Hand` is a worker that does only what it is told.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from fairway.clock import wall
from fairway.core.model import DEFAULT_RULES, Delivery
from fairway.core.plan import Batch
from fairway.leadership.elector import Elector, Lock
from fairway.node.app import Node, NodeOptions
from fairway.node.engine import Engine
from fairway.node.feed import Feed
from fairway.node.ports import Port
from fairway.store import Accepted, NewJob, NodeRow, Receipt, Request, Submission
from fairway.stores.memory import MemoryStore
from fairway.wire import messages as wire

from .virtual_time import in_time, until

TTL_SECONDS = 5.0


class HeldStore(MemoryStore):
    """A memory store that a test can stop at the door of a commit, and behind it."""

    def __init__(self) -> None:
        super().__init__()
        self.before: Callable[[], Awaitable[None]] | None = None
        self.after: Callable[[], Awaitable[None]] | None = None
        self.begun_commits = 0

    async def commit(
        self,
        term: int,
        holder: str,
        batch: Batch,
        submissions: Sequence[Submission],
        now: int,
        after: Awaitable[object] | None = None,
    ) -> Receipt:
        self.begun_commits += 1
        if self.before is not None:
            await self.before()
        receipt = await super().commit(term, holder, batch, submissions, now, after)
        if self.after is not None:
            await self.after()
        return receipt

    def listen(self) -> bool:
        """Nobody else rings: a store in memory has one process."""
        return True

    def stop_listening(self) -> None:
        """Nothing was opened."""


class Shell(Node):
    """A node that leads on the store it is given, from `async with` on."""

    def __init__(self, folder: Path, store: HeldStore, lock: Lock | None = None) -> None:
        super().__init__(
            NodeOptions(
                str(folder / "unused.db"), name="node", worker=False, leader_ttl=TTL_SECONDS, listen=":0"
            )
        )
        self.memory = store
        self.store = store  # type: ignore[assignment]  # what a node needs of its store, this one has
        self.feed = Feed(store)
        self._elector = Elector(store, self.incarnation, self.name, "", TTL_SECONDS, lock)

    async def __aenter__(self) -> Shell:
        self._tasks = [asyncio.create_task(self._lead_forever())]
        await self.until_leading()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping = True
        if self.engine is not None:
            self.engine.stop()
        await self._end_tasks()

    @property
    def leader(self) -> Engine:
        """The engine that leads now."""
        assert self.engine is not None, "nobody leads"
        return self.engine

    @property
    def ended(self) -> bool:
        """Whether the node stopped standing for election, which it never should by itself."""
        return self._tasks[0].done()

    async def leave_the_seat(self) -> None:
        """Step down, and stay so for a while: as if another node were there that could stand."""
        await self.memory.save_node(NodeRow("other", "other", "", "", wall(), wall()))
        self.step_down()
        await until(lambda: self.engine is None)

    async def leads_again(self, after: Engine) -> None:
        """Wait until the node leads with another engine than that one."""
        await until(lambda: self.engine not in (None, after))

    async def submit(self, *jobs: NewJob, key: str | None = None, digest: bytes = b"d") -> Accepted:
        """Submit jobs in one call by the desk."""
        request = None if key is None else Request(key, digest)
        [accepted] = await in_time(self.desk.submit([Submission(jobs, request)]))
        return accepted

    async def taken_in(self, *jobs: int) -> None:
        """Wait until the leader knows these jobs, and what it knows is committed."""
        await until(lambda: not self.memory.tables.arrivals)
        await in_time(self.leader.look(lambda world: None))

    async def limit_of(self, path: str) -> int | None:
        """Return a queue's limit as the desk shows it."""
        [queue] = [view for view in await in_time(self.desk.queues()) if view.path == path]
        return queue.settings.limit

    async def paths(self) -> list[str]:
        """Return the queues as the desk shows them."""
        return [view.path for view in await in_time(self.desk.queues())]


class Hand:
    """A worker's end of a port, moved by hand."""

    def __init__(self, port: Port, incarnation: str = "w-1", name: str = "w") -> None:
        self.port, self.incarnation, self.name = port, incarnation, name
        self.heard: list[wire.ToWorker] = []
        self.hung_up = False
        self._reading = asyncio.create_task(self._read())

    async def hello(self, slots: int = 4, **more: Any) -> Hand:
        """Say who we are."""
        await self.port.receive(
            wire.Hello(1, self.name, self.incarnation, slots, ["python"], [wire.Task("t")], **more)
        )
        return self

    async def report(self, job: int, attempt: int = 1, kind: str = "ok", body: bytes = b"1") -> None:
        """Say how an attempt ended."""
        await self.port.receive(wire.Results([wire.Result(job, attempt, kind, body, 0.1)]))

    def begun(self) -> list[tuple[int, int]]:
        """Return the attempts we were told to run."""
        begins = [message for message in self.heard if isinstance(message, wire.Begin)]
        return [assignment[:2] for begin in begins for assignment in begin.assignments]

    def thanked(self) -> list[tuple[int, int]]:
        """Return the attempts whose reports were committed."""
        acks = [message for message in self.heard if isinstance(message, wire.Acks)]
        return [held[:2] for message in acks for held in message.done]

    async def _read(self) -> None:
        async for frames in self.port.next_frames():
            self.heard += frames
        self.hung_up = True


def new_job(number: int, queue: str = "q", **changes: Any) -> NewJob:
    """Make a plain job, due long ago, with what a test wants different."""
    job = NewJob(
        id=number, queue=queue, flow=None, priority=0, adapter="python", task="t", tags=(),
        delivery=Delivery.AT_LEAST_ONCE, run_at=number, created_at=number, rules=DEFAULT_RULES, payload=b"{}",
    )  # fmt: skip
    return job._replace(**changes)


class Gate:
    """Holds the next commit until it is opened: before it writes, or *behind* that, its answer."""

    def __init__(self, store: HeldStore, behind: bool = False) -> None:
        self._store = store
        self._opened = asyncio.Event()
        self._reached = asyncio.Event()
        self._error: BaseException | None = None
        self._times = 0
        if behind:
            store.after = self._wait
        else:
            store.before = self._wait

    async def reached(self) -> None:
        """Return when a commit stands at the gate."""
        await in_time(self._reached.wait())

    def open(self, error: BaseException | None = None, times: int = 1) -> None:
        """Let the commit go on, or fail with *error* so often; those behind it pass freely."""
        self._error, self._times = error, times if error else 0
        self._opened.set()

    async def _wait(self) -> None:
        self._reached.set()
        await self._opened.wait()
        self._times -= 1
        if self._times < 1:
            self._store.before = self._store.after = None
        if self._error is not None:
            raise self._error
