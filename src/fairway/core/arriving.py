"""Jobs come to wait: submitted here, or inserted by others and taken in.

A bulk brings thousands that differ in their id only. Such are put into their line at one stroke; all others
one by one, and so is everything while a queue may be full, since each job is judged by those before it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from fairway.core import asks, blocked, loading, moving, notices
from fairway.core import events as happened
from fairway.core.lifecycle import State
from fairway.core.model import Alike, Arrival, Moment, Shape, together
from fairway.core.naming import show
from fairway.core.plan import News
from fairway.core.queue import Queue
from fairway.core.settings import why_refused

if TYPE_CHECKING:
    from fairway.core.world import World

FEW = 8  # are put one by one: to look for what is alike costs more


def submit(world: World, event: happened.Submitted, now: Moment) -> None:
    """Let jobs wait that this leader inserts."""
    arrivals = moving.redirected(world, event.arrivals)
    coming = Coming(world, now)
    for arrival in _put_alike(coming, arrivals):
        coming.put(arrival)
    coming.count()
    world.advice.sample(world, arrivals, now)


def take_in(world: World, event: happened.TakenIn, now: Moment) -> None:
    """Let jobs wait, or be blocked, that others inserted; those that are known are passed over."""
    world.plan.batch.taken.extend(event.numbers)
    aside, dropped = loading.left_out(world)
    arrivals = [one for one in event.arrivals if one.job not in aside and one.job not in dropped]
    coming = Coming(world, now)
    for arrival in _put_alike(coming, arrivals):
        if loading.is_known(world, arrival):
            _heed(world, arrival, now)
        elif arrival.blocked:
            _block(world, moving.redirected(world, [arrival])[0], now)
        else:
            coming.put(moving.redirected(world, [arrival])[0])
    coming.count()
    blocked.hear(world, event.ended, now)
    world.advice.sample(world, arrivals, now)


class Coming:
    """The jobs of one event: lets them wait, and tells of those that are alike at once."""

    def __init__(self, world: World, now: Moment) -> None:
        self.world, self.now = world, now
        self._came: dict[tuple[Queue, State, Shape], list[int]] = {}
        self._alike: tuple[Queue, State, Shape] | None = None
        self._jobs: list[int] = []  # those that are like the last
        self._flows: dict[tuple[Queue, str | None], int] = {}  # how many came, where flows take turns

    def put(self, arrival: Arrival) -> None:
        """Let a job wait."""
        world, now = self.world, self.now
        queue = world.tree.put(arrival, now.wall)
        if arrival.extras is not None:
            notices.watch(world, arrival)
        if arrival.concurrency is not None:
            _heed(world, arrival, now)  # before its row is written, so that this is done once
        if not queue.known:
            asks.make_known(world, arrival.queue, now)
        state = State.SCHEDULED if arrival.place > now.wall else State.QUEUED
        self._told_with(queue, state, arrival.shape).append(arrival.job)
        if queue.has_flows:
            self._count_flow(queue, arrival.flow, 1)
        surplus = queue.own.surplus(arrival)
        if surplus is not None:
            asks.give_up(world, surplus._replace(queue=queue.path), now)

    def tell(self, group: Alike) -> None:
        """Tell of jobs that were put at one stroke."""
        queue, due = self.world.tree.queues[group.queue], bisect_right(group.places, self.now.wall)
        if due:
            self._told_with(queue, State.QUEUED, group.shape).extend(group.jobs[:due])
        if due < len(group.jobs):
            self._told_with(queue, State.SCHEDULED, group.shape).extend(group.jobs[due:])
        if queue.has_flows:
            self._count_flow(queue, group.flow, len(group.jobs))

    def count(self) -> None:
        """Count them all, when all are there."""
        for (queue, _, _), jobs in self._came.items():
            self.world.advice.arrived(queue, len(jobs), self.now.mono)
            self.world.counts.submitted += len(jobs)
        for (queue, flow), count in self._flows.items():
            self.world.advice.flow_arrived(queue, flow, count)

    def _count_flow(self, queue: Queue, flow: str | None, count: int) -> None:
        self._flows[queue, flow] = self._flows.get((queue, flow), 0) + count

    def _told_with(self, queue: Queue, state: State, shape: Shape) -> list[int]:
        """Return the jobs that are told of together with one like this."""
        alike = (queue, state, shape)
        if alike != self._alike:
            known, self._alike = len(self._came), alike
            self._jobs = self._came.setdefault(alike, [])
            if len(self._came) > known:
                news = News("job.submitted", self.now.wall, self._jobs, queue.path, state, task=shape.task)
                self.world.plan.batch.news.append(news)
        return self._jobs


def _put_alike(coming: Coming, arrivals: Sequence[Arrival]) -> Iterator[Arrival]:
    """Let those wait that can be put at one stroke; yield each of the others when it is its turn."""
    if len(arrivals) <= FEW or coming.world.tree.bounded:
        yield from arrivals
        return
    alike, others = together(arrivals)
    for group, is_put in loading.put_groups(coming.world, alike, coming.now):
        if is_put:
            coming.tell(group)
        else:
            yield from group.arrivals()
    yield from others


def _block(world: World, arrival: Arrival, now: Moment) -> None:
    """Take in a new job that waits for others."""
    blocked.admit(world, arrival)
    notices.watch(world, arrival)
    asks.make_known(world, arrival.queue, now)
    _heed(world, arrival, now)
    news = News(
        "job.submitted", now.wall, (arrival.job,), arrival.queue, State.BLOCKED, task=arrival.shape.task
    )
    world.plan.batch.news.append(news)
    world.counts.submitted += 1


def _heed(world: World, arrival: Arrival, now: Moment) -> None:
    """Give the queue the limit that the job's submitter wants for it, if any; the last one wins."""
    if arrival.concurrency is not None:
        queue = world.tree.grow(arrival.queue)
        wanted = replace(queue.settings, limit=arrival.concurrency)
        if why_refused(queue, wanted) is None:  # nobody is there to be told
            asks.change_queue(world, queue, wanted, now, f"job {show(arrival.job)}")
