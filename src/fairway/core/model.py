"""The words of the core as small values.

Wall times are ints of microseconds, monotonic times floats of seconds; both enter from outside in a
`Moment`. Leases are judged by the monotonic one only: a wall clock that jumps must not lose a worker.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final, Literal, NamedTuple, NewType

JobId = NewType("JobId", int)
Incarnation = NewType("Incarnation", str)

#: One slot in units. Sizes are whole units, so that a bundle's parts always add up to one slot.
SLOT = 1_000_000_000


class Moment(NamedTuple):
    """Now, on both clocks."""

    wall: int
    mono: float


class Delivery(StrEnum):
    """What may happen to a job whose worker is lost."""

    AT_LEAST_ONCE = "at_least_once"
    AT_MOST_ONCE = "at_most_once"


class Reason(StrEnum):
    """Why a job ended without a value."""

    MAX_ATTEMPTS = "max_attempts"
    PERMANENT = "permanent"
    TIMEOUT = "timeout"
    ERROR = "error"
    CANCELLED = "cancelled"
    DROPPED = "dropped"
    EXPIRED = "expired"
    REPLACED = "replaced"
    CRASHED = "crashed"
    LOST = "lost"
    STOPPED = "stopped"
    RESOLVED = "resolved"
    DEPENDENCY = "dependency"


@dataclass(frozen=True, slots=True)
class Shape:
    """All that a job needs of a worker. Equal shapes are one object: intern them with `shape_of`."""

    adapter: str
    task: str = ""
    tags: tuple[str, ...] = ()
    once: bool = False  # at-most-once jobs are never bundled, so they may not share a line with others
    worker: str = ""  # the name of the only worker that may take it; none: any that fits
    away: tuple[str, ...] = ()  # names of workers that may not
    names: tuple[str, ...] = field(init=False, repr=False, compare=False, default=())  # all of these
    _hash: int = field(init=False, repr=False, compare=False, default=0)

    def is_like(self, other: Shape) -> bool:
        """Say whether the other is equal; mostly it is the same object."""
        return self is other or self == other

    def __post_init__(self) -> None:
        # Shapes are keys of every line: hashing four fields at each look-up cost 0.4 µs a job.
        parts = (self.adapter, self.task, self.tags, self.once, self.worker, self.away)
        object.__setattr__(self, "_hash", hash(parts))
        if self.worker or self.away:
            object.__setattr__(self, "names", (self.worker, *self.away) if self.worker else self.away)

    def __hash__(self) -> int:
        return self._hash


@lru_cache(maxsize=65_536)
def shape_of(adapter: str, task: str, tags: tuple[str, ...], once: bool) -> Shape:
    """Return the one object for a shape."""
    return Shape(adapter, task, tags, once)


@lru_cache(maxsize=65_536)
def _pinned(shape: Shape, worker: str, away: tuple[str, ...]) -> Shape:
    return Shape(shape.adapter, shape.task, shape.tags, shape.once, worker, away)


def with_pins(shape: Shape, extras: Extras | None) -> Shape:
    """Return the one object for a shape of `shape_of`, pinned to or kept from workers as *extras* say."""
    if extras is None or not (extras.worker or extras.away):
        return shape
    return _pinned(shape, extras.worker, extras.away)


@dataclass(frozen=True, slots=True)
class Rules:
    """How one job is judged when an attempt ends.

    What its submitter did not say stands here as the scheduler's default and is named in `unsaid`: its queue
    may say otherwise (core/defaults.py).
    """

    max_attempts: int | None = 10
    max_crashes: int | None = 3
    timeout: float | None = None
    retry_first: float = 1.0
    retry_max: float = 3600.0
    unsaid: tuple[str, ...] = ()
    grace: float | None = None  # seconds from being told to end to being killed; None: the worker's own


#: What a queue may say for jobs that do not.
JOB_DEFAULTS = ("max_attempts", "max_crashes", "timeout", "backoff", "grace")
#: The longest grace, in seconds: so long may code that was cancelled hold its slot.
MOST_GRACE = 3600.0
#: Nothing was said: one object for nearly all jobs.
DEFAULT_RULES = Rules(unsaid=JOB_DEFAULTS)


#: An attempt by its name: (job, attempt).
Attempt = tuple[int, int]


class Ledger(NamedTuple):
    """What went wrong with a job so far. `losses` are the wall times at which its worker was lost."""

    tries: int = 0
    crashes: int = 0
    losses: tuple[int, ...] = ()


#: Nothing went wrong so far: one object for nearly all jobs.
CLEAN = Ledger()


class Held(NamedTuple):
    """An attempt a worker holds. `started` is false while its code has not begun."""

    job: int
    attempt: int
    started: bool = True


class Result(NamedTuple):
    """How an attempt ended at the worker.

    kind: ok | error | permanent | retry_after | timeout | cancelled | crashed | stopped
    body: JSON, the value for `ok`, else `{"type","message","traceback",...}`
    seconds: how long the code ran;  retry_after: seconds, for that kind
    """

    job: int
    attempt: int
    kind: str
    body: bytes
    seconds: float
    retry_after: float = 0.0


@dataclass(frozen=True, slots=True)
class Notify:
    """Who is to be told of a job's end, by a call of this URL. `on`: which ends; none named means all."""

    url: str
    on: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Extras:
    """What few jobs have. All others have none of these at all, and pay nothing for them."""

    deadline: int | None = None  # wall time: not begun by then, it fails
    after: tuple[int, ...] = ()  # jobs that must have ended before it may begin
    if_failed: str = "fail"  # what becomes of it when one of those fails: fail or run
    group: str | None = None
    unique_for: float | None = None  # seconds since its submission for which its key stays taken
    replaces: int | None = None  # the job that had its key before, and shall not begin any more
    worker: str = ""  # the name of the only worker that may take it
    away: tuple[str, ...] = ()  # names of workers that may not
    recall: int = 0  # the attempt that its worker is asked to hand back, so that it begins elsewhere or later
    notify: Notify | None = None


