"""A core on a stage: a clock by hand, and a store that says yes to every begin.

Tests of the core's parts drive it in words: workers join, jobs arrive, `step` makes a plan and confirms
its begins as a store would.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from fairway.core import events as happened
from fairway.core.model import Arrival, Held, Moment, Result, Rules, Shape, TaskInfo, Timers, WorkerSpec
from fairway.core.plan import Begun, Plan
from fairway.core.scheduler import Core
from fairway.core.world import Live, Worker

WALL = 1_800_000_000_000_000
COMMAND = Shape("command")


def task(name: str, *tags: str, once: bool = False) -> Shape:
    """Return the shape of a Python task."""
    return Shape("python", name, tags, once)


def begun_jobs(plan: Plan) -> list[int]:
    """Return the jobs that a plan begins, in order."""
    return [job for begin in plan.batch.begins for job in begin.jobs]


@dataclass
class Stage:
    """One core with its clock and the attempts it has begun."""

    core: Core = field(default_factory=lambda: Core(Timers()))
    micros: int = 0  # since the curtain rose
    rules: Rules = field(default_factory=Rules)
    attempts: Counter[int] = field(default_factory=Counter)
    arrivals: dict[int, Arrival] = field(default_factory=dict)

    @property
    def now(self) -> Moment:
        return Moment(WALL + self.micros, 1000.0 + self.micros / 1e6)

    def absorb(self, event: happened.CoreEvent) -> None:
        self.core.absorb(event, self.now)

    def join(
        self, name: str, slots: int = 1, *, holds: tuple[Held, ...] = (), results: tuple[Result, ...] = (),
        predecessor: str | None = None, **more: Any,
    ) -> str:  # fmt: skip
        """Let a worker connect; returns its incarnation, which is its name unless given."""
        more = {"adapters": frozenset({"command", "python"}), "tasks": (TaskInfo("t"),), **more}
        incarnation, draining = str(more.pop("incarnation", name)), bool(more.pop("draining", False))
        spec = WorkerSpec(name, incarnation, slots, **more)
        self.absorb(happened.Joined(spec, holds, results, predecessor, 0.0, {}, draining))
        return incarnation

    def submit(
        self, *jobs: int, queue: str = "q", shape: Shape = COMMAND, priority: int = 0, delay: float = 0.0,
        flow: str | None = None,
    ) -> None:  # fmt: skip
        """Let jobs arrive, one microsecond after the other."""
        for job in jobs:
            self.micros += 1
            place = self.now.wall + int(delay * 1e6)
            self.arrivals[job] = Arrival(job, queue, flow, priority, shape, place)
            self.absorb(happened.Submitted([self.arrivals[job]]))

    def set(self, path: str, **changes: Any) -> None:
        """Change a queue's settings."""
        self.absorb(happened.QueueAsked("ticket", path, changes, False))

    def step(self, seconds: float = 0.0) -> Plan:
        """Let time pass, make a plan and confirm its begins."""
        self.micros += int(seconds * 1e6)
        plan = self.core.plan(self.now)
        begun = []
        for job in begun_jobs(plan):
            self.attempts[job] += 1
            begun.append(Begun(job, self.attempts[job], 0, 0, 0, (), self.rules, None, b"{}"))
        self.absorb(happened.Started(begun))
        return plan

    def begun(self, seconds: float = 0.0) -> list[int]:
        """Step and return the jobs that began, in order."""
        return begun_jobs(self.step(seconds))

    def finish(self, *jobs: int, kind: str = "ok", seconds: float = 1.0) -> None:
        """Let the workers of these jobs report."""
        for job in jobs:
            live = self.live[job]
            result = Result(job, live.attempt, kind, b"1" if kind == "ok" else b'{"type":"E"}', seconds)
            self.absorb(happened.Reported(live.incarnation, [result], 0.5))

    def beat(self, incarnation: str, *jobs: int) -> None:
        """Let a worker beat and name these jobs."""
        self.absorb(happened.Renewed(incarnation, [Held(job, self.attempts[job]) for job in jobs], {}))

    @property
    def live(self) -> dict[int, Live]:
        return self.core.world.live

    @property
    def workers(self) -> dict[str, Worker]:
        return self.core.world.workers
