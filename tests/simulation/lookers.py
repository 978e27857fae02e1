"""Model people who look: where jobs stand, why they wait, when they begin, the numbers, all the time.

A leader that is looked at has a twin: a core that takes in the same events and that nobody ever looks at. The
two must make the same plans, record by record. Who looks has dice of its own, so a world goes the same way
without them.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from fairway.core import events as happened
from fairway.core.demand import demand
from fairway.core.eta import eta, expect
from fairway.core.explain import explain, limited_by, position
from fairway.core.flows import busiest
from fairway.core.foresee import foresee
from fairway.core.lifecycle import State
from fairway.core.model import Moment, Timers
from fairway.core.plan import Plan
from fairway.core.scheduler import Core
from fairway.node.engine import arrival_of_stored
from fairway.node.metrics import tenant_numbers

from .witness import Violation

if TYPE_CHECKING:
    from .run import Simulation

#: Seconds from now about which somebody asks.
TIMES = (0.0, 0.0, 0.0, 0.7, 100.0, -2.0)


class Lookers:
    """Those who only ask."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.world = simulation.world
        self.random = Random(simulation.world.seed)
        if simulation.mix.rate("looking"):
            self._again()

    def core_of(self, timers: Timers) -> Core:
        """Return a new leader's core: one with a twin, where people look."""
        return LookedAt(timers) if self.simulation.mix.rate("looking") else Core(timers)

    def _again(self) -> None:
        seconds = self.random.expovariate(self.simulation.mix.rate("looking")) * self.world.scale
        self.world.after(seconds, self._look)

    def _look(self) -> None:
        """Ask the leader for something, now and then about another time."""
        if self.simulation.healed:
            return
        leader = self.simulation.leader()
        if leader is not None:
            now, seconds = self.world.now(), self.random.choice(TIMES)
            then = Moment(now.wall + int(seconds * 1e6), now.mono + max(seconds, 0.0))
            looks = (self._look_at_a_job, self._look_at_a_job, self._look_at_a_queue)
            self.random.choice(looks)(leader.core, then)
        self._again()

    def _look_at_a_job(self, core: Core, now: Moment) -> None:
        waiting = [job for job in self.simulation.store.tables.jobs.values() if job.state is State.QUEUED]
        if waiting:
            job = arrival_of_stored(self.random.choice(waiting))
            explain(core.world, job, now.wall)
            eta(core.world, job, now, position(core.world, job, now.wall))
            expect(core.world, job, now)

    def _look_at_a_queue(self, core: Core, now: Moment) -> None:
        world = core.world
        queue = self.random.choice(list(world.tree.queues.values()))
        foresee(world.tree, queue, 20, now)
        busiest(world, queue, 5, now)
        limited_by(queue, now.mono)
        queue.own.due_count(now.wall), queue.own.due_by_shape(now.wall), queue.own.oldest()
        world.numbers.figures(world.numbers.of_branch(queue), now.mono)
        demand(world, now)
        tenant_numbers(world, now)


class LookedAt(Core):
    """A core beside its twin, which hears the same and is never looked at."""

    def __init__(self, timers: Timers) -> None:
        super().__init__(timers)
        self.twin = Core(timers)
        self.twin.world.forecasts.sample = lambda *_: None  # type: ignore[method-assign]

    def absorb(self, event: happened.CoreEvent, now: Moment) -> None:
        """Take in something that happened."""
        self.twin.absorb(event, now)
        super().absorb(event, now)

    def plan(self, now: Moment) -> Plan:
        """Decide what follows; raises Violation if the twin decides otherwise."""
        expected, plan = self.twin.plan(now), super().plan(now)
        if plan != expected:
            raise Violation(f"guard of looks: {_difference(plan, expected)}")
        return plan


def _difference(plan: Plan, expected: Plan) -> str:
    begun, unseen = (
        [(one.queue, list(one.jobs), one.worker) for one in of.batch.begins] for of in (plan, expected)
    )
    return f"a leader that is looked at begins {begun}, one that is not {unseen}"
