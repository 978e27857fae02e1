"""All that a leader knows: the tree, the fleet, the live attempts, and the plan being made.

One `World` per term, owned by the core; the modules beside this one are the verbs on it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from fairway.core.advice import Advice
from fairway.core.ahead import leave
from fairway.core.blocked import Blocked
from fairway.core.estimates import Estimates
from fairway.core.eta import Forecasts
from fairway.core.matching import WorkerClass, class_key
from fairway.core.model import (
    CLEAN,
    DEFAULT_RULES,
    SLOT,
    Arrival,
    Extras,
    Ledger,
    Rules,
    Shape,
    Timers,
    WorkerSpec,
)
from fairway.core.numbers import NumberBook
from fairway.core.plan import Acks, Plan
from fairway.core.queue import Queue
from fairway.core.tree import Tree

MOST_AHEAD = 4  # that are begun ahead for each that runs


class Live:
    """A live attempt: begun in the store (or about to be), counted against every limit above it.

    What is so for nearly all of them stands at the class: a hundred thousand a second are made.
    """

    job: int
    queue: Queue
    shape: Shape
    priority: int
    place: int
    worker: Worker
    incarnation: str
    size: int
    named_at: float  # when its worker last named it, or it was begun
    begun_at: float
    bundle: int
    attempt: int = 0  # until the store has said which it became
    generation: int = 0
    rules: Rules = DEFAULT_RULES
    ledger: Ledger = CLEAN
    unique: str | None = None
    cancelling: bool = False
    force: bool = False
    replaced: bool = False  # a newer job took its unique key: it is not tried again
    recalled: bool = False  # its worker is asked to hand it back
    kill: bool = False  # its worker ends it before the lease can be taken
    brief: bool = False  # it is known to be short; those of a bundle are, too
    ahead: bool = False  # begun before a slot was free: it holds none before another attempt ends
    started_at: int | None = None  # of one that was begun ahead: when it held one at last
    found: bool = False  # begun by an earlier leader, in what size is not known
    flow: str | None = None
    extras: Extras | None = None  # of a job with a deadline, of one that was found running or is recalled

    def __init__(
        self,
        job: int,
        queue: Queue,
        shape: Shape,
        priority: int,
        place: int,
        worker: Worker,
        size: int,
        mono: float,
        bundle: int = 0,
        flow: str | None = None,
    ) -> None:
        self.job = job
        self.queue = queue
        self.shape = shape
        self.priority = priority
        self.place = place
        self.worker = worker
        self.incarnation = worker.spec.incarnation
        self.size = size
        self.named_at = mono
        self.begun_at = mono
        self.bundle = bundle
        if flow is not None:
            self.flow = flow

    @property
    def is_brief(self) -> bool:
        """Whether it was known to be short when it was begun."""
        return self.brief or self.bundle > 0

    def arrival(self, place: int) -> Arrival:
        """Return the job as it would wait again at *place*."""
        return Arrival(
            self.job, self.queue.path, self.flow, self.priority, self.shape, place, None, self.extras
        )


def _know_all_names() -> None:
    """Make one attempt that has every attribute, before all others.

    Objects of a class share one table of their attributes' names, which takes no new ones once many are made.
    Whoever gets another attribute then has a dictionary of its own, which costs as much as half the attempt.
    """
    first = object.__new__(Live)
    for name in Live.__annotations__:
        setattr(first, name, None)


_know_all_names()


class Worker:
    """One life of one worker process, as long as its lease lasts."""

    __slots__ = (
        "about", "ahead", "ahead_from", "attached", "brief", "connected", "drain_until", "draining", "free",
        "given_slots", "heard_at", "joined_at", "kind", "known", "lag", "live", "refusing", "spec", "steered",
        "untold", "waiting",
    )  # fmt: skip

    def __init__(self, spec: WorkerSpec, kind: WorkerClass, mono: float) -> None:
        self.spec = spec
        self.kind = kind
        self.live: dict[int, Live] = {}
        self.free = 0  # units of slots; below 0 by what is begun ahead
        self.ahead = 0  # units that are begun ahead and wait for a slot
        self.waiting: deque[list[Live]] = deque()  # by whom they are held, a slot's worth each
        self.brief = 0  # units that are held by attempts known to be short
        self.lag = 0.0  # seconds between an end and the begin of what follows, as it was lately
        self.ahead_from = 0.0  # monotonic: nothing is begun ahead before
        self.attached: tuple[str, ...] | None = None  # queues a person gave it, over what it announces
        self.given_slots: int | None = None  # slots a person gave it, over what it announces
        self.steered: bool | None = None  # whether it drains in a person's word, until it says so itself
        self.drain_until: float | None = None  # monotonic: then it hands back what it still runs
        self.untold = False  # somebody let it drain, or take work again, while it was away
        self.known = False  # its kind counts in the tree
        self.connected = False
        self.draining = False
        self.refusing = False  # it handed back what it had not started: nothing more before its next beat
        self.heard_at = mono
        self.joined_at: int | None = None  # None: only its attempts are known, from an earlier leader
        self.about: dict[str, object] = {}

    @property
    def takes_more(self) -> bool:
        """Whether something may be begun on it."""
        return self.free > 0 and self._takes_any

    @property
    def _takes_any(self) -> bool:
        return self.connected and not self.draining and not self.refusing

    def looks_ahead(self, mono: float, each: int = MOST_AHEAD) -> bool:
        """Whether a slot's worth may be begun before one is free: *each* a slot, if all run short jobs.

        Beside long ones the short would wait for each other, on the slots that are left.
        """
        if not self.spec.ahead or self.free >= SLOT or mono < self.ahead_from or not self._takes_any:
            return False
        slots = self.spec.slots * SLOT
        return self.brief == slots - self.free and SLOT - self.free <= each * slots

    def regain(self, units: int, brief: bool) -> None:
        """Attempts are over that held so many units."""
        self.free += units
        if brief:
            self.brief -= units


@dataclass(slots=True)
class Counts:
    """What happened under this leader, for /metrics."""

    submitted: int = 0
    begun: int = 0
    succeeded: int = 0
    failed: int = 0
    cancelled: int = 0
    unknown: int = 0
    retried: int = 0
    lost: int = 0
    crashed: int = 0
    handed_back: int = 0
    begun_ahead: int = 0  # of those, before a slot was free
    stale: int = 0


@dataclass(slots=True)
class World:
    """The leader's memory. Never patched back after a failed commit: thrown away and built anew."""

    timers: Timers
    tree: Tree = field(default_factory=Tree)
    workers: dict[str, Worker] = field(default_factory=dict)  # by incarnation
    live: dict[int, Live] = field(default_factory=dict)  # by job
    blocked: dict[int, Blocked] = field(default_factory=dict)  # jobs that wait for others
    awaited: dict[int, set[int]] = field(default_factory=dict)  # job → those of them that wait for it
    watched: set[int] = field(default_factory=set)  # jobs of whose end somebody is to be told
    aside: set[int] = field(default_factory=set)  # waiting jobs that ended leaders: not taken in
    kinds: dict[tuple[object, ...], WorkerClass] = field(default_factory=dict)
    estimates: Estimates = field(default_factory=Estimates)  # by task
    queue_estimates: Estimates = field(default_factory=Estimates)
    advice: Advice = field(default_factory=Advice)  # for people; decides nothing, and cannot fail
    counts: Counts = field(default_factory=Counts)
    plan: Plan = field(default_factory=Plan)
    bundles: int = 0  # the number of the last bundle
    patient_until: float = 0.0  # no lease is judged before this: the leader is new or was late
    singled: set[str] = field(default_factory=set)  # names of workers that are kinds of their own
    singled_at: float = 0.0  # when it was last looked which of them need not be
    planned_at: float | None = None
    judged_at: float = 0.0  # leases are looked through a few times a beat, not at every plan
    recent: dict[int, tuple[int, str]] = field(default_factory=dict)  # ended attempts, newest half
    recent_before: dict[int, tuple[int, str]] = field(default_factory=dict)  # and the half before it

    def __post_init__(self) -> None:
        self.tree.seconds_of = self.seconds_of
        self.tree.running = lambda: ((live.queue, live.flow, live.size) for live in self.live.values())

    @property
    def numbers(self) -> NumberBook:
        """The numbers of queues and flows, to look at; what decides tells them by `advice`."""
        return self.advice.numbers

    @property
    def forecasts(self) -> Forecasts:
        """What was said of some jobs, to look at; what decides tells them by `advice`."""
        return self.advice.forecasts

    def kind_of(self, spec: WorkerSpec) -> WorkerClass:
        """Return the class of workers that announce the same things."""
        alone = spec.name in self.singled
        key = class_key(spec, alone)
        kind = self.kinds.get(key)
        if kind is None:
            if len(self.kinds) > 1000:
                known = ((one.spec, one.kind) for one in self.workers.values())
                self.kinds = {class_key(spec, spec.name in self.singled): kind for spec, kind in known}
            kind = self.kinds[key] = WorkerClass(spec, alone)
        return kind

    def assign(self, worker: Worker, spec: WorkerSpec) -> None:
        """Note what a worker is, for the choices to come."""
        before, worker.spec, worker.kind = worker.kind, spec, self.kind_of(spec)
        if worker.known and worker.kind is before:
            return
        for view in worker.kind.views:
            self.tree.welcome(view)
        self.dismiss(worker, before)
        worker.known = True

    def dismiss(self, worker: Worker, kind: WorkerClass) -> None:
        """A worker is not of this kind any more."""
        if worker.known:
            for view in kind.views:
                self.tree.dismiss(view)
        worker.known = False

    def seconds_of(self, path: str, shape: Shape) -> float:
        """Return what a job of a queue is expected to take, for its flow."""
        return self.estimates.find(shape.task) or self.queue_estimates.find(path) or 1.0

    def count_ended(
        self, ended: Sequence[Live], seconds: float, size: int, mono: float, failed: bool = False
    ) -> None:
        """Count attempts of one queue that began and ended together, ran *seconds* and held *size* in all."""
        self.advice.ended(ended, seconds, size, mono, failed)

    def acks(self, incarnation: str) -> Acks:
        """Return the acknowledgements that go to one worker with this plan."""
        acks = self.plan.acks.get(incarnation)
        if acks is None:
            acks = self.plan.acks[incarnation] = Acks()
        return acks

    def stale(self, incarnation: str, job: int, attempt: int) -> None:
        """Refuse a report on an attempt that is not the worker's own."""
        self.counts.stale += 1
        self.acks(incarnation).stale.append((job, attempt))

    def remember(self, jobs: Sequence[int], attempt: int, incarnation: str) -> None:
        """Keep in mind that attempts ended, so that a repeated report gets the same answer."""
        self.recent.update(dict.fromkeys(jobs, (attempt, incarnation)))
        if len(self.recent) >= 10_000:
            self.recent, self.recent_before = {}, self.recent

    def ended_before(self, job: int, attempt: int, incarnation: str) -> bool:
        """Say whether this very attempt was ended a while ago."""
        verdict = (attempt, incarnation)
        return self.recent.get(job) == verdict or self.recent_before.get(job) == verdict

    def forget(self, live: Live, dead: float = 0.0) -> None:
        """An attempt is over, however: free its slot and its place under every limit.

        No queue pays for the seconds for which its worker was *dead*; the charge of a flow stands.
        """
        seconds = self.tree.mono - live.begun_at
        if live.ahead:
            leave(self, live)
            seconds = dead = 0.0  # it held nothing yet
        del self.live[live.job]
        del live.worker.live[live.job]
        live.worker.regain(live.size, live.is_brief)
        if dead:
            self.tree.write_off(live.queue, live.size, dead)
        self.tree.release(live.queue, 1, live.size, seconds, live.flow)
