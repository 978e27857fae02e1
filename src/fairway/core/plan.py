"""What the core wants done: a plan of records to write, messages to send, answers to give.

The records of one plan are one commit: the store takes them whole or not at all. Only after that may the
messages go out and the answers be given. Records are tuples in the order of their fields, because a store
feeds thousands of them at a time to its statements. What happens to many jobs alike (a bundle begins, its
members succeed) is one record that names them all: a record each would cost more than all the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from fairway.core.causes import Cause
from fairway.core.model import Attempt, Extras, Rules


class Begin(NamedTuple):
    """queued → running. The store adds one to each attempt and says which number it became."""

    jobs: Sequence[int]
    incarnation: str
    worker: str
    started_at: int
    queue: str = ""  # the rest is for the event that tells of it
    task: str = ""
    ahead: bool = False  # before a slot is free: it is told of when it has one


class End(NamedTuple):
    """running → terminal, fenced by attempt and incarnation; leaves the hot table."""

    jobs: Sequence[int]
    attempt: int
    incarnation: str
    state: str
    outcome: bytes | None  # JSON: the bare value when succeeded, else the error object
    ended_at: int
    tries: int
    crashes: int
    unique: str | None  # the unique key to free, if the job holds one; then it is the only one
    queue: str
    cause: str | None = None  # of what failed
    started_at: int | None = None  # of what was begun ahead: when a slot was free for it at last


class Return(NamedTuple):
    """running → waiting (retry, lost, handed back), fenced by attempt and incarnation."""

    job: int
    attempt: int
    incarnation: str
    place: int
    run_at: int
    tries: int
    crashes: int
    losses: tuple[int, ...]
    outcome: bytes | None  # how the last attempt went, for people to see


class Drop(NamedTuple):
    """waiting → cancelled (or failed): ends a job that never began again."""

    job: int
    state: str
    outcome: bytes | None
    ended_at: int
    cause: str | None = None  # of what failed


class Flag(NamedTuple):
    """Marks a running attempt as being cancelled."""

    job: int
    attempt: int
    incarnation: str


class Recall(NamedTuple):
    """A running attempt that shall be handed back: where the job will wait, and what it has from now on."""

    job: int
    attempt: int
    incarnation: str
    place: int
    extras: Extras


class Edit(NamedTuple):
    """A waiting job re-roled: where it stands and how it is judged from now on, all of it."""

    job: int
    queue: str
    flow: str | None
    priority: int
    tags: tuple[str, ...]
    run_at: int
    place: int
    rules: Rules
    extras: Extras | None = None
    adapter: str | None = None  # None: as it was


class Move(NamedTuple):
    """Jobs that wait or run, from now on in another queue. Their keys go along: see `Edit`."""

    jobs: Sequence[int]
    queue: str


class Unblock(NamedTuple):
    """blocked → waiting: all that it waited for has ended. `place` is where it stands from now on."""

    job: int
    place: int


class Revive(NamedTuple):
    """ended → waiting with generation + 1; tries and crashes start again, the attempt number goes on."""

    job: int
    place: int
    run_at: int


class Resolve(NamedTuple):
    """unknown → succeeded or failed, once. Attempt 0 means: by a person, whatever the attempt."""

    job: int
    attempt: int
    incarnation: str
    state: str
    outcome: bytes | None
    ended_at: int


class CauseSeen(NamedTuple):
    """An attempt failed for a cause, maybe the first ever. *job* and *queue* are an example."""

    cause: Cause
    at: int
    job: int
    queue: str
    failures: int = 1


class SaveQueue(NamedTuple):
    """A queue's own settings as JSON; None deletes the row. Rows are made at a queue's first job."""

    path: str
    settings: bytes | None
    at: int


class QueueChange(NamedTuple):
    """Who changed a queue's own settings, and when; both values as JSON. None: there was, or is, no row."""

    path: str
    at: int
    who: str
    old: bytes | None
    new: bytes | None


class Event(NamedTuple):
    """Something that happened, as the public sees it. Its id is given by the commit that tells of it."""

    kind: str  # job.submitted job.begun job.retrying job.returned job.cancelling job.ended queue.changed ...
    at: int
    job: int | None = None
    queue: str | None = None
    state: str | None = None
    attempt: int | None = None
    worker: str | None = None
    task: str | None = None
    detail: dict[str, Any] | None = None


