"""Numbers of each queue and flow: how many came, began and ended, how fast, how long they waited and ran.

Counted once for each record, which names many jobs, never for each job; and at the job's own queue only:
the numbers of a branch are put together when somebody looks. Rates fade with a half-life of a minute,
percentiles with one of ten. Fading costs nothing: instead of making old counts smaller, new ones are counted
for more, by a weight that all queues share; every few hours everything is scaled back.

Soft: a new leader starts them anew. Bounded: what comes when there is no room is counted all together.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from itertools import chain
from math import log
from typing import NamedTuple

from fairway.core.look import QueueLook
from fairway.core.sketch import Sketch

HALF_LIFE, LONG_HALF_LIFE = 60.0, 600.0  # seconds: of rates, of percentiles
SCALE_AFTER = 500 * HALF_LIFE  # the weight is 2 ** 500 by then
LEAST_AGE = 1.0  # what came in a queue's first second is not taken for more than that a second
MOST_QUEUES = 20_000
MOST_FLOWS = 20_000  # of all queues together; those seen longest ago are forgotten
PARTS = (0.5, 0.9, 0.99)

FlowName = tuple[QueueLook, str | None]


class Figures(NamedTuple):
    """Numbers as people read them. Rates are per second; wait and run are seconds at `PARTS`, or empty."""

    begun: int
    ended: int
    rate_in: float
    rate_begun: float
    rate_out: float
    wait: list[float]
    run: list[float]
    errors: float | None  # the part of recent attempts that went wrong


class Numbers:
    """What was counted for one queue's own jobs, or for one flow. All but the counts are weighed."""

    __slots__ = (
        "begun", "came", "ended", "failed", "failures", "held", "out", "ran", "run", "since", "slot_seconds",
        "started", "wait",
    )  # fmt: skip

    def __init__(self, mono: float) -> None:
        self.since = mono
        self.begun = self.ended = self.failures = 0  # attempts, ever
        self.came = self.started = self.out = self.failed = 0.0  # for rates
        self.ran = self.held = 0.0  # runs and the slot-seconds they held, for the average
        self.slot_seconds = 0.0  # of attempts that ended
        self.wait, self.run = Sketch(), Sketch()

    def merge(self, other: Numbers) -> None:
        """Take in what was counted elsewhere."""
        self.since = min(self.since, other.since)
        self.begun += other.begun
        self.ended += other.ended
        self.failures += other.failures
        self.came += other.came
        self.started += other.started
        self.out += other.out
        self.failed += other.failed
        self.ran += other.ran
        self.held += other.held
        self.slot_seconds += other.slot_seconds
        self.wait.merge(other.wait)
        self.run.merge(other.run)

    def scale(self, factor: float, slow: float) -> None:
        """Make what was counted so far count for less."""
        for name in ("came", "started", "out", "failed"):
            setattr(self, name, getattr(self, name) * factor)
        self.ran, self.held = self.ran * slow, self.held * slow
        self.wait.scale(slow)
        self.run.scale(slow)

    def mean_work(self) -> float | None:
        """Return the slot-seconds that a run takes on average, if there was one."""
        return self.held / self.ran if self.ran > 0.0 else None