class Arrival(NamedTuple):
    """A waiting job as the core sees it: where it stands, never what it carries."""

    job: int
    queue: str
    flow: str | None
    priority: int
    shape: Shape
    place: int
    concurrency: int | None = None  # the limit its submitter wants for its queue
    extras: Extras | None = None
    blocked: bool = False  # it waits for the jobs named in its extras


PLAIN = (None, None, False)  # how an arrival ends that brings neither a limit nor extras and is not blocked


class Alike(NamedTuple):
    """Waiting jobs without extras that stand in one line, by id, with their places."""

    queue: str
    flow: str | None
    priority: int
    shape: Shape
    jobs: Sequence[int]
    places: Sequence[int]

    def in_order(self) -> Alike:
        """Return the same jobs as they stand in their line: by place, and by id among equals."""
        if len(self.jobs) == 1 or (sorted(self.places) == self.places and sorted(self.jobs) == self.jobs):
            return self
        pairs = sorted(zip(self.places, self.jobs, strict=True))
        return self._replace(jobs=[job for _, job in pairs], places=[place for place, _ in pairs])

    def arrivals(self) -> Iterator[Arrival]:
        """Yield them one by one."""
        for job, place in zip(self.jobs, self.places, strict=True):
            yield Arrival(job, self.queue, self.flow, self.priority, self.shape, place)


def together(arrivals: Iterable[Arrival]) -> tuple[list[Alike], list[Arrival]]:
    """Put plain jobs together that stand in one line, in the order they come; return the others apart."""
    groups: dict[tuple[str, str | None, int, Shape], tuple[list[int], list[int]]] = {}
    others = list[Arrival]()
    common: tuple[object, ...] | None = None
    for arrival in arrivals:
        if arrival[6:] != PLAIN:
            others.append(arrival)
            continue
        if arrival[1:5] != common:  # neighbours are alike more often than not
            common = arrival[1:5]
            jobs, places = groups.setdefault(common, ([], []))
        jobs.append(arrival[0])
        places.append(arrival[5])
    return [Alike(*common, jobs, places) for common, (jobs, places) in groups.items()], others


