"""Workers for the worlds of test_engine: the real agent, with an adapter whose code is a span of time.

What a job's code does is written in its payload: how each attempt ends, and after how long. The books are
kept here, where the code runs: what started, how often, and how much at once.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from random import Random

import msgspec

from fairway.adapter import Reporter
from fairway.core.lifecycle import State
from fairway.core.model import Delivery
from fairway.desk import Desk, WorkerPort
from fairway.node.ports import Port
from fairway.stores.memory import MemoryStore
from fairway.wire.messages import Assignment, LogPiece, Result, Task
from fairway.worker.agent import Agent, Capacity
from fairway.worker.identity import Identity
from fairway.worker.transport import LocalTransport
from fairway.worker.warden import Warden

Key = tuple[int, int]
TASKS = [Task("quick"), Task("slow"), Task("many", is_async=True)]


class Fate(msgspec.Struct, frozen=True):
    """A job's payload: a token that is its own, how its attempts end, and how long they take."""

    token: int
    ends: list[str]
    seconds: float


class Books:
    """What the code of all workers saw."""

    def __init__(self, store: MemoryStore, limits: dict[str, int]) -> None:
        self.store, self.limits = store, limits
        self.starts: Counter[Key] = Counter()
        self.once: Counter[Key] = Counter()  # (job, generation) of at-most-once jobs
        self.cancelled: set[Key] = set()  # (job, generation) whose cancel was answered while it waited
        self.running: Counter[str] = Counter()
        self.wrong: list[str] = []

    def told(self, assignment: Assignment, incarnation: str) -> None:
        """A worker hears of an attempt: it must be committed, as its own."""
        row = self.store.tables.jobs.get(assignment.job)
        if row is None or row.attempt < assignment.attempt:
            self.wrong.append(f"{assignment[:2]} was told before it was committed")
        elif row.attempt == assignment.attempt and row.incarnation != incarnation:
            self.wrong.append(f"{assignment[:2]} of {row.incarnation} was told to {incarnation}")

    def started(self, assignment: Assignment) -> None:
        """Code starts."""
        key, generation = assignment[:2], (assignment.job, assignment.generation)
        self.starts[key] += 1
        if self.starts[key] > 1:
            self.wrong.append(f"{key} started twice")
        if self.store.tables.jobs[assignment.job].delivery is Delivery.AT_MOST_ONCE:
            self.once[generation] += 1
            if self.once[generation] > 1:
                self.wrong.append(f"at-most-once job {generation} started twice")
        if generation in self.cancelled:
            self.wrong.append(f"{generation} started after its cancel was answered")
        self.running[assignment.queue] += 1
        self._check_limits()

    def stopped(self, assignment: Assignment) -> None:
        """Code is over, however."""
        self.running[assignment.queue] -= 1

    def cancel_answered(self, job: int, generation: int, state: State) -> None:
        """A client was told that this generation is cancelled."""
        if state is State.CANCELLED:
            self.cancelled.add((job, generation))

    def _check_limits(self) -> None:
        for path, limit in self.limits.items():
            below = [count for queue, count in self.running.items() if f"{queue}/".startswith(f"{path}/")]
            if sum(below) > limit:
                self.wrong.append(f"{sum(below)} run in {path}, whose limit is {limit}")