class News(NamedTuple):
    """One event, or the events of several jobs to which the same happened at once."""

    kind: str
    at: int
    jobs: Sequence[int] = ()
    queue: str | None = None
    state: str | None = None
    attempt: int | None = None
    worker: str | None = None
    task: str | None = None
    detail: dict[str, Any] | None = None

    def events(self) -> Iterator[Event]:
        """Yield them one by one."""
        for job in self.jobs or (None,):
            yield Event(self.kind, self.at, job, *self[3:])


@dataclass(slots=True)
class Batch:
    """One commit's worth of records. Applied in the order of the fields."""

    moves: list[Move] = field(default_factory=list)  # first: what ends then frees its key where it is now
    recalls: list[Recall] = field(default_factory=list)  # of attempts that may come back in the same commit
    ends: list[End] = field(default_factory=list)
    returns: list[Return] = field(default_factory=list)
    edits: list[Edit] = field(default_factory=list)
    unblocks: list[Unblock] = field(default_factory=list)
    drops: list[Drop] = field(default_factory=list)
    revives: list[Revive] = field(default_factory=list)
    resolves: list[Resolve] = field(default_factory=list)
    flags: list[Flag] = field(default_factory=list)
    begins: list[Begin] = field(default_factory=list)
    queues: list[SaveQueue] = field(default_factory=list)
    changes: list[QueueChange] = field(default_factory=list)
    taken: list[int] = field(default_factory=list)  # arrival numbers now known to the core
    causes: list[CauseSeen] = field(default_factory=list)  # why attempts failed that end or return here
    notices: list[int] = field(
        default_factory=list
    )  # jobs that end here, of whose end somebody is to be told
    news: list[News] = field(default_factory=list)

    @property
    def is_simple(self) -> bool:
        """Whether it only ends attempts and begins others: no job that another such batch could touch."""
        return not (
            self.returns or self.drops or self.edits or self.unblocks or self.revives or self.resolves
            or self.flags or self.queues or self.taken or self.moves or self.changes or self.recalls
        )  # fmt: skip

    def __bool__(self) -> bool:
        return bool(
            self.ends or self.returns or self.drops or self.edits or self.unblocks or self.revives
            or self.resolves or self.flags or self.begins or self.queues or self.taken or self.news
            or self.moves or self.changes or self.recalls
        )  # fmt: skip


class Begun(NamedTuple):
    """What the store read while it made a begin: the fence number and what the attempt needs."""

    job: int
    attempt: int
    generation: int
    tries: int
    crashes: int
    losses: tuple[int, ...]
    rules: Rules
    unique: str | None
    payload: bytes


class Kill(NamedTuple):
    """Tell a worker to stop an attempt. *force*: at once, else asked first. *kind*: as on the wire."""

    incarnation: str
    job: int
    attempt: int
    force: bool
    kind: str = "cancelled"


class Steer(NamedTuple):
    """Tell a worker what to offer from now on; None: as it is. The deadline is for what it drains."""

    incarnation: str
    slots: int | None = None
    queues: tuple[str, ...] | None = None
    draining: bool | None = None
    deadline_seconds: float | None = None


class Resend(NamedTuple):
    """A worker came back without begins that were meant for it; send them again, same attempts."""

    incarnation: str
    jobs: tuple[int, ...]


@dataclass(slots=True)
class Acks:
    """What became of the attempts a worker reported: committed, or refused as no longer its own.

    *lost* are attempts it only named, and that are not its own any more: it may have a report to make yet.
    """

    done: list[Attempt] = field(default_factory=list)
    stale: list[Attempt] = field(default_factory=list)
    lost: list[Attempt] = field(default_factory=list)


class Reply(NamedTuple):
    """Answer an ask, after the commit. *error* is an (error code, detail) pair; *field* says where it is."""

    ticket: Any
    value: Any = None
    error: tuple[str, str] | None = None
    field: str | None = None


@dataclass(slots=True)
class Plan:
    """Write, then act, then tell; then wake again at *wake_at* (monotonic) if nothing happens before."""

    batch: Batch = field(default_factory=Batch)
    bundles: dict[int, int] = field(default_factory=dict)  # job → bundle number, for those begun in one
    kills: list[Kill] = field(default_factory=list)
    resends: list[Resend] = field(default_factory=list)
    steers: list[Steer] = field(default_factory=list)
    acks: dict[str, Acks] = field(default_factory=dict)  # by incarnation
    replies: list[Reply] = field(default_factory=list)
    strangers: list[str] = field(default_factory=list)  # incarnations that beat but must say hello again
    wake_at: float | None = None
    # Jobs of its drops and unblocks, as far as they were read when jobs were taken in: core/loading.py.
    dropped: set[int] = field(default_factory=set, compare=False)
    unblocked: set[int] = field(default_factory=set, compare=False)
