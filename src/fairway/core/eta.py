"""When a waiting job will start: what stands before it, by what its queue gets, and how far to trust that.

The expected wait is the work ahead of a job in its own queue (jobs ahead, times the slot-seconds that one
takes there) by the slots that the queue will be given, as the backlogs of its rivals run dry (fluid.py).

How far off that is nobody can compute beforehand: it depends on who comes, and with what. So the leader keeps
score. It notes what it would have said of some jobs as they came, and when they begin, how much longer than
said that took. The bounds of a new answer are quantiles of those ratios, of waits of about the same length;
with fewer than 20 of them there is no answer. Owned by the world; nothing here changes what begins when.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from math import floor, inf, log10
from typing import TYPE_CHECKING, NamedTuple

from fairway.core.fluid import Stream, seconds_until_served
from fairway.core.member import Member
from fairway.core.model import SLOT, Arrival, Moment
from fairway.core.queue import Queue

if TYPE_CHECKING:
    from fairway.core.world import Worker, World

ENOUGH = 20  # ratios before there is an answer
KEPT = 500  # ratios of each order of magnitude
MOST_PENDING = 1000  # jobs whose begin is awaited
SAMPLE_SECONDS = 0.1  # between two samples
GRAIN = 0.05  # seconds: waits are compared with this added, so that two short ones are about equal
MOST_STREAMS = 50  # queues whose backlogs are followed
DEEPEST = 1000  # jobs of a queue that are looked at one by one, for a sample
QUANTILES = (0.025, 0.25, 0.75, 0.975)  # a little outside 5 % and 95 %: the ratios are of the past


class Eta(NamedTuple):
    """When a job is expected to start, in wall time, with bounds for half and for nine tenths of all."""

    starts_at: int
    p50: tuple[int, int]
    p90: tuple[int, int]
    basis: str


class Expectation(NamedTuple):
    """How long a job is expected to wait from now on, and why."""

    seconds: float
    basis: str


class Forecasts:
    """What was said of some jobs, and how it turned out."""

    def __init__(self) -> None:
        self._pending: dict[int, tuple[float, float]] = {}  # job → when it was said, and what
        self._ratios: dict[int, deque[float]] = {}  # by the order of magnitude of what was said
        self._sampled_at = float("-inf")
        self._draws = 0

    def sample(self, world: World, arrivals: Sequence[Arrival], now: Moment) -> None:
        """Note what would be said of one of these jobs that have just come to wait."""
        if now.mono < self._sampled_at + SAMPLE_SECONDS or not arrivals:
            return
        self._sampled_at = now.mono
        self._draws += 1
        job = arrivals[self._draws * 7919 % len(arrivals)]  # not always the first of a bulk, nor the last
        queue = world.tree.find(job.queue)
        if queue is None or job.place > now.wall or job.job in world.live or job.blocked:
            return
        if queue.own.name == "sfq" and len(queue.own) > DEEPEST:
            return
        found = expect(world, job, now)
        if found is not None:
            self._make_room(now.mono)
            if len(self._pending) < MOST_PENDING:
                self._pending[job.job] = (now.mono, found.seconds)

    def began(self, jobs: Iterable[int], mono: float) -> None:
        """Jobs begin: learn from those of which something was said."""
        if self._pending and not self._pending.keys().isdisjoint(jobs):
            for job in jobs:
                if (said := self._pending.pop(job, None)) is not None:
                    ratios = self._ratios.setdefault(_magnitude(said[1]), deque(maxlen=KEPT))
                    ratios.append(_ratio(mono - said[0], said[1]))

    def forget(self, job: int) -> None:
        """A job will not begin, or not as it was when something was said of it."""
        self._pending.pop(job, None)

    def bounds(self, seconds: float, mono: float) -> list[float] | None:
        """Return the waits that `QUANTILES` of such jobs have had, if enough is known."""
        magnitude = _magnitude(seconds)
        ratios = [*self._ratios.get(magnitude, ()), *self._overdue(mono, magnitude)]
        if len(ratios) < ENOUGH:
            # That jobs start at once where slots are free says nothing of those that have to wait.
            waited = [known for of, known in self._ratios.items() if of != AT_ONCE]
            ratios = [ratio for known in waited for ratio in known] + self._overdue(mono, None)
        if len(ratios) < ENOUGH:
            return None
        ranked = sorted(ratios)
        picked = (ranked[round(part * (len(ranked) - 1))] for part in QUANTILES)
        return [max(ratio * (seconds + GRAIN) - GRAIN, 0.0) for ratio in picked]

    def _overdue(self, mono: float, magnitude: int | None) -> list[float]:
        """Return the ratios that jobs which still wait have reached already, where they say something.

        Without them a growing backlog would be noticed only when its first jobs begin.
        """
        return [
            _ratio(mono - at, seconds)
            for at, seconds in self._pending.values()
            if mono - at > seconds and magnitude in (None, _magnitude(seconds))
        ]

    def _make_room(self, mono: float) -> None:
        """Drop the oldest if it should have begun long ago: it was taken away in some other manner."""
        if len(self._pending) >= MOST_PENDING:
            job, (at, seconds) = next(iter(self._pending.items()))
            if mono - at > 100 * (seconds + 60.0):
                del self._pending[job]


def eta(world: World, job: Arrival, now: Moment, ahead: int | None = None) -> Eta | None:
    """Say when a waiting job will start; None if nobody can. *ahead*: how many stand before it, if known."""
    found = None if job.blocked else expect(world, job, now, ahead)
    if found is None:
        return None
    # A job that is not due counts from its time; what is ahead of it now may have begun by then.
    due_in = max(job.place - now.wall, 0) / 1e6
    wait = max(found.seconds - due_in, 0.0)
    bounds = world.forecasts.bounds(wait, now.mono)
    if bounds is None:
        return None
    start = now.wall + round(due_in * 1e6)
    low, quarter, three_quarters, high = (start + round(one * 1e6) for one in bounds)
    return Eta(start + round(wait * 1e6), (quarter, three_quarters), (low, high), found.basis)


def expect(world: World, job: Arrival, now: Moment, ahead: int | None = None) -> Expectation | None:
    """Return how long a job may be expected to wait; None if it cannot begin as things are."""
    queue = world.tree.find(job.queue)
    if queue is None or any(node.settings.paused or node.settings.limit == 0 for node in queue.path_up()):
        return None
    fitting = _fitting(world, job)
    each = _mean_work(world, queue, job.shape.task)
    if not fitting or each is None:
        return None
    ahead = queue.own.ahead(job, now.wall) if ahead is None else ahead
    rated = _rate_wait(queue, ahead, now.mono)
    if not rated and ahead < _free_slots(fitting) and not any(node.full for node in queue.path_up()):
        return Expectation(0.0, "a slot is free")
    slots = sum(worker.spec.slots for worker in fitting)
    wait = _backlog_wait(world, queue, (ahead + 1) * each, slots, now)
    if wait == inf:
        return None
    if rated >= wait:
        return Expectation(rated, f"{ahead} ahead of it, at the rate that is set")
    return Expectation(wait, f"{ahead} ahead of it, {each:.2g} slot-seconds each, {slots} slots to share")


def _backlog_wait(world: World, queue: Queue, work: float, slots: int, now: Moment) -> float:
    """Return when the work that stands before a job, and its own part of a slot, will have been begun."""
    lines = _busy_lines(world.tree.root)
    if len(lines) > MOST_STREAMS:  # by what it gets now, then
        return work / max(queue.line.held / SLOT, slots / len(lines))
    each = _mean_work(world, queue, "") or 1.0
    rivals = [
        Stream(_way(one), (_mean_work(world, one, "") or each) * _due(one, now.wall))
        for one in lines
        if one is not queue
    ]
    return seconds_until_served([one for one in rivals if one.work], Stream(_way(queue), work), slots)


def _busy_lines(top: Queue) -> list[Queue]:
    """Return the queues whose own jobs run or could begin, a little more than is of use at most."""
    found: list[Queue] = []
    left = [top]
    while left and len(found) <= MOST_STREAMS:
        queue = left.pop()
        for member in queue.busy_members():
            if isinstance(member, Queue):
                left.append(member)
            else:
                found.append(queue)
    return found


def _due(queue: Queue, now: int) -> int:
    """Count the due jobs of a queue; in a deep one all are taken for due, for counting may take long."""
    return len(queue.own) if len(queue.own) > DEEPEST else queue.own.due_count(now)


def _way(queue: Queue) -> list[Member]:
    """Return the members from a child of the root down to a queue's own line."""
    return [*[node for node in reversed(list(queue.path_up())) if node.parent is not None], queue.line]


def _fitting(world: World, job: Arrival) -> list[Worker]:
    return [
        worker
        for worker in world.workers.values()
        if worker.connected
        and not worker.draining
        and worker.kind.attached(job.queue)
        and worker.kind.fits(job.shape)
    ]


def _free_slots(fitting: Iterable[Worker]) -> int:
    return sum(worker.free // SLOT for worker in fitting if worker.takes_more)


def _mean_work(world: World, queue: Queue, task: str) -> float | None:
    numbers = world.numbers.find(queue)
    own = numbers.mean_work() if numbers is not None else None
    return own if own is not None else world.estimates.find(task)


def _rate_wait(queue: Queue, ahead: int, mono: float) -> float:
    """Return the least wait that the rates above a queue allow."""
    waits = [0.0]
    for node in queue.path_up():
        if (bucket := node.bucket) is not None:
            waits.append((ahead + 1 - bucket.level(mono)) / bucket.rate)
    return max(waits)


def _ratio(waited: float, said: float) -> float:
    return (waited + GRAIN) / (said + GRAIN)


def _magnitude(seconds: float) -> int:
    return floor(log10(max(seconds, GRAIN)))


AT_ONCE = _magnitude(0.0)
