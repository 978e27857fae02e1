"""What the memory store holds, and drafts of it: a commit works on a draft and keeps it or forgets it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

from fairway.core.lifecycle import ENDED, WAITING, State
from fairway.core.model import Arrival, shape_of, with_pins
from fairway.core.plan import Begun, CauseSeen, News, QueueChange
from fairway.store import (
    Call,
    CauseRow,
    Culprit,
    Leadership,
    LogLine,
    NewJob,
    NodeRow,
    ScheduleRow,
    StoredJob,
    StoredNote,
)
from fairway.stores.notifying import NewDelivery


class Claim(NamedTuple):
    """Whose a unique key is; until when it outlives its job, and whether that has ended."""

    job: int
    until: int | None = None
    over: bool = False

    def is_free(self, now: int) -> bool:
        """Whether anybody may take it."""
        return self.over and (self.until is None or self.until <= now)


@dataclass(slots=True)
class Tables:
    """Everything, as a store on disk would have it."""

    jobs: dict[int, StoredJob] = field(default_factory=dict)
    claims: dict[tuple[str, str], Claim] = field(default_factory=dict)
    requests: dict[str, tuple[bytes, list[int], int]] = field(default_factory=dict)  # digest, ids, time
    arrivals: dict[int, tuple[int, int | None]] = field(default_factory=dict)  # job, concurrency
    arrivals_given: int = 0
    queues: dict[str, bytes] = field(default_factory=dict)
    changes: dict[int, QueueChange] = field(default_factory=dict)
    changes_given: int = 0
    events: dict[int, tuple[int, list[News]]] = field(default_factory=dict)
    events_given: int = 0
    leadership: Leadership | None = None
    history: list[Leadership] = field(default_factory=list)
    nodes: dict[str, NodeRow] = field(default_factory=dict)
    log: dict[tuple[int, int, int], LogLine] = field(default_factory=dict)
    schedules: dict[str, ScheduleRow] = field(default_factory=dict)
    notes: dict[tuple[int, int], StoredNote] = field(default_factory=dict)
    checkpoints: dict[int, tuple[int, bytes]] = field(default_factory=dict)  # attempt, JSON: one a job
    causes: dict[str, CauseRow] = field(default_factory=dict)
    calls: dict[int, Call] = field(default_factory=dict)
    calls_given: int = 0
    culprits: dict[str, Culprit] = field(default_factory=dict)


class Draft:
    """Changes that become real with `keep`, all at once. Jobs are copied when they are first touched."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self.changed: dict[int, StoredJob] = {}
        self.claims = dict(tables.claims)
        self.requests = dict(tables.requests)
        self.arrivals = dict(tables.arrivals)
        self.arrivals_given = tables.arrivals_given
        self.queues = dict(tables.queues)
        self.changes: list[QueueChange] = []
        self.events: list[News] = []
        self.anew: list[int] = []  # jobs that go on from no checkpoint any more
        self.causes: dict[str, CauseRow] = {}
        self.deliveries: list[NewDelivery] = []

    def find(self, job: int) -> StoredJob | None:
        """Return a copy of the job that may be changed, or None."""
        if job not in self.changed and job in self.tables.jobs:
            self.changed[job] = replace(self.tables.jobs[job])
        return self.changed.get(job)

    def has(self, job: int) -> bool:
        """Say whether there is such a job."""
        return job in self.changed or job in self.tables.jobs

    def insert(self, job: NewJob) -> None:
        self.changed[job.id] = StoredJob(
            id=job.id, queue=job.queue, flow=job.flow, priority=job.priority,
            state=State.BLOCKED if job.extras is not None and job.extras.after else State.QUEUED,
            delivery=job.delivery, adapter=job.adapter, task=job.task, tags=job.tags, run_at=job.run_at,
            place=job.run_at, created_at=job.created_at, attempt=0, tries=0, crashes=0, losses=(),
            generation=0, rules=job.rules, payload=job.payload, unique=job.unique,
            extras=job.extras,
        )  # fmt: skip

    def arrive(self, job: NewJob) -> None:
        self.arrivals_given += 1
        self.arrivals[self.arrivals_given] = job.id, job.concurrency

    def see(self, one: CauseSeen) -> bool:
        """Count failures of a cause; say whether it is new."""
        before = self.tables.causes.get(one.cause.id)
        if before is None:
            self.causes[one.cause.id] = CauseRow(*one.cause, one.at, one.at, one.failures, None)
            return True
        last_at, failures = max(before.last_at, one.at), before.failures + one.failures
        self.causes[one.cause.id] = before._replace(last_at=last_at, failures=failures)
        return False

    def holder(self, queue: str, key: str, now: int) -> int | None:
        """Return whose the key is, if it is not free."""
        held = self.claims.get((queue, key))
        return None if held is None or held.is_free(now) else held.job

    def claim(self, queue: str, key: str, job: int, until: int | None) -> None:
        """Give the key to a job, whoever had it."""
        self.claims[queue, key] = Claim(job, until)

    def free(self, queue: str, key: str | None, job: int, now: int) -> None:
        """A job has ended: its key is free, unless it is taken for longer."""
        held = None if key is None else self.claims.get((queue, key))
        if key is not None and held is not None and held.job == job:
            self.claims[queue, key] = held._replace(over=True)
            if self.claims[queue, key].is_free(now):
                del self.claims[queue, key]

    def keep(self, now: int) -> int | None:
        """Make the draft real; return the number its events got, if it tells any."""
        tables = self.tables
        tables.jobs.update(self.changed)
        tables.claims, tables.requests, tables.queues = self.claims, self.requests, self.queues
        tables.arrivals, tables.arrivals_given = self.arrivals, self.arrivals_given
        for job in self.anew:
            tables.checkpoints.pop(job, None)
        for change in self.changes:
            tables.changes_given += 1
            tables.changes[tables.changes_given] = change
        tables.causes.update(self.causes)
        for one in self.deliveries:
            tables.calls_given += 1
            number, made_at = tables.calls_given, one.made_at
            tables.calls[number] = Call(number, one.job, one.url, one.host, one.body, 0, made_at, made_at)
        if not self.events:
            return None
        tables.events_given += 1
        tables.events[tables.events_given] = now, self.events
        return tables.events_given


def is_waiting(job: StoredJob | None) -> bool:
    return job is not None and job.state in WAITING


def is_ended(job: StoredJob | None) -> bool:
    return job is not None and job.state in ENDED


def shown(job: StoredJob, now: int) -> StoredJob:
    """Return a copy for a reader; the two states that wait are told apart by the time."""
    state = job.state
    if state in WAITING and state is not State.BLOCKED:
        state = State.SCHEDULED if job.run_at > now else State.QUEUED
    return replace(job, state=state)


def arrival_of(job: StoredJob, concurrency: int | None = None) -> Arrival:
    shape = with_pins(shape_of(job.adapter, job.task, job.tags, job.once), job.extras)
    blocked = job.state is State.BLOCKED
    return Arrival(
        job.id, job.queue, job.flow, job.priority, shape, job.place, concurrency, job.extras, blocked
    )  # fmt: skip


def begun_of(job: StoredJob) -> Begun:
    return Begun(
        job.id, job.attempt, job.generation, job.tries, job.crashes, job.losses, job.rules, job.unique,
        job.payload,
    )  # fmt: skip