class NumberBook:
    """The numbers of all queues and flows. Owned by the world; touched only from the engine's task."""

    def __init__(self) -> None:
        self._queues: dict[QueueLook, Numbers] = {}
        self._flows: dict[FlowName, Numbers] = {}  # of flows, the half seen last
        self._flows_before: dict[FlowName, Numbers] = {}  # and the half before it
        self.rest = Numbers(0.0)  # of queues that are too many, or gone
        self._origin: float | None = None
        self._at = 0.0
        self._weight = self._slow = 1.0  # of what is counted at `_at`

    # --- counting --------------------------------------------------------------------------------------
    def arrived(self, queue: QueueLook, count: int, mono: float) -> None:
        """Jobs came to wait."""
        if mono != self._at:
            self._pass_time(mono)
        numbers = self._queues.get(queue) or self._grow(queue)
        numbers.came += count * self._weight

    def flow_arrived(self, queue: QueueLook, flow: str | None, count: int) -> None:
        """Jobs of one flow came to wait; called after `arrived`, where flows take turns."""
        self._flow(queue, flow).came += count * self._weight

    def began(self, queue: QueueLook, count: int, wait: float, mono: float) -> None:
        """Jobs began together after about so many seconds."""
        if mono != self._at:
            self._pass_time(mono)
        numbers = self._queues.get(queue) or self._grow(queue)
        self._count_begun(numbers, count, wait)

    def flow_began(self, queue: QueueLook, flow: str | None, count: int, wait: float) -> None:
        """Jobs of one flow began; called after `began`, where flows take turns."""
        self._count_begun(self._flow(queue, flow), count, wait)

    def ended(
        self, queue: QueueLook, count: int, seconds: float, held: float, failed: bool, mono: float
    ) -> None:
        """Attempts ended that ran for *seconds* and held *held* slot-seconds altogether."""
        if mono != self._at:
            self._pass_time(mono)
        numbers = self._queues.get(queue) or self._grow(queue)
        self._count_ended(numbers, count, seconds, held, failed)

    def flow_ended(
        self, queue: QueueLook, flow: str | None, count: int, seconds: float, held: float, failed: bool
    ) -> None:
        """Attempts of one flow ended; called after `ended`, where flows take turns."""
        self._count_ended(self._flow(queue, flow), count, seconds, held, failed)

    def forget(self, queue: QueueLook) -> None:
        """A queue is gone: what it counted goes to its parent, so that no sum ever falls."""
        gone = self._queues.pop(queue, None)
        if gone is not None:
            parent = queue.parent
            heir = self.rest if parent is None or parent.parent is None else self._grow(parent)
            heir.merge(gone)
            for flows in (self._flows, self._flows_before):
                for key in [key for key in flows if key[0] is queue]:
                    del flows[key]

    # --- looking: changes nothing -------------------------------------------------------------------------
    def find(self, queue: QueueLook) -> Numbers | None:
        """Return what was counted for a queue's own jobs."""
        return self._queues.get(queue)

    def of_branch(self, queue: QueueLook) -> Numbers:
        """Return the numbers of a queue and all below it."""
        return self._sum(queue.subtree())

    def of_branches(self, queues: Sequence[QueueLook]) -> dict[QueueLook, Numbers]:
        """Return the numbers of some branches, parents before children, as they were given."""
        found: dict[QueueLook, Numbers] = {queue: Numbers(self._at) for queue in queues}
        wanted = set(queues)
        for queue in reversed(queues):  # children come before their parents
            whole = found[queue]
            whole.merge(self._sum(self._apart(queue, wanted)))
            for child in queue.children.values():
                if child in wanted:
                    whole.merge(found[child])
        return found

    def _apart(self, queue: QueueLook, wanted: Container[QueueLook]) -> Iterator[QueueLook]:
        """Yield a queue and all below it, but for those branches that are counted by themselves."""
        yield queue
        for child in queue.children.values():
            if child not in wanted:
                yield from self._apart(child, wanted)

    def of_tenants(self) -> dict[QueueLook, Numbers]:
        """Return the numbers of each child of the root of whose branch something was counted."""
        found: dict[QueueLook, Numbers] = {}
        for queue, own in self._queues.items():
            tenant = queue
            while tenant.parent is not None and tenant.parent.parent is not None:
                tenant = tenant.parent
            found.setdefault(tenant, Numbers(self._at)).merge(own)
        return found

    def flows(self, queue: QueueLook) -> dict[str | None, Numbers]:
        """Return what was counted for the flows of a queue."""
        both = chain(self._flows_before.items(), self._flows.items())
        return {flow: numbers for (owner, flow), numbers in both if owner is queue}

    def rate(self, counted: float, since: float, mono: float) -> float:
        """Return what was counted as so many a second."""
        passed = 0.0 if self._origin is None else mono - self._origin
        seen: float = 1.0 - 0.5 ** (max(mono - since, LEAST_AGE) / HALF_LIFE)
        return float(counted * 0.5 ** (passed / HALF_LIFE) * log(2) / HALF_LIFE / seen)

    def figures(self, numbers: Numbers, mono: float) -> Figures:
        """Return numbers as people read them."""
        return Figures(
            begun=numbers.begun,
            ended=numbers.ended,
            rate_in=round(self.rate(numbers.came, numbers.since, mono), 4),
            rate_begun=round(self.rate(numbers.started, numbers.since, mono), 4),
            rate_out=round(self.rate(numbers.out, numbers.since, mono), 4),
            wait=[round(one, 4) for one in numbers.wait.quantiles(PARTS)],
            run=[round(one, 4) for one in numbers.run.quantiles(PARTS)],
            errors=round(numbers.failed / numbers.out, 4) if numbers.out > 0.0 else None,
        )

    # --- inside ----------------------------------------------------------------------------------------
    def _count_begun(self, numbers: Numbers, count: int, wait: float) -> None:
        numbers.begun += count
        numbers.started += count * self._weight
        numbers.wait.add(wait, count * self._slow)

    def _count_ended(self, numbers: Numbers, count: int, seconds: float, held: float, failed: bool) -> None:
        numbers.ended += count
        numbers.out += count * self._weight
        if failed:
            numbers.failures += count
            numbers.failed += count * self._weight
        slow = self._slow
        numbers.ran += count * slow
        numbers.held += held * slow
        numbers.slot_seconds += held
        numbers.run.add(seconds / count, count * slow)

    def _grow(self, queue: QueueLook) -> Numbers:
        numbers = self._queues.get(queue)
        if numbers is None:
            if len(self._queues) >= MOST_QUEUES:
                return self.rest
            numbers = self._queues[queue] = Numbers(self._at)
        return numbers

    def _flow(self, queue: QueueLook, flow: str | None) -> Numbers:
        name = (queue, flow)
        numbers = self._flows.get(name)
        if numbers is None:
            numbers = self._flows_before.pop(name, None) or Numbers(self._at)
            # By halves: to look for the oldest in a dictionary that loses its first all the time took 6 µs.
            if len(self._flows) >= MOST_FLOWS // 2:
                self._flows, self._flows_before = {}, self._flows
            self._flows[name] = numbers
        return numbers

    def _sum(self, queues: Iterable[QueueLook]) -> Numbers:
        whole = Numbers(self._at)
        for queue in queues:
            if (own := self._queues.get(queue)) is not None:
                whole.merge(own)
        return whole

    def _all(self) -> Iterable[Numbers]:
        flows = chain(self._flows.values(), self._flows_before.values())
        return chain((self.rest,), self._queues.values(), flows)

    def _pass_time(self, mono: float) -> None:
        if self._origin is None:
            self._origin = mono
        elif mono - self._origin > SCALE_AFTER:
            passed, self._origin = mono - self._origin, mono
            for numbers in self._all():
                numbers.scale(0.5 ** (passed / HALF_LIFE), 0.5 ** (passed / LONG_HALF_LIFE))
        self._at = mono
        self._weight = 2.0 ** ((mono - self._origin) / HALF_LIFE)
        self._slow = 2.0 ** ((mono - self._origin) / LONG_HALF_LIFE)
