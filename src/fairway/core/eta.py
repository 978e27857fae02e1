"""When a waiting job will start: what stands before it, by what its queue gets, and how far to trust that.

The expected wait is the work ahead of a job in its own queue (jobs ahead, times the slot-seconds that one
takes there) by the slots that the queue will be given, as the backlogs of its rivals run dry (fluid.py).

How far off that is nobody can compute beforehand: it depends on who comes, and with what. So the leader keeps
score. It notes what it would have said of some jobs as they came, and when they begin, how much longer than
said that took. The bounds of a new answer are quantiles of those ratios; with fewer than 20 of them there is
no answer. It also keeps score of the bounds themselves: after one that did not hold the next are wider, after
many that did they are narrower, so that the right part of them holds whatever the load does (this is called
adaptive conformal inference). Waits are compared with one job's work added: no forecast is finer than that.
Jobs that were said to start at once are kept apart: how they fared says nothing of those that have to wait.
(Ratios by queue and by the length of the wait were tried: bounds held less often, for the few of one kind are
of the same minute.)
Owned by the world; nothing here changes what begins when.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from fairway.core.fluid import Stream, seconds_until_served
from fairway.core.look import MemberLook, QueueLook, WorldLook
from fairway.core.model import SLOT, Arrival, Moment
from fairway.core.queue import Queue

if TYPE_CHECKING:
    from fairway.core.world import Worker

ENOUGH = 20  # ratios before there is an answer
KEPT = 1000  # ratios of each kind: long enough to have seen several changes of load
MOST_PENDING = 1000  # jobs whose begin is awaited
SAMPLE_SECONDS = 0.1  # between two samples
GRAIN = 0.02  # seconds that are added at least to waits that are compared
MOST_STREAMS = 50  # queues whose backlogs are followed
DEEPEST = 1000  # jobs of a queue of which it is counted how many are due
LATEST = 253_402_300_799_000_000  # the year 9999, in microseconds: nobody can write a later time
PRIOR = [4.0 ** (step / 10) for step in range(-10, 11)]  # counted in: the first twenty are of one minute only
MISSES = 0.035  # the part of low, and of high bounds that may fail: below 5 %, for what is learnt is past
STEP = 0.01  # by how much more, or less, of the ratios the next bounds leave out
#: What is told of a long wait is later, by up to two fifths, than what was learnt: when a worker leaves, a
#: limit is lowered or somebody with more weight comes, all who wait are late together, before anything could
#: be learnt of it. (In four runs of 2,000 jobs under changing load the bounds held for 86 to 95 %; so they
#: would have held for 89 to 99 %.) A wait of a few jobs is over before that, and its bounds are wide enough:
#: a long one is many more than FAR jobs long. Only what is told has this margin, not what is learnt from.
MARGIN, FAR = 0.4, 30
MOST_LEFT_OUT, LEAST_LEFT_OUT = 0.1, -0.1  # below 0: wider than anything seen


class Eta(NamedTuple):
    """When a job is expected to start, in wall time, with bounds for half and for nine tenths of all."""

    starts_at: int
    p50: tuple[int, int]
    p90: tuple[int, int]
    basis: str


class Expectation(NamedTuple):
    """How long a job is expected to wait from now on, how finely that can be said at all, and why.

    *step* is about what one job ahead takes: a job's length, or what a rate lets pass between two. It waits
    no less than *least*: before that the rates have no token for it, whatever was learnt.
    """

    seconds: float
    grain: float
    basis: str
    step: float = GRAIN
    least: float = 0.0


class Word(NamedTuple):
    """What was said of a job: when, and how long it would wait; waits are compared with *grain* added."""

    at: float
    seconds: float
    grain: float
    queue: QueueLook
    bounds: tuple[float, float] | None = None  # the waits that nine tenths should have

    @property
    def waits(self) -> bool:
        """Whether it was said to wait at all."""
        return self.seconds > 0.0

    def ratio(self, mono: float) -> float:
        """Return how many times longer than said it has waited until now."""
        return (mono - self.at + self.grain) / (self.seconds + self.grain)


class Forecasts:
    """What was said of some jobs, and how it turned out."""

    def __init__(self) -> None:
        self._pending: dict[int, Word] = {}  # by job
        # Of those that should start at once, and of those that should wait.
        self._ratios: dict[bool, deque[float]] = {waits: deque(maxlen=KEPT) for waits in (False, True)}
        # Of these, below the low and above the high bound; at first all that was seen is inside.
        self._left_out = {waits: [0.0, 0.0] for waits in (False, True)}
        self._sampled_at = float("-inf")
        self._draws = 0

    def sample(self, world: WorldLook, arrivals: Sequence[Arrival], now: Moment) -> None:
        """Note what would be said of one of these jobs that have just come to wait."""
        if now.mono < self._sampled_at + SAMPLE_SECONDS or not arrivals:
            return
        self._sampled_at = now.mono
        self._draws += 1
        job = arrivals[self._draws * 7919 % len(arrivals)]  # not always the first of a bulk, nor the last
        queue = world.tree.find(job.queue)
        if queue is None or job.place > now.wall or job.job in world.live or job.blocked:
            return
        found = expect(world, job, now)
        if found is not None:
            self._make_room(now.mono)
            if len(self._pending) < MOST_PENDING:
                bounds = self.bounds(found.seconds, found.grain, now.mono)
                wide = None if bounds is None else (bounds[0], bounds[3])
                self._pending[job.job] = Word(now.mono, found.seconds, found.grain, queue, wide)

    def began(self, jobs: Iterable[int], mono: float) -> None:
        """Jobs begin: learn from those of which something was said."""
        if self._pending and not self._pending.keys().isdisjoint(jobs):
            for job in jobs:
                if (word := self._pending.pop(job, None)) is not None:
                    self._ratios[word.waits].append(word.ratio(mono))
                    self._learn(word, mono)

    def _learn(self, word: Word, mono: float) -> None:
        """Let the next bounds be wider if these did not hold, else a little narrower."""
        if word.bounds is not None:
            waited, both = mono - word.at, self._left_out[word.waits]
            for side, missed in enumerate((waited < word.bounds[0], waited > word.bounds[1])):
                left_out = both[side] + STEP * (MISSES - missed)
                both[side] = min(max(left_out, LEAST_LEFT_OUT), MOST_LEFT_OUT)

    def forget(self, job: int) -> None:
        """A job will not begin, or not as it was when something was said of it."""
        self._pending.pop(job, None)

    def forget_branch(self, top: QueueLook) -> None:
        """A queue was stopped by hand: how long its jobs wait now says nothing of others."""
        stopped = [job for job, word in self._pending.items() if top in word.queue.path_up()]
        for job in stopped:
            del self._pending[job]

    def bounds(self, seconds: float, grain: float, mono: float) -> list[float] | None:
        """Return low, quarter, three quarters and high of the waits that such jobs have had, if known."""
        for waits in dict.fromkeys((seconds > 0.0, True)):
            known = [*self._ratios[waits], *self._overdue(mono, waits)]
            if len(known) >= ENOUGH:
                break
        else:
            return None
        ranked = sorted([*known, *PRIOR])
        waits = seconds > 0.0
        below, above = self._left_out[waits]
        above -= STEP * self._missed(mono, waits)
        low = _quantile(ranked, max(below, 0.0)) / _beyond(below)
        high = _quantile(ranked, 1 - max(above, 0.0)) * _beyond(above)
        picked = (low, _quantile(ranked, 0.25), _quantile(ranked, 0.75), high)
        return [max(ratio * (seconds + grain) - grain, 0.0) for ratio in picked]

    def _overdue(self, mono: float, waits: bool) -> list[float]:
        """Return the ratios that jobs which still wait have reached already, where they say something.

        Without them a growing backlog would be noticed only when its first jobs begin.
        """
        return [
            word.ratio(mono)
            for word in self._pending.values()
            if word.waits == waits and mono - word.at > word.seconds
        ]

    def _missed(self, mono: float, waits: bool) -> int:
        """Count the jobs that still wait although their bounds are past: no need to await their begin."""
        return sum(
            word.bounds is not None and word.waits == waits and mono - word.at > word.bounds[1]
            for word in self._pending.values()
        )

    def _make_room(self, mono: float) -> None:
        """Drop the oldest if it should have begun long ago: it was taken away in some other manner."""
        if len(self._pending) >= MOST_PENDING:
            job, word = next(iter(self._pending.items()))
            if mono - word.at > 100 * (word.seconds + 60.0):
                del self._pending[job]


def _quantile(ranked: Sequence[float], part: float) -> float:
    return ranked[round(part * (len(ranked) - 1))]


def _beyond(left_out: float) -> float:
    """Return how far outside of all that was seen a bound is to be, when too many have failed."""
    return float(2.0 ** min(max(left_out / LEAST_LEFT_OUT, 0.0), 1.0))


def eta(world: WorldLook, job: Arrival, now: Moment, ahead: int | None = None) -> Eta | None:
    """Say when a waiting job will start; None if nobody can. *ahead*: how many stand before it, if known."""
    found = None if job.blocked else expect(world, job, now, ahead)
    if found is None:
        return None
    # A job that is not due counts from its time; what is ahead of it now may have begun by then.
    due_in = max(job.place - now.wall, 0) / 1e6
    wait = max(found.seconds - due_in, 0.0)
    bounds = world.forecasts.bounds(wait, found.grain, now.mono)
    if bounds is None:
        return None
    bounds[3] *= 1.0 + MARGIN * wait / (wait + FAR * found.step)
    # The bounds were learnt: where such jobs began sooner or later than said, this one is said to, too.
    wait = min(max(wait, bounds[1]), bounds[2])
    least = max(found.least - due_in, 0.0)
    start = now.wall + round(due_in * 1e6)
    times = (min(start + round(max(one, least) * 1e6), LATEST) for one in (wait, *bounds))
    starts_at, low, quarter, three_quarters, high = times
    return Eta(starts_at, (quarter, three_quarters), (low, high), found.basis)


def expect(world: WorldLook, job: Arrival, now: Moment, ahead: int | None = None) -> Expectation | None:
    """Return how long a job may be expected to wait; None if it cannot begin as things are."""
    queue = world.tree.find(job.queue)
    if queue is None or any(node.settings.paused or node.settings.limit == 0 for node in queue.path_up()):
        return None
    fitting = _fitting(world, job)
    each = _mean_work(world, queue, job.shape.task)
    if not fitting or each is None:
        return None
    ahead = queue.ahead_of(job, now.wall) if ahead is None else ahead
    rated = _rate_wait(queue, ahead, now.mono)
    if not rated and ahead < _free_slots(fitting) and not any(node.full for node in queue.path_up()):
        return Expectation(0.0, GRAIN, "a slot is free")
    slots = sum(worker.spec.slots for worker in fitting)
    wait = _backlog_wait(world, queue, (ahead + 1) * each, slots, now)
    if wait == inf:
        return None
    if rated >= wait:
        step = rated / (ahead + 1)
        return Expectation(rated, GRAIN, f"{ahead} ahead of it, at the rate that is set", step, rated)
    grain = max(each, GRAIN)
    limits = [node.settings.limit for node in queue.path_up() if node.settings.limit is not None]
    basis = f"{ahead} ahead of it, {each:.2g} slot-seconds each, {min([slots, *limits])} slots to share"
    return Expectation(wait, grain, basis, grain, rated)


def _backlog_wait(world: WorldLook, queue: QueueLook, work: float, slots: int, now: Moment) -> float:
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


def _busy_lines(top: QueueLook) -> list[QueueLook]:
    """Return the queues whose own jobs run or could begin, a little more than is of use at most."""
    found: list[QueueLook] = []
    left = [top]
    while left and len(found) <= MOST_STREAMS:
        queue = left.pop()
        for member in queue.busy_members():
            if isinstance(member, Queue):
                left.append(member)
            else:
                found.append(queue)
    return found


def _due(queue: QueueLook, now: int) -> int:
    """Count the due jobs of a queue; in a deep one all are taken for due, for counting may take long."""
    return len(queue.own) if len(queue.own) > DEEPEST else queue.own.due_count(now)


def _way(queue: QueueLook) -> list[MemberLook]:
    """Return the members from a child of the root down to a queue's own line."""
    return [*[node for node in reversed(list(queue.path_up())) if node.parent is not None], queue.line]


def _fitting(world: WorldLook, job: Arrival) -> list[Worker]:
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


def _mean_work(world: WorldLook, queue: QueueLook, task: str) -> float | None:
    """Return the slot-seconds that a job takes: as others of its queue, else of its task, else of all did."""
    numbers = world.numbers.find(queue)
    own = numbers.mean_work() if numbers is not None else None
    own = own if own is not None else world.estimates.find(task)
    return own if own is not None else world.tree.turn_seconds


def _rate_wait(queue: QueueLook, ahead: int, mono: float) -> float:
    """Return the least wait that the rates above a queue allow."""
    waits = [0.0]
    for node in queue.path_up():
        if (bucket := node.bucket) is not None:
            waits.append((ahead + 1 - bucket.level(mono)) / bucket.rate)
    return max(waits)
