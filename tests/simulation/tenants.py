"""Model tenants of a world that lasts: they come alone, hold slots for long, and get company later.

A story has two tenants that share slots. In one the first holds a slot with a long job and wants nothing more
while the second works; then it has as much to do. In the other the first is alone, and has long jobs in all
slots; before they end, both have short ones. Others pass by with a job. A unit is as long as half a beat.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from fairway.core import events as happened

if TYPE_CHECKING:
    from .run import Simulation

PAIRS = (("acme", "beta"), ("beta", "ab"), ("ab", "acme/a"), ("acme/a", "acme/b"), ("acme", "acme/b/c"))
FLOWS = (None, "ann", "bob", "cid")
SHORT = (0.5, 1.5)  # units: how long short jobs take
AT_ONCE = 8  # jobs in one call, at most
STORY = 45.0  # units after which the next story starts


class Tenants:
    """Those who have long jobs beside short ones."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.world = simulation.world
        self.slots = sum(worker.slots for worker in simulation.workers)
        for number in range(simulation.mix.stories):
            self._later(number * STORY + self.world.between(0.5, 2.0), self._tell_story)

    def pass_by(self) -> None:
        """Submit a job of somebody, seldom a long one."""
        most = 20.0 if self.world.chance(0.2) else 2.0
        self._ask(self.world.random.choice(self.world.random.choice(PAIRS)), [self._units(0.2, most)])

    # --- stories ---------------------------------------------------------------------------------------
    def _tell_story(self) -> None:
        random = self.world.random
        one, other = random.sample(random.choice(PAIRS), 2)
        self._set(one, weight=random.choice((0.5, 1.0, 1.0, 1.0, 2.0)))
        if self.world.chance(0.6):
            self._set(one, discipline="sfq", charge="seconds")
        random.choice((self._hold, self._work_alone))(one, other)

    def _hold(self, one: str, other: str) -> None:
        """Let one hold a slot for long, and want no more until the other has worked for a while."""
        holding = self.world.random.randint(1, max(self.slots // 3, 1))
        self._ask(one, [self._units(50.0, 100.0) for _ in range(holding)])
        seconds = self.world.between(12.0, 18.0)
        self._later(1.0, lambda: self._flood(other, seconds + 8.0))
        self._later(1.0 + seconds, lambda: self._flood(one, 8.0))

    def _work_alone(self, one: str, other: str) -> None:
        """Let one keep all slots busy with long jobs; the other comes before they end."""
        seconds = self.world.between(6.0, 12.0)
        self._ask(one, [seconds * self.world.scale] * self.slots)
        late = seconds * self.world.between(0.6, 0.95)
        self._later(late, lambda: self._flood(other, 12.0))
        self._later(late + self.world.between(0.0, 0.5), lambda: self._flood(one, 6.0))

    def _flood(self, queue: str, units: float) -> None:
        """Ask for as many short jobs as keep all slots busy for so long."""
        count = int(self.slots * units / (sum(SHORT) / 2))
        self._ask(queue, [self._units(*SHORT) for _ in range(count)])

    # --- what the stories are told with -----------------------------------------------------------------
    def _ask(self, queue: str, seconds: list[float]) -> None:
        """Submit jobs, a call of one flow after the other."""
        ask = self.simulation.clients.ask_plainly
        for start in range(0, len(seconds), AT_ONCE):
            flow = self.world.random.choice(FLOWS)
            call = [(queue, flow, one) for one in seconds[start : start + AT_ONCE]]
            self._later(self.world.between(0.0, 3.0) if start else 0.0, partial(ask, call))

    def _set(self, queue: str, **changes: object) -> None:
        leader = self.simulation.reachable_leader()
        if leader is not None:
            leader.put(happened.QueueAsked(lambda reply: None, queue, changes, False))

    def _units(self, low: float, high: float) -> float:
        return self.world.between(low, high) * self.world.scale

    def _later(self, units: float, act: Callable[[], None]) -> None:
        self.world.after(units * self.world.scale, lambda: None if self.simulation.healed else act())