NoBound = Literal["none"]
NO_BOUND: Final = "none"


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """What may be set at a node of the queue tree. None: not set, the parent's or the default holds."""

    limit: int | None = None
    assured: int | None = None  # slots it gets before anybody borrows
    lend: bool = True  # false: what it does not use of its assured slots is kept free
    priority: int = 0  # higher first, for the excess
    weight: float = 1.0  # share of the excess among equal priorities
    rate: str | None = None  # starts in a time, such as 100/min
    burst: int | None = None  # starts at once after idling
    paused: bool = False
    unique: bool | None = None  # jobs without a key have their payload as one; inherited
    on_lease_lost: str | None = None  # keep: code runs on; kill: it is ended before the lease can be taken
    # --- inherited, each by itself: what a discipline is made from ---
    discipline: str | None = None
    quantum: int | None = None  # jobs a flow may begin in its turn; None: one, or what makes 10 ms together
    charge: str | None = None  # jobs (the default) or seconds
    flow_weights: Mapping[str, float] | None = None
    depth: int | None = None  # most waiting jobs of one flow
    capacity: int | None = None  # most waiting jobs of the queue
    divisor: int | None = None  # lines that flows are hashed into; None: one for each
    perturb: float | None = None  # seconds between new seeds of that hash
    overflow: str | None = None  # reject (the default), drop_newest, drop_oldest
    # --- inherited, each by itself: for jobs that do not say their own; "none": no bound, also below one ---
    max_attempts: int | NoBound | None = None
    max_crashes: int | NoBound | None = None
    timeout: float | NoBound | None = None
    backoff: Mapping[str, float] | None = None  # seconds: first and max
    grace: float | None = None  # seconds between telling an attempt to end and killing it
    # --- inherited ---
    retention: float | None = None  # seconds for which ended jobs are kept
    # --- set by a move only: where its jobs go, under which operation (see core/moving.py) ---
    moving: Mapping[str, Any] | None = None
    # --- the leader's own, never stored: flows are hashed by it, so nobody can aim at another's line ---
    hash_key: bytes = b""

    def below(self, above: QueueSettings) -> QueueSettings:
        """Return what the discipline of this node is made from, given what it is made from above."""
        own = {name: value for name in OF_DISCIPLINE if (value := getattr(self, name)) is not None}
        return replace(above, **own) if own else above


OF_DISCIPLINE = (
    "discipline", "quantum", "charge", "flow_weights", "depth", "capacity", "divisor", "perturb", "overflow",
)  # fmt: skip
#: Nothing is set.
NO_SETTINGS = QueueSettings()


@dataclass(frozen=True, slots=True)
class TaskInfo:
    """A task as a worker announces it."""

    name: str
    is_async: bool = False
    adapter: str = ""  # "": any of the worker's


@dataclass(frozen=True, slots=True)
class WorkerSpec:
    """What a worker says it is. The incarnation, never the name, says whose an attempt is."""

    name: str
    incarnation: str
    slots: int
    adapters: frozenset[str]
    tasks: tuple[TaskInfo, ...] = ()
    tags: tuple[str, ...] = ()
    queues: tuple[str, ...] = ("**",)
    async_per_slot: int = 100
    ahead: bool = False  # it keeps what is begun before a slot is free, for a moment


@dataclass(frozen=True, slots=True)
class Timers:
    """Every period the core knows, in seconds. Tests shorten them together."""

    beat: float = 2.0
    lease: float = 10.0
    kill_lease: float = 10.0  # of attempts whose code is ended with their lease
    crash_window: float = 86_400.0
    bundle_budget: float = 0.010
    bundle_most: int = 2000
    ahead_most: float = 0.025  # what a job may be expected to take that is begun before a slot is free
    ahead_pause: float = 1.0  # after one was handed back because none became free
