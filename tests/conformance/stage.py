"""A store with a leader on it, in the words of the tests. Speaks through the contract only."""

from __future__ import annotations

from typing import Any

from fairway.core.lifecycle import State
from fairway.core.model import DEFAULT_RULES, Arrival, Delivery
from fairway.core.plan import Batch, Begin, Begun, End, Event, News
from fairway.query import Query, Term
from fairway.store import Accepted, NewJob, Receipt, Request, Store, StoredJob, Submission, WaitingPage
from fairway.times import MICRO

#: A moment safely in the past of the machine that runs this: what is due then is due now.
NOW = 1_750_000_000 * MICRO
SECOND = MICRO


def new_job(number: int, **changes: Any) -> NewJob:
    """Make a plain job, due at NOW, with what a test wants different."""
    job = NewJob(
        id=number, queue="acme/emails", flow=None, priority=0, adapter="python", task="app.send", tags=(),
        delivery=Delivery.AT_LEAST_ONCE, run_at=NOW, created_at=NOW, rules=DEFAULT_RULES,
        payload=b'{"args":[],"kwargs":{}}',
    )  # fmt: skip
    return job._replace(**changes)


def where(field: str, *values: str, op: str = "=", negated: bool = False) -> Query:
    """Make a query of one term."""
    return Query((Term(field, op, values, negated),))


class Stage:
    """Drives a store as a leader named `leader` would."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.term = 0

    async def lead(self) -> Stage:
        leadership = await self.store.elect(self.term, "leader", "node", "http://127.0.0.1:1", NOW)
        assert leadership is not None
        self.term = leadership.term
        return self

    async def submit(self, *jobs: NewJob, key: str | None = None, digest: bytes = b"d") -> Accepted:
        request = None if key is None else Request(key, digest)
        [accepted] = await self.store.submit([Submission(jobs, request)], NOW)
        return accepted

    async def commit(self, *submissions: Submission, now: int = NOW, **records: Any) -> Receipt:
        return await self.store.commit(self.term, "leader", Batch(**records), submissions, now)

    async def begin(self, *jobs: int, incarnation: str = "w1-a", worker: str = "w1") -> list[Begun]:
        begins = [Begin([job], incarnation, worker, NOW + 1) for job in jobs]
        return (await self.commit(begins=begins)).begun

    async def end(self, job: int, attempt: int = 1, incarnation: str = "w1-a", **changes: Any) -> Receipt:
        return await self.commit(ends=[an_end(job, attempt, incarnation, **changes)])

    async def run(self, *jobs: NewJob, **changes: Any) -> None:
        """Submit jobs, begin them and end them."""
        await self.submit(*jobs)
        await self.begin(*(job.id for job in jobs))
        for job in jobs:
            await self.end(job.id, unique=job.unique, queue=job.queue, **changes)

    async def get(self, job: int) -> StoredJob:
        found = await self.store.find_job(job)
        assert found is not None, f"job {job} is not there"
        return found

    async def states(self, *jobs: int) -> list[State]:
        return [(await self.get(job)).state for job in jobs]

    async def waiting(self) -> list[int]:
        return [one.job async for page in self.store.waiting_jobs() for one in arrivals_of(page)]

    async def arrived(self) -> list[int]:
        return [taken.job.job for taken in await self.store.take_arrivals(0)]


def arrivals_of(page: WaitingPage) -> list[Arrival]:
    """Return the jobs of a page one by one, by id."""
    alike = (one for group in page.alike for one in group.arrivals())
    return sorted([*alike, *page.others], key=lambda one: one.job)


def an_end(job: int, attempt: int = 1, incarnation: str = "w1-a", **changes: Any) -> End:
    """Make a record that ends an attempt well, but for *changes*."""
    end = End([job], attempt, incarnation, "succeeded", b"42", NOW + 2, 0, 0, None, "acme/emails")
    return end._replace(**changes)


def events_of(news: list[News]) -> list[Event]:
    """Return what is told, one by one."""
    return [event for one in news for event in one.events()]


def told(kind: str, *jobs: int) -> News:
    """Make an event."""
    return News(kind, NOW, jobs, "acme/emails", None, 1, "w1", "app.send")
