"""When will it start, in a town where everything changes: who comes, who works, how long jobs take.

Tenants come for some minutes and go again, workers join and leave, jobs take times of very different kinds,
some have priority, some queues a limit, an assured part or a rate. Jobs come by thousands, and those that
wait are told when they will start, at once or some time later.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from heapq import heappop, heappush
from itertools import count
from random import Random
from statistics import median
from typing import NamedTuple

import pytest

from fairway.core import events as happened
from fairway.core.eta import Eta, eta

from .stage import Stage

JOBS = 4000
SECOND = 1_000_000


class Tenant(NamedTuple):
    """A queue, its settings, the jobs a second that come while it is there, and how long one takes."""

    path: str
    settings: dict[str, object]
    rate: float
    takes: Callable[[Random], float]


def two_kinds(luck: Random) -> float:
    """Mostly short, now and then long."""
    return 0.3 if luck.random() < 0.9 else 8.0


TENANTS = (
    Tenant("steady", {"weight": 2.0}, 0.8, lambda luck: 1.0),
    Tenant("acme/mail", {"weight": 1.0}, 1.2, lambda luck: luck.expovariate(1.0)),
    Tenant("acme/reports", {"limit": 2}, 0.3, lambda luck: luck.lognormvariate(1.0, 0.6)),
    Tenant("mixed", {"weight": 4.0, "assured": 1}, 1.0, two_kinds),
    Tenant("urgent", {"priority": 1}, 0.4, lambda luck: luck.uniform(0.2, 1.0)),
    Tenant("slow", {"rate": "1/s", "burst": 3}, 0.7, lambda luck: luck.uniform(0.1, 0.4)),
)


class Said(NamedTuple):
    """What was said of a job, and when."""

    at: int
    eta: Eta


class Town:
    """A stage on which things happen by themselves, one after the other."""

    def __init__(self, seed: int) -> None:
        self.stage, self.luck = Stage(), Random(seed)
        self.said: dict[int, Said] = {}
        self.started: dict[int, int] = {}
        self._agenda: list[tuple[int, int, Callable[[], None]]] = []
        self._order, self._jobs, self._workers = count(), count(1), count(1)
        self._there: set[str] = set()
        self._takes: dict[int, float] = {}
        self.stage.join("always", 4)
        for tenant in TENANTS:
            self.stage.set(tenant.path, **tenant.settings)
            self._after(self.luck.uniform(0, 60), lambda tenant=tenant: self._come(tenant))
        self._after(100, self._hire)

    def run(self) -> None:
        """Let it be until enough jobs have come and all have begun."""
        while self._agenda:
            at, _, act = heappop(self._agenda)
            self.stage.micros = max(at, self.stage.micros)
            act()
            for job in self.stage.begun():
                self._begin(job)
            for worker in self.stage.workers.values():
                self.stage.beat(worker.spec.incarnation, *worker.live)

    # --- tenants ---------------------------------------------------------------------------------------
    def _come(self, tenant: Tenant) -> None:
        self._there.add(tenant.path)
        self._after(self.luck.expovariate(1 / 150), lambda: self._go(tenant))
        self._submit(tenant)

    def _go(self, tenant: Tenant) -> None:
        self._there.discard(tenant.path)
        if not self._enough():
            self._after(self.luck.expovariate(1 / 100), lambda: self._come(tenant))

    def _submit(self, tenant: Tenant) -> None:
        if tenant.path not in self._there or self._enough():
            return
        for _ in range(self.luck.choice((1, 1, 1, 1, 6))):
            job = next(self._jobs)
            self.stage.submit(job, queue=tenant.path, priority=5 if self.luck.random() < 0.1 else 0)
            self._takes[job] = tenant.takes(self.luck)
            self._after(self.luck.choice((0.0, 0.0, 0.5, 2.0, 10.0)), lambda job=job: self._ask(job))
        self._after(self.luck.expovariate(tenant.rate / 2), lambda: self._submit(tenant))

    def _ask(self, job: int) -> None:
        if job in self.started or job in self.stage.live:
            return
        found = eta(self.stage.core.world, self.stage.arrivals[job], self.stage.now)
        if found is not None:
            self.said[job] = Said(self.stage.now.wall, found)

    # --- workers ---------------------------------------------------------------------------------------
    def _hire(self) -> None:
        name = f"helper-{next(self._workers)}"
        self.stage.join(name, self.luck.choice((1, 2, 4)))
        self._after(self.luck.expovariate(1 / 120), lambda: self._dismiss(name))

    def _dismiss(self, name: str) -> None:
        self.stage.absorb(happened.Drained(name))
        if not self._enough():
            self._after(self.luck.expovariate(1 / 120), self._hire)

    # --- jobs ------------------------------------------------------------------------------------------
    def _begin(self, job: int) -> None:
        self.started[job] = self.stage.now.wall
        self._after(self._takes[job], lambda: self.stage.finish(job, seconds=self._takes[job]))

    def _enough(self) -> bool:
        return len(self.stage.arrivals) >= JOBS

    def _after(self, seconds: float, act: Callable[[], None]) -> None:
        heappush(self._agenda, (self.stage.micros + int(seconds * SECOND), next(self._order), act))


SEEDS = (1, 3, 5, 7, 8)


class Told(NamedTuple):
    """How what was said of the jobs of one town turned out."""

    jobs: int
    nine: float  # the part that started within the wide bounds, and within the narrow ones
    half: float
    width: float  # of the wide bounds, by how long the job waited; the median
    waited: float


@cache
def told_in(seed: int) -> Told:
    town = Town(seed)
    town.run()
    assert len(town.started) >= JOBS
    said = [(town.started[job], one) for job, one in town.said.items() if town.started[job] > one.at]
    found = Told(
        len(said),
        sum(one.eta.p90[0] <= start <= one.eta.p90[1] for start, one in said) / len(said),
        sum(one.eta.p50[0] <= start <= one.eta.p50[1] for start, one in said) / len(said),
        median((one.eta.p90[1] - one.eta.p90[0]) / (start - one.at) for start, one in said),
        median((start - one.at) / SECOND for start, one in said),
    )
    print(found)
    return found


@pytest.mark.parametrize("seed", SEEDS)
def test_nine_tenths_start_within_the_bounds_whatever_changes(seed: int) -> None:
    told = told_in(seed)
    assert told.jobs > JOBS / 4
    assert told.nine >= 0.85, told
    assert 0.35 <= told.half <= 0.75, told


def test_the_bounds_are_no_wider_than_they_must_be() -> None:
    """By town the width varies much, from 2.7 to 10 times the wait."""
    assert median(told_in(seed).width for seed in SEEDS) < 5
