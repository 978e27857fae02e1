"""The turns of flows as they will be: the order of a fair queue's jobs, and how many come before one.

Reads a fair queue as it stands and plays its turns through on ghosts of its flows. Nothing of the queue
changes by it: a flow that has become due since its queue was asked for a job the last time joins the ring as
a ghost only. Flows that are hashed together are so by the seed that the queue goes by.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from heapq import heapify, heappop, heappush, nsmallest
from typing import NamedTuple, Protocol

from fairway.core.disciplines.fronts import Fits
from fairway.core.disciplines.looking import FORESEEN, Key, LineLook, Sample, Served, Told, spread
from fairway.core.model import Arrival, Shape

NOTHING = 1e-9  # of a credit
SAMPLED = 128  # flows that are looked at to guess how deep a job stands


class FlowLook(Protocol):
    """A flow that is only read."""

    @property
    def lines(self) -> Mapping[Key, LineLook]: ...
    @property
    def count(self) -> int: ...
    @property
    def number(self) -> int: ...
    @property
    def weight(self) -> float: ...
    @property
    def is_in(self) -> bool: ...
    @property
    def turn(self) -> int: ...
    @property
    def credit(self) -> float: ...
    @property
    def served(self) -> int: ...
    @property
    def account(self) -> AccountLook: ...

    def order(self, now: int, fits: Fits | None = None) -> Iterator[Served]: ...

    def ahead(self, key: Key, place: int, job: int, now: int, fits: Fits | None = None) -> int: ...

    def count_due(self, now: int, fits: Fits | None) -> int: ...


class AccountLook(Protocol):
    """The account of a flow that is only read."""

    @property
    def over(self) -> int: ...
    @property
    def loan(self) -> float: ...

    def standing(self, mono: float, ahead: float) -> float: ...

    def mean_seconds(self) -> float | None: ...


class FlowRing(NamedTuple):
    """A fair queue as its readers see it."""

    flows: Mapping[Hashable, FlowLook]
    by_seconds: bool
    mono: float  # and `ahead`: what standings are reckoned with, by seconds
    ahead: float
    average: float  # what the flows that compete have had, by seconds
    turns: int  # how many have been given
    credit: float  # that a job takes, by jobs
    seconds_of: Callable[[Shape], float]
    waiting: int  # jobs
    next_due: int | None  # when a flow is to be looked at because something becomes due
    version: int  # rises with every change

    def level(self, flow: FlowLook) -> float:
        """Return where a flow stands, by seconds."""
        return flow.account.standing(self.mono, self.ahead)

    def standing(self, flow: FlowLook) -> tuple[float, int]:
        """Return what decides whose turn it is; the least is next."""
        return (self.level(flow), flow.served) if self.by_seconds else (flow.turn, 0)

    def expected(self, flow: FlowLook, shape: Shape) -> float:
        """Return the seconds that a job of a flow is likely to take: as its others did, else as estimated."""
        return flow.account.mean_seconds() or self.seconds_of(shape)


class Ghost:
    """A flow as it would stand after some turns."""

    __slots__ = ("by_seconds", "credit", "flow", "jobs", "level", "loan", "served", "turn")

    def __init__(self, ring: FlowRing, flow: FlowLook, jobs: Iterator[Served]) -> None:
        self.by_seconds, self.flow, self.jobs = ring.by_seconds, flow, jobs
        self.turn, self.credit, self.served = flow.turn, flow.credit, flow.served
        self.level = ring.level(flow) if ring.by_seconds else 0.0
        self.loan = flow.account.loan  # to be paid with its first turn

    def standing(self) -> tuple[float, int]:
        """Return what decides whose turn it is; the least is next."""
        return (self.level, self.served) if self.by_seconds else (self.turn, 0)

    def join(self, average: float, least: float) -> None:
        """Stand as one that comes now: it has had no less than the others, and is next (`Contest.join`)."""
        if self.level >= average:
            return
        self.level = average
        if not self.flow.account.over:
            self.level = min(average, least)
            self.loan = (average - self.level) * self.flow.weight


def foreseen(ring: FlowRing, now: int, most: int, fits: Fits | None) -> Iterator[int]:
    """Yield the jobs as turns would be given, one by one, if workers fitted all of them."""
    ghosts = _ghosts(ring, now, most, fits)
    turns = served = max([ring.turns, *(ghost.turn for ghost in ghosts)])
    heap = [(*ghost.standing(), ghost.flow.number, number) for number, ghost in enumerate(ghosts)]
    heapify(heap)
    while heap and most:
        number = heappop(heap)[-1]
        ghost = ghosts[number]
        flow = ghost.flow
        if not ring.by_seconds and ghost.credit <= NOTHING:
            turns += 1
            ghost.turn, ghost.credit = turns, ghost.credit + flow.weight
        elif (found := next(ghost.jobs, None)) is not None:
            *_, job, shape = found
            yield job
            most -= 1
            turns += 1
            served += 1
            ghost.served = served
            if ring.by_seconds:
                ghost.level += (ghost.loan + ring.expected(flow, shape)) / flow.weight
                ghost.loan = 0.0
            else:
                ghost.credit -= ring.credit
                if ghost.credit <= NOTHING:
                    ghost.turn, ghost.credit = turns, ghost.credit + flow.weight
        else:
            continue
        heappush(heap, (*ghost.standing(), flow.number, number))


def _ghosts(ring: FlowRing, now: int, most: int, fits: Fits | None) -> list[Ghost]:
    """Return the flows that have a due job that fits, or as many as may have a turn."""
    due = [flow for flow in ring.flows.values() if due_shape(flow, now, fits) is not None]
    flows: Collection[FlowLook] = [flow for flow in due if flow.is_in]
    coming = [flow for flow in due if not flow.is_in]
    least = ring.average
    if coming and ring.by_seconds:
        least = min((ring.level(flow) for flow in flows), default=least)
    if len(flows) > 2 * most:  # each has a turn before the others; twice, for light ones may have to pass
        flows = nsmallest(2 * most, flows, key=lambda flow: (ring.standing(flow), flow.number))
    ghosts = [Ghost(ring, flow, flow.order(now, fits)) for flow in flows]
    coming.sort(key=lambda flow: (next_place(flow), flow.number))
    for turn, flow in enumerate(coming[: 2 * most], start=ring.turns + 1):
        ghost = Ghost(ring, flow, flow.order(now, fits))
        ghost.turn, ghost.credit = turn, flow.weight
        if ring.by_seconds:
            ghost.join(ring.average, least)
        ghosts.append(ghost)
    return ghosts


class Foresight:
    """What was told of a fair queue lately, for who asks next. Owned by the queue; only readers see it."""

    __slots__ = ("_sample", "_told", "_version")

    def __init__(self) -> None:
        self._version = -1
        self._told: Told | None = None
        self._sample: Sample[FlowLook] | None = None

    def forget(self) -> None:
        """All flows are different ones."""
        self._told = self._sample = None

    def ahead(
        self, ring: FlowRing, own: FlowLook | None, key: Key, job: Arrival, now: int, fits: Fits | None
    ) -> int:
        """Count the due jobs that would be served before this one of flow *own*."""
        guess = 0
        if own is not None and ring.waiting > FORESEEN:
            guess = self._guess(ring, own, key, job, now, fits)
        if guess > 2 * FORESEEN:
            return guess
        if self._told is None or self._version != ring.version or not self._told.holds(now):
            self._told, self._version = Told(now, ring.next_due), ring.version
        told = self._told.positions(fits, lambda: foreseen(ring, now, FORESEEN, fits))
        return told.get(job.job, max(guess, len(told)))

    def _guess(
        self, ring: FlowRing, own: FlowLook, key: Key, job: Arrival, now: int, fits: Fits | None
    ) -> int:
        """Guess how many come before a job that stands deep: by then all flows have come as far as its."""
        before = own.ahead(key, job.place, job.job, now, fits)
        rounds = before / own.weight
        level = ring.level(own) + rounds * ring.expected(own, job.shape) if ring.by_seconds else 0.0
        total = 0.0
        for flow, times in self._some(ring, now):
            shape = due_shape(flow, now, fits) if flow is not own else None
            if shape is not None:
                turns = rounds
                if ring.by_seconds:
                    turns = max(level - ring.level(flow), 0.0) / max(ring.expected(flow, shape), NOTHING)
                total += min(turns * flow.weight, flow.count_due(now, fits)) * times
        return before + int(total)

    def _some(self, ring: FlowRing, now: int) -> list[tuple[FlowLook, float]]:
        if self._sample is None or not self._sample.holds(now):
            self._sample = Sample(now, spread(ring.flows.values(), lambda flow: flow.count, SAMPLED))
        return self._sample.some


def due_shape(flow: FlowLook, now: int, fits: Fits | None) -> Shape | None:
    """Return a shape of which a flow has a due job that fits."""
    for key, line in flow.lines.items():
        if line.first_place() <= now and (fits is None or fits(key.shape)):
            return key.shape
    return None


def next_place(flow: FlowLook) -> int:
    """Return the least place of a job of a flow; it must have one."""
    return min(line.first_place() for line in flow.lines.values())