class Bench:
    """An adapter that runs fates. Owned by one life of a worker."""

    name = "python"

    def __init__(self, books: Books, random: Random, incarnation: str) -> None:
        self._books, self._random, self._incarnation = books, random, incarnation
        self._runs: dict[Key, asyncio.Task[None]] = {}
        self._started: set[Key] = set()
        self._reporter: Reporter | None = None

    async def start(self, reporter: Reporter) -> list[Task]:
        self._reporter = reporter
        return TASKS

    def begin(self, assignments: Sequence[Assignment]) -> None:
        for assignment in assignments:
            self._books.told(assignment, self._incarnation)
        task = asyncio.create_task(self._run_all(list(assignments)))
        self._runs |= {assignment[:2]: task for assignment in assignments}

    def stop(self, job: int, attempt: int, force: bool, kind: str = "cancelled") -> None:
        run = self._runs.get((job, attempt))
        if run is not None:
            run.cancel(kind)

    def started(self, job: int, attempt: int) -> bool:
        return (job, attempt) in self._started

    async def close(self, grace_seconds: float) -> None:
        for run in set(self._runs.values()):
            run.cancel("stopped")
        await asyncio.gather(*set(self._runs.values()), return_exceptions=True)

    def die(self) -> None:
        """All code is gone, and nobody is told."""
        self._reporter = None
        for run in set(self._runs.values()):
            run.cancel()

    async def _run_all(self, bundle: list[Assignment]) -> None:
        """Run a bundle in its order; what stands behind one that is stopped goes back."""
        while bundle:
            assignment = bundle.pop(0)
            if self._random.random() < 0.05:
                self._give_back([assignment])
                continue
            kind = await self._run(assignment)
            if kind in ("cancelled", "stopped", "crashed"):
                self._give_back(bundle)
                return

    async def _run(self, assignment: Assignment) -> str:
        fate = msgspec.json.decode(assignment.payload, type=Fate)
        kind = fate.ends[min(assignment.attempt, len(fate.ends)) - 1]
        self._started.add(assignment[:2])
        self._books.started(assignment)
        if self._reporter is not None:
            self._reporter.wrote([LogPiece(*assignment[:2], 0, 1, "stdout", f"{assignment.job} runs")])
        try:
            await asyncio.sleep(fate.seconds)
        except asyncio.CancelledError as error:
            kind = str(error) or "stopped"
        finally:
            self._books.stopped(assignment)
        self._tell(assignment, kind, fate)
        return kind

    def _tell(self, assignment: Assignment, kind: str, fate: Fate) -> None:
        self._runs.pop(assignment[:2], None)
        if self._reporter is not None:
            body = str(fate.token).encode() if kind == "ok" else b'{"type":"E","message":"as drawn"}'
            result = Result(*assignment[:2], kind, body, fate.seconds, 0.2 if kind == "retry_after" else 0.0)
            self._reporter.finished([result])

    def _give_back(self, assignments: Sequence[Assignment]) -> None:
        for assignment in assignments:
            self._runs.pop(assignment[:2], None)
        if self._reporter is not None and assignments:
            self._reporter.handed_back([assignment[:2] for assignment in assignments])


class Worker:
    """One worker through all its lives."""

    def __init__(self, desk: Desk, books: Books, random: Random, name: str) -> None:
        self._desk, self._books, self._random, self.name = desk, books, random, name
        self._life = 0
        self._bench: Bench | None = None
        self._agent: Agent | None = None
        self._running: asyncio.Task[None] | None = None
        self._port: WorkerPort | None = None

    async def start(self, predecessor: str | None = None) -> None:
        """Begin a life."""
        self._life += 1
        identity = Identity(self.name, f"{self.name}-{self._life}", predecessor)
        self._bench = Bench(self._books, self._random, identity.incarnation)
        capacity = Capacity(self._random.randint(1, 4), async_per_slot=3)
        self._agent = Agent(identity, capacity, [self._bench], self._connect, Warden())
        self._agent.tasks = await self._bench.start(self._agent)  # without a guardian: no processes here
        self._running = asyncio.create_task(self._agent.run())

    def _connect(self) -> LocalTransport:
        self._port = self._desk.attach_worker()
        return LocalTransport(self._port)

    def cut(self) -> None:
        """Lose the connection; the agent finds another."""
        if isinstance(self._port, Port):
            self._port.close()

    async def die(self) -> None:
        """Die with all code; the next life may know that this one is over."""
        assert self._agent and self._bench and self._running
        self._bench.die()
        self._running.cancel()
        with suppress(asyncio.CancelledError):
            await self._running
        known = self._random.random() < 0.5
        await self.start(self._agent.identity.incarnation if known else None)

    async def leave(self) -> None:
        """Close as a worker does that is told to, and come back."""
        assert self._agent
        await self._agent.close(self._random.uniform(0.0, 1.0))
        await self.start()
