"""The store in plain dicts. Nothing survives the process; everything else is as on disk.

The logic is in plain methods (`apply_…` and `read_…`), so that a simulation can call them at a moment of
its choosing; the contract's own methods wrap them. There is no clock inside: what waits is judged by the
last `now` that came in.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import suppress

from fairway.core.lifecycle import ENDED, State
from fairway.core.model import Arrival
from fairway.core.plan import Batch, Begun
from fairway.query import Query
from fairway.store import (
    Accepted,
    Call,
    CauseRow,
    Culprit,
    Leadership,
    LiveAttempt,
    LogLine,
    NodeRow,
    NoteRow,
    NumberedChange,
    NumberedEvent,
    Page,
    Receipt,
    ScheduleChange,
    ScheduleRow,
    StoredJob,
    StoredNote,
    Submission,
    Taken,
    WaitingPage,
)
from fairway.stores.backlog import page_of
from fairway.stores.memory import accusing, noting, writing
from fairway.stores.memory import search as searching
from fairway.stores.memory.tables import Tables, arrival_of, begun_of, is_ended, is_waiting, shown
from fairway.stores.memory.tidying import delete_jobs, ended_between, forget_cause, forget_ended, tidy
from fairway.stores.paging import MOST_COUNTED
from fairway.stores.telling import numbered


class MemoryStore:
    """The reference of the contract: obviously right, not fast."""

    kind = "memory"
    overlaps = False

    def __init__(self) -> None:
        self.tables = Tables()
        self.now = 0
        self._rung = asyncio.Event()

    async def open(self) -> None:
        """Nothing to connect to."""

    async def close(self) -> None:
        """Nothing to let go of; the same object may be opened again and has everything still."""

    # --- plain methods, for simulations --------------------------------------------------------------
    def apply_submit(self, submissions: Sequence[Submission], now: int) -> list[Accepted]:
        """Insert submissions and leave arrivals."""
        self.now = max(self.now, now)
        return writing.submit(self.tables, submissions, now)

    def apply_commit(
        self, term: int, holder: str, batch: Batch, submissions: Sequence[Submission], now: int
    ) -> Receipt:
        """Write everything, or raise Deposed and write nothing."""
        self.now = max(self.now, now)
        return writing.commit(self.tables, term, holder, batch, submissions, now)

    def apply_elect(self, seen_term: int, holder: str, name: str, url: str, now: int) -> Leadership | None:
        """Raise the term if nobody else did since it was seen."""
        before = self.tables.leadership
        if (before.term if before else 0) != seen_term:
            return None
        self.now = max(self.now, now)
        beat = before.beat + 1 if before else 1
        self.tables.leadership = Leadership(seen_term + 1, holder, name, url, now, beat)
        self.tables.history.insert(0, self.tables.leadership._replace(beat=0))
        return self.tables.leadership

    def apply_renew(self, term: int, holder: str, asleep: bool) -> bool:
        """Beat once, if the term is still the holder's."""
        leader = self.tables.leadership
        if leader is None or (leader.term, leader.holder) != (term, holder):
            return False
        self.tables.leadership = leader._replace(beat=leader.beat + 1, asleep=asleep)
        return True

    def apply_resign(self, term: int, holder: str) -> None:
        """Leave the term without a holder."""
        leader = self.tables.leadership
        if leader is not None and (leader.term, leader.holder) == (term, holder):
            self.tables.leadership = leader._replace(holder="")

    def apply_tidy(self, now: int, keep_ended_seconds: float, most: int = 5000) -> int:
        """Forget what is old; return how many."""
        return tidy(self.tables, now, keep_ended_seconds, most)

    def read_jobs(self, jobs: Sequence[int]) -> list[StoredJob]:
        """Return copies of those that exist."""
        return [shown(self.tables.jobs[job], self.now) for job in jobs if job in self.tables.jobs]

    def read_arrivals(self, after: int, most: int = 10_000) -> list[Taken]:
        """Return arrivals of jobs that still wait."""
        jobs = self.tables.jobs
        numbers = sorted(number for number in self.tables.arrivals if number > after)
        entries = [(number, *self.tables.arrivals[number]) for number in numbers]
        return [
            Taken(number, arrival_of(jobs[job], concurrency))
            for number, job, concurrency in entries
            if job in jobs and is_waiting(jobs[job])
        ][:most]

    def read_live(self) -> list[LiveAttempt]:
        """Return every running attempt."""
        return [
            LiveAttempt(
                arrival_of(job), begun_of(job), job.incarnation or "", job.worker or "", job.started_at or 0,
                job.cancelling,
            )
            for job in self.tables.jobs.values()
            if job.state is State.RUNNING
        ]  # fmt: skip

    def read_waiting(self, page: int = 10_000) -> Iterator[WaitingPage]:
        """Yield all waiting jobs in pages by id, each as it is when it is asked for."""
        last = -1
        while found := self._waiting_after(last, page):
            yield found
            if found.size < page:
                return
            last = found.last

    def _waiting_after(self, last: int, page: int) -> WaitingPage | None:
        waiting = sorted(job for job, row in self.tables.jobs.items() if job > last and is_waiting(row))
        return page_of([arrival_of(self.tables.jobs[job]) for job in waiting[:page]])

    def read_endings(self, jobs: Sequence[int]) -> dict[int, State | None]:
        """Return how those of *jobs* ended that have, None for those that are gone."""
        found = {job: self.tables.jobs[job].state for job in jobs if job in self.tables.jobs}
        return {job: found.get(job) for job in jobs if job not in found or found[job] in ENDED}

    def read_below(self, path: str, after: int, most: int) -> tuple[list[Arrival], int | None]:
        """Return the jobs that wait in a branch, among the next *most*, and where to go on."""
        ids = sorted(job for job in self.tables.jobs if job > after)[:most]
        jobs = [self.tables.jobs[job] for job in ids]
        below = [job for job in jobs if job.queue == path or job.queue.startswith(path + "/")]
        return [arrival_of(job) for job in below if is_waiting(job)], ids[-1] if ids else None

    def read_replaced(self, jobs: Sequence[int]) -> list[Arrival]:
        """Return those of *jobs* that wait or run although their key has gone to a newer one."""
        claims = self.tables.claims
        found = [self.tables.jobs[job] for job in jobs if job in self.tables.jobs]
        return [
            arrival_of(job)
            for job in found
            if job.unique is not None
            and not is_ended(job)
            and ((held := claims.get((job.queue, job.unique))) is None or held.job != job.id)
        ]

    def read_begun(self, jobs: Sequence[int]) -> list[Begun]:
        """Return what the running ones of *jobs* were begun with."""
        found = [self.tables.jobs[job] for job in jobs if job in self.tables.jobs]
        return [begun_of(job) for job in found if job.state is State.RUNNING]

    def read_events(self, number: int, index: int, most: int = 1000) -> list[NumberedEvent]:
        """Return up to *most* events behind `number.index`."""
        found: list[NumberedEvent] = []
        for row, (_, news) in self.tables.events.items():
            if row >= number:
                found += numbered(row, index + 1 if row == number else 0, news)
        return found[:most]

    # --- anybody ---------------------------------------------------------------------------------
    async def submit(self, submissions: Sequence[Submission], now: int) -> list[Accepted]:
        accepted = self.apply_submit(submissions, now)
        self._rung.set()
        return accepted

    async def find_job(self, job: int) -> StoredJob | None:
        found = self.read_jobs([job])
        return found[0] if found else None

    async def find_claim(self, queue: str, unique: str, now: int) -> int | None:
        held = self.tables.claims.get((queue, unique))
        return None if held is None or held.is_free(now) else held.job

    async def find_jobs(self, jobs: Sequence[int]) -> list[StoredJob]:
        return self.read_jobs(list(dict.fromkeys(jobs)))

    async def search(
        self, query: Query, *, now: int, sort: str = "-created_at", limit: int = 50, cursor: str | None = None
    ) -> Page:
        jobs = [shown(job, now) for job in self.tables.jobs.values()]
        return searching.search(jobs, query, now, sort, limit, cursor)

    async def count(self, query: Query, now: int) -> int:
        jobs = [shown(job, now) for job in self.tables.jobs.values()]
        return min(len(searching.matching(jobs, query, now)), MOST_COUNTED + 1)

    async def events_after(self, number: int, index: int, most: int = 1000) -> list[NumberedEvent]:
        return self.read_events(number, index, most)

    async def event_span(self) -> tuple[int, int]:
        return min(self.tables.events, default=0), max(self.tables.events, default=0)

    async def find_leadership(self) -> Leadership | None:
        return self.tables.leadership

    async def leaders(self, most: int = 20) -> list[Leadership]:
        return self.tables.history[:most]

    async def save_node(self, node: NodeRow) -> None:
        self.tables.nodes[node.incarnation] = node

    async def nodes(self) -> list[NodeRow]:
        return sorted(self.tables.nodes.values(), key=lambda node: (node.name, node.started_at))

    async def forget_node(self, incarnation: str) -> None:
        self.tables.nodes.pop(incarnation, None)

    async def queue_rows(self) -> dict[str, bytes]:
        return dict(sorted(self.tables.queues.items()))

    async def queue_changes(
        self, path: str | None = None, most: int = 100, before: int | None = None
    ) -> list[NumberedChange]:
        rows = [NumberedChange(number, change) for number, change in self.tables.changes.items()]
        wanted = [one for one in rows if path in (None, one.change.path) and one.number < (before or 1 << 62)]
        return wanted[::-1][:most]

    async def find_queues(self, paths: Sequence[str]) -> dict[str, bytes]:
        return {path: self.tables.queues[path] for path in paths if path in self.tables.queues}

    async def schedule_rows(self) -> list[ScheduleRow]:
        return [row for _, row in sorted(self.tables.schedules.items())]

    async def find_schedule(self, name: str) -> ScheduleRow | None:
        return self.tables.schedules.get(name)

    async def causes(self, most: int = 500, before: tuple[int, str] | None = None) -> list[CauseRow]:
        rows = sorted(self.tables.causes.values(), key=lambda row: (row.last_at, row.id), reverse=True)
        return [row for row in rows if before is None or (row.last_at, row.id) < before][:most]

    async def find_cause(self, cause: str) -> CauseRow | None:
        return self.tables.causes.get(cause)

    async def note_culprit(self, digest: str, what: str, error: str, job: int | None, now: int) -> None:
        accusing.note(self.tables, digest, what, error, job, now)

    async def culprits(self, now: int) -> list[Culprit]:
        return accusing.remembered(self.tables, now)

    async def add_log(self, lines: Sequence[LogLine]) -> None:
        for line in lines:
            self.tables.log.setdefault(line[:3], line)

    async def read_log(
        self, job: int, attempt: int | None, after: int = -1, most: int = 10_000
    ) -> list[LogLine]:
        lines = sorted(line for key, line in self.tables.log.items() if key[0] == job)
        wanted = lines[-1].attempt if attempt is None and lines else attempt
        return [line for line in lines if line.attempt == wanted and line.number > after][:most]

    async def save_notes(self, notes: Sequence[NoteRow], now: int) -> None:
        noting.save(self.tables, notes, now)

    async def find_notes(self, jobs: Sequence[int]) -> dict[int, StoredNote]:
        return {job: note for job in jobs if (note := noting.find_last(self.tables, job)) is not None}

    async def attempt_notes(self, job: int, most: int = 100) -> list[StoredNote]:
        return noting.of_job(self.tables, job)[:most]

    # --- leadership ------------------------------------------------------------------------------
    async def elect(self, seen_term: int, holder: str, name: str, url: str, now: int) -> Leadership | None:
        return self.apply_elect(seen_term, holder, name, url, now)

    async def renew(self, term: int, holder: str, asleep: bool) -> bool:
        return self.apply_renew(term, holder, asleep)

    async def resign(self, term: int, holder: str) -> None:
        self.apply_resign(term, holder)

    # --- the leader ------------------------------------------------------------------------------
    async def commit(
        self,
        term: int,
        holder: str,
        batch: Batch,
        submissions: Sequence[Submission],
        now: int,
        after: Awaitable[object] | None = None,
    ) -> Receipt:
        if after is not None:
            await after
        return self.apply_commit(term, holder, batch, submissions, now)

    async def write_schedule(
        self, term: int, holder: str, change: ScheduleChange, now: int
    ) -> list[Accepted] | None:
        self.now = max(self.now, now)
        return writing.write_schedule(self.tables, term, holder, change, now)

    async def take_arrivals(self, after: int, most: int = 10_000, *, by_words: bool = False) -> list[Taken]:
        return self.read_arrivals(after, most)

    async def live_attempts(self) -> list[LiveAttempt]:
        return self.read_live()

    async def waiting_jobs(self, page: int = 10_000) -> AsyncIterator[WaitingPage]:
        for found in self.read_waiting(page):
            yield found

    async def waiting_below(
        self, path: str, after: int = -1, most: int = 10_000
    ) -> tuple[list[Arrival], int | None]:
        return self.read_below(path, after, most)

    async def ended_states(self, jobs: Sequence[int]) -> dict[int, State | None]:
        return self.read_endings(jobs)

    async def find_replaced(self, jobs: Sequence[int]) -> list[Arrival]:
        return self.read_replaced(jobs)

    async def begun_again(self, jobs: Sequence[int]) -> list[Begun]:
        return self.read_begun(jobs)

    async def checkpoints(self, jobs: Sequence[int]) -> dict[int, bytes]:
        return {job: self.tables.checkpoints[job][1] for job in jobs if job in self.tables.checkpoints}

    async def tidy(self, now: int, keep_ended_seconds: float, most: int = 5000) -> int:
        return self.apply_tidy(now, keep_ended_seconds, most)

    async def mute_cause(self, term: int, holder: str, cause: str, until: int | None) -> bool:
        writing.check_term(self.tables, term, holder)
        found = self.tables.causes.get(cause)
        if found is not None:
            self.tables.causes[cause] = found._replace(muted_until=until)
        return found is not None

    async def forget_cause(self, term: int, holder: str, cause: str, most: int = 5000) -> int:
        writing.check_term(self.tables, term, holder)
        return forget_cause(self.tables, cause, most)

    async def due_calls(self, now: int, most: int = 100, without: Collection[str] = ()) -> list[Call]:
        calls = self.tables.calls.values()
        due = [call for call in calls if call.due_at <= now and call.host not in without]
        return sorted(due, key=lambda call: (call.due_at, call.number))[:most]

    async def next_call(self) -> int | None:
        return min((call.due_at for call in self.tables.calls.values()), default=None)

    async def settle_calls(self, over: Sequence[int], later: Sequence[tuple[int, int, int]]) -> None:
        calls = self.tables.calls
        for number in over:
            calls.pop(number, None)
        for number, tries, due_at in later:
            if number in calls:
                calls[number] = calls[number]._replace(tries=tries, due_at=due_at)

    async def put_calls_off(self, host: str, now: int, due_at: int) -> None:
        for number, call in self.tables.calls.items():
            if call.host == host and call.due_at <= now:
                self.tables.calls[number] = call._replace(due_at=due_at)

    async def ended_queues(self, since: int, until: int) -> list[str]:
        return sorted({job.queue for job in ended_between(self.tables, since, until)})

    async def forget_ended(self, queues: Sequence[str], since: int, until: int, most: int = 5000) -> int:
        return forget_ended(self.tables, frozenset(queues), since, until, most)

    async def delete_jobs(self, term: int, holder: str, jobs: Sequence[int]) -> list[int]:
        writing.check_term(self.tables, term, holder)
        return delete_jobs(self.tables, jobs)

    # --- the doorbell ----------------------------------------------------------------------------
    async def wait_for_ring(self, timeout: float, answer: Callable[[], None] | None = None) -> bool:
        # Not wait_for: before Python 3.12 it forgets a cancel that comes together with the ring.
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._rung.wait()
        rung = self._rung.is_set()
        self._rung.clear()
        return rung
