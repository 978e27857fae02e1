"""The store in PostgreSQL: what the contract asks for, each call one transaction.

The leader's commits and its beat have connections of their own, so that no search keeps them waiting; what
comes by the doorbell is read, and begun, by the connection that heard it. All state is in the database but
two things: what the leader has seen of the arrivals, and its books.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from typing import Any

import asyncpg
import msgspec

from fairway.core.lifecycle import State
from fairway.core.model import Arrival
from fairway.core.plan import Batch, Begun, News, QueueChange
from fairway.errors import Conflict, Deposed, FairwayError, StoreUnavailable, Unsure
from fairway.notes import MOST_ATTEMPTS
from fairway.query import Query
from fairway.store import (
    CULPRIT_SECONDS,
    MOST_CULPRITS,
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
from fairway.stores.backlog import page_from_groups
from fairway.stores.postgres import at_once, committing, leading, schedules
from fairway.stores.postgres import search as searching
from fairway.stores.postgres.bell import Bell, is_direct
from fairway.stores.postgres.books import Books
from fairway.stores.postgres.connection import Connections, connect
from fairway.stores.postgres.inserting import insert_submissions
from fairway.stores.postgres.intake import Intake
from fairway.stores.postgres.migrate import migrate
from fairway.stores.postgres.sql import DEFAULT_SCHEMA, check_schema, queries_of
from fairway.stores.rows import Row, begun_from, endings_from, live_from, stored_from, taken_from
from fairway.stores.telling import numbered
from fairway.stores.tidying import EVENT_BYTES
from fairway.times import MICRO

KEY_SECONDS = 1.0  # how long a submit waits for an equal unique key in somebody's open transaction
SEARCH_SECONDS = 10.0
COMMON, URGENT = 8, 4  # connections: for anybody, for the leader
#: What a node opens at most, with the one that hears the doorbell; and what it needs to lead and be called.
MOST_CONNECTIONS, LEAST_CONNECTIONS = COMMON + URGENT + 1, 3
LOOK_SECONDS = 1.0
SEARCHES = 4  # at once: others want to read, too
EVENT_ROWS = 200

_read_news = msgspec.msgpack.Decoder(list[News]).decode


class PostgresStore:
    """A store in one schema of a PostgreSQL database."""

    kind = "postgres"
    overlaps = True

    def __init__(self, dsn: str, schema: str = DEFAULT_SCHEMA, *, event_bytes: int = EVENT_BYTES) -> None:
        self.dsn, self.schema = dsn, check_schema(schema)
        self._sql = queries_of(schema)
        self._event_bytes = event_bytes
        self._common = Connections(dsn, COMMON, direct=False)
        self._urgent = Connections(dsn, URGENT, direct=False)
        self._books = Books()
        self._bell = Bell(schema)
        self._ear: Connections | None = None  # while we lead, and there is no pooler in between
        self._intake = Intake(self._look, self._bell)
        self._deaf: set[asyncio.Future[None]] = set()  # ears that are being closed
        self._searches = asyncio.Semaphore(SEARCHES)
        self._open = self._direct = False

    async def open(self) -> None:
        connection = await connect(self.dsn)
        try:
            direct = await is_direct(connection)
        finally:
            await connection.close(timeout=2)
        self._common = Connections(self.dsn, COMMON, direct=direct)
        self._urgent = Connections(self.dsn, URGENT, direct=direct, spare=self._common)
        self._direct = direct
        async with self._common.writing() as connection:
            await migrate(connection, self.schema)
        self._open = True

    async def close(self) -> None:
        self._open = False
        self.stop_listening()
        await asyncio.gather(self._common.close(), self._urgent.close(), *self._deaf)

    def cut(self) -> None:
        """Let go of all connections without waiting; whoever uses one hears of it."""
        self._open = False
        for connections in (self._common, self._urgent, self._ear):
            if connections is not None:
                connections.cut()

    # --- anybody ---------------------------------------------------------------------------------
    async def submit(self, submissions: Sequence[Submission], now: int) -> list[Accepted]:
        if at_once.is_small(submissions) and await self._submit_at_once(submissions[0], now):
            self._bell.ring()
            return [Accepted([job.id for job in submissions[0].jobs], [False] * len(submissions[0].jobs))]
        try:
            async with self._common.writing(lock_seconds=KEY_SECONDS) as connection:
                inserted = await insert_submissions(
                    connection, self._sql, submissions, now, schema=self.schema
                )
        except StoreUnavailable as error:
            unique = any(job.unique is not None for each in submissions for job in each.jobs)
            if unique and isinstance(error.__cause__, asyncpg.LockNotAvailableError):
                raise Conflict(
                    "an equal unique key is in somebody's open transaction", code="unique_pending"
                ) from error
            raise
        self._bell.ring()
        return inserted.accepted

    async def _submit_at_once(self, submission: Submission, now: int) -> bool:
        if at_once.is_one(submission):
            name, values = "submit_one", at_once.submit_one_values(submission, now)
        else:
            name, values = "submit_at_once", at_once.submit_values(submission, now)
        try:
            return bool(await self._common.run_once(self._sql[name], *values))
        except Unsure:
            if submission.request is None:
                raise
            return False  # under its key it may be asked again: the long way finds out

    async def find_job(self, job: int) -> StoredJob | None:
        found = await self.find_jobs([job])
        return found[0] if found else None

    async def find_claim(self, queue: str, unique: str, now: int) -> int | None:
        found = await self._run("find_claim", queue, unique, now)
        return int(found[0][0]) if found else None

    async def find_jobs(self, jobs: Sequence[int]) -> list[StoredJob]:
        return [stored_from(row) for row in await self._run("find_jobs", list(jobs))]

    async def search(
        self, query: Query, *, now: int, sort: str = "-created_at", limit: int = 50, cursor: str | None = None
    ) -> Page:
        async with self._searches, self._common.reading(SEARCH_SECONDS) as connection:
            return await searching.search(connection, self.schema, query, now, sort, limit, cursor)

    async def count(self, query: Query, now: int) -> int:
        async with self._searches, self._common.reading(SEARCH_SECONDS) as connection:
            return await searching.count(connection, self.schema, query, now)

    async def events_after(self, number: int, index: int, most: int = 1000) -> list[NumberedEvent]:
        found: list[NumberedEvent] = []
        row = number
        while len(found) < most:
            rows = await self._run("events_from", row, EVENT_ROWS)
            for row, body in rows:
                found += numbered(row, index + 1 if row == number else 0, _read_news(body))
            if len(rows) < EVENT_ROWS:
                break
            row += 1
        return found[:most]

    async def event_span(self) -> tuple[int, int]:
        [(oldest, newest)] = await self._run("event_span")
        return oldest, newest

    async def find_leadership(self) -> Leadership | None:
        rows = await self._run("find_leadership")
        return Leadership(*rows[0]) if rows else None

    async def leaders(self, most: int = 20) -> list[Leadership]:
        return [Leadership(*row) for row in await self._run("leaders", most)]

    async def save_node(self, node: NodeRow) -> None:
        await self._run("save_node", *node)

    async def nodes(self) -> list[NodeRow]:
        return [NodeRow(*row) for row in await self._run("nodes")]

    async def forget_node(self, incarnation: str) -> None:
        await self._run("forget_node", incarnation)

    async def queue_rows(self) -> dict[str, bytes]:
        return dict(await self._lead("queue_rows"))

    async def queue_changes(
        self, path: str | None = None, most: int = 100, before: int | None = None
    ) -> list[NumberedChange]:
        rows = await self._run("queue_changes", path, before or 1 << 62, most)
        return [NumberedChange(row[0], QueueChange(*row[1:])) for row in rows]

    async def find_queues(self, paths: Sequence[str]) -> dict[str, bytes]:
        return dict(await self._run("find_queues", list(paths)))

    async def schedule_rows(self) -> list[ScheduleRow]:
        return [ScheduleRow(*row) for row in await self._run("schedule_rows")]

    async def find_schedule(self, name: str) -> ScheduleRow | None:
        found = await self._run("find_schedule", name)
        return ScheduleRow(*found[0]) if found else None

    async def causes(self, most: int = 500, before: tuple[int, str] | None = None) -> list[CauseRow]:
        return [CauseRow(*row) for row in await self._run("causes", *(before or (1 << 62, "")), most)]

    async def find_cause(self, cause: str) -> CauseRow | None:
        found = await self._run("find_cause", cause)
        return CauseRow(*found[0]) if found else None

    async def note_culprit(self, digest: str, what: str, error: str, job: int | None, now: int) -> None:
        if not self._open:
            raise StoreUnavailable("the store is not open")
        values = (digest, what, error, job, now, now - CULPRIT_SECONDS * MICRO, MOST_CULPRITS - 1)
        await self._urgent.run_once(self._sql["note_culprit"], *values)  # twice would be two leaders

    async def culprits(self, now: int) -> list[Culprit]:
        return [Culprit(*row) for row in await self._lead("culprits", now - CULPRIT_SECONDS * MICRO)]

    async def add_log(self, lines: Sequence[LogLine]) -> None:
        if lines:
            await self._run("add_log", *(list(column) for column in zip(*lines, strict=True)))

    async def read_log(
        self, job: int, attempt: int | None, after: int = -1, most: int = 10_000
    ) -> list[LogLine]:
        return [LogLine(*row) for row in await self._run("read_log", job, attempt, after, most)]

    async def save_notes(self, notes: Sequence[NoteRow], now: int) -> None:
        if notes:
            columns = (list(column) for column in zip(*notes, strict=True))
            await self._run("save_notes", *columns, now, MOST_ATTEMPTS)

    async def find_notes(self, jobs: Sequence[int]) -> dict[int, StoredNote]:
        return {row[0]: StoredNote(*row) for row in await self._run("find_notes", list(jobs))}

    async def attempt_notes(self, job: int, most: int = 100) -> list[StoredNote]:
        return [StoredNote(*row) for row in await self._run("attempt_notes", job, most)]

    # --- leadership ------------------------------------------------------------------------------
    async def elect(self, seen_term: int, holder: str, name: str, url: str, now: int) -> Leadership | None:
        # Through a pooler nobody hears anything.
        channel = self._bell.draw_channel() if self._direct else None
        async with self._urgent.writing() as connection:
            return await leading.elect(connection, self._sql, seen_term, holder, name, url, now, channel)

    async def renew(self, term: int, holder: str, asleep: bool) -> bool:
        # A leader that is rung at all the time does better to stay awake.
        sleeps = self._bell.judge() and asleep
        beat = await self._urgent.run(self._sql["beat"], term, holder, sleeps, self._bell.own_channel)
        self._bell.beaten()
        return bool(beat)

    async def resign(self, term: int, holder: str) -> None:
        async with self._urgent.writing() as connection:
            await connection.execute(self._sql["resign"], term, holder)

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
        books = self._books
        if after is not None and self._urgent.is_alone:
            await asyncio.shield(after)  # it may need the one connection that there is
        if at_once.begins_at_once(batch, submissions):
            short = await self._begin_at_once(submissions, batch, now, term, holder)
            if short is not None:
                return short
        elif after is None and at_once.only_begins_few(batch, submissions):
            short = await self._begin_first_at_once(batch, now, term, holder)
            if short is not None:
                return short
        try:
            fence = leading.fence_of(self._sql, term, holder)
            async with self._urgent.writing(fence, last_words=books.last_words) as connection:
                if connection is None:
                    raise Deposed(f"term {term} of {holder} is over")
                receipt = await committing.commit(
                    connection, self._sql, term, batch, submissions, now, books, self.schema, after
                )
        except BaseException:
            books.forget()
            raise
        books.committed()
        return receipt

    async def _begin_at_once(
        self, submissions: Sequence[Submission], batch: Batch, now: int, term: int, holder: str
    ) -> Receipt | None:
        """Go the short way; None if it led nowhere."""
        books = self._books
        books.begin(term)
        if not books.are_open(bool(batch.begins)):
            return None
        receipt = at_once.receipt_of(submissions, batch, now)
        event = books.scribe.draft(receipt.told)
        group = books.roll.draft([one.job for one in receipt.begun])
        values = at_once.begin_values(submissions, batch, now)
        try:
            rows = await self._keep_at_once(
                self._urgent, "begin_at_once", *values, group, *event, term, holder
            )
        except StoreUnavailable as error:
            if isinstance(error.__cause__, asyncpg.UniqueViolationError):
                return None  # somebody was quicker with a key or an id: the long way finds out with which
            raise
        return receipt._replace(number=event[0]) if rows else None

    async def _begin_first_at_once(self, batch: Batch, now: int, term: int, holder: str) -> Receipt | None:
        """Go the short way with jobs that are stored already; None if it led nowhere."""
        books = self._books
        books.begin(term)
        if not books.are_open(True):
            return None
        columns, news = at_once.first_begins(batch)
        number, written, body = books.scribe.draft(news)
        group = books.roll.draft(columns[0])
        ids, name = columns[0], "begin_first_at_once"
        values: list[Any] = columns
        if len(ids) == 1:
            name, values = "begin_first", [column[0] for column in columns]
        values = [*values, group, number, now, written, body, batch.taken, term, holder]
        through = self._ear if self._ear is not None and self._bell.hears else self._urgent
        rows = await self._keep_at_once(through, name, *values)
        found = {row[0]: row for row in rows}
        return Receipt(begun_from(found[job] for job in ids), [], [], [], [], news, number) if rows else None

    async def _keep_at_once(self, through: Connections, name: str, *values: Any) -> list[Row]:
        """Run a statement that writes what the books have drafted, or nothing and returns no row."""
        try:
            rows = await through.run_once(self._sql[name], *values)
        except BaseException:
            self._books.forget()
            raise
        if rows:
            self._books.committed()
        return rows

    async def write_schedule(
        self, term: int, holder: str, change: ScheduleChange, now: int
    ) -> list[Accepted] | None:
        fence = leading.fence_of(self._sql, term, holder)
        async with self._common.writing(fence, lock_seconds=KEY_SECONDS) as connection:
            if connection is None:
                raise Deposed(f"term {term} of {holder} is over")
            return await schedules.write_schedule(connection, self._sql, change, now, self.schema)

    async def take_arrivals(self, after: int, most: int = 10_000, *, by_words: bool = False) -> list[Taken]:
        return await self._intake.take(after, most, by_words)

    async def _look(self, name: str, *values: Any) -> list[Row]:
        """Read arrivals by the connection that hears of them; if nothing comes from there, by any other."""
        if self._ear is not None:
            try:
                async with asyncio.timeout(LOOK_SECONDS):
                    return await self._ear.run(self._sql[name], *values)
            except (FairwayError, TimeoutError) as error:
                self._bell.complain(error)
        return await self._lead(name, *values)

    async def live_attempts(self) -> list[LiveAttempt]:
        return [live_from(tuple(row)) for row in await self._lead("live_attempts")]

    async def waiting_jobs(self, page: int = 10_000) -> AsyncIterator[WaitingPage]:
        last = -1
        while found := page_from_groups(await self._lead("waiting_jobs", last, page)):
            yield found
            if found.size < page:
                return
            last = found.last

    async def waiting_below(
        self, path: str, after: int = -1, most: int = 10_000
    ) -> tuple[list[Arrival], int | None]:
        [(last,)] = await self._lead("last_of_page", after, most)
        if last is None:
            return [], None
        found = taken_from(await self._lead("waiting_below", after, last, path))
        return [one.job for one in found], last

    async def ended_states(self, jobs: Sequence[int]) -> dict[int, State | None]:
        return endings_from(jobs, await self._lead("ended_states", list(jobs)))

    async def find_replaced(self, jobs: Sequence[int]) -> list[Arrival]:
        return [taken.job for taken in taken_from(await self._lead("find_replaced", list(jobs)))]

    async def begun_again(self, jobs: Sequence[int]) -> list[Begun]:
        return begun_from(await self._lead("begun_again", list(jobs)))

    async def checkpoints(self, jobs: Sequence[int]) -> dict[int, bytes]:
        return dict(await self._lead("checkpoints", list(jobs)))

    async def tidy(self, now: int, keep_ended_seconds: float, most: int = 5000) -> int:
        async with self._common.writing() as connection:
            return await leading.tidy(connection, self._sql, now, keep_ended_seconds, most, self._event_bytes)

    async def mute_cause(self, term: int, holder: str, cause: str, until: int | None) -> bool:
        fence = leading.fence_of(self._sql, term, holder)
        async with self._common.writing(fence, lock_seconds=KEY_SECONDS) as connection:
            if connection is None:
                raise Deposed(f"term {term} of {holder} is over")
            return bool(await connection.fetch(self._sql["mute_cause"], cause, until))

    async def forget_cause(self, term: int, holder: str, cause: str, most: int = 5000) -> int:
        fence = leading.fence_of(self._sql, term, holder)
        async with self._common.writing(fence, lock_seconds=KEY_SECONDS) as connection:
            if connection is None:
                raise Deposed(f"term {term} of {holder} is over")
            gone = int(await connection.fetchval(self._sql["forget_cause"], cause, most))
            await connection.execute(self._sql["delete_cause"], cause)
            return gone

    async def due_calls(self, now: int, most: int = 100, without: Collection[str] = ()) -> list[Call]:
        return [Call(*row) for row in await self._run("due_calls", now, most, list(without))]

    async def next_call(self) -> int | None:
        [(due_at,)] = await self._run("next_call")
        return None if due_at is None else int(due_at)

    async def settle_calls(self, over: Sequence[int], later: Sequence[tuple[int, int, int]]) -> None:
        async with self._common.writing() as connection:
            if over:
                await connection.execute(self._sql["delete_calls"], list(over))
            if later:
                columns = [list(column) for column in zip(*later, strict=True)]
                await connection.execute(self._sql["retry_calls"], *columns)

    async def put_calls_off(self, host: str, now: int, due_at: int) -> None:
        await self._run("put_calls_off", host, now, due_at)

    async def ended_queues(self, since: int, until: int) -> list[str]:
        async with self._common.writing() as connection:
            return [row[0] for row in await connection.fetch(self._sql["ended_queues"], since, until)]

    async def forget_ended(self, queues: Sequence[str], since: int, until: int, most: int = 5000) -> int:
        async with self._common.writing() as connection:
            values = (since, until, list(queues), most)
            return int(await connection.fetchval(self._sql["forget_ended"], *values))

    async def delete_jobs(self, term: int, holder: str, jobs: Sequence[int]) -> list[int]:
        fence = leading.fence_of(self._sql, term, holder)
        async with self._common.writing(fence, lock_seconds=KEY_SECONDS) as connection:
            if connection is None:
                raise Deposed(f"term {term} of {holder} is over")
            return [row[0] for row in await connection.fetch(self._sql["forget_jobs"], list(jobs))]

    # --- the doorbell ----------------------------------------------------------------------------
    def listen(self) -> bool:
        """Answer the doorbell from now on: for the node that leads."""
        if self._ear is None and self._direct:
            self._ear = Connections(
                self.dsn,
                1,
                direct=True,
                name="fairway doorbell",
                greet=self._bell.listen_on,
                spare=self._common,
            )
        return True

    def stop_listening(self) -> None:
        """Leave the doorbell to somebody else."""
        ear, self._ear = self._ear, None
        if ear is not None:
            closing = asyncio.ensure_future(ear.close())
            self._deaf.add(closing)
            closing.add_done_callback(self._deaf.discard)

    async def wait_for_ring(self, timeout: float, answer: Callable[[], None] | None = None) -> bool:
        return await self._bell.wait(timeout, answer)

    async def _lead(self, name: str, *values: Any) -> list[Row]:
        """Read what the leader needs: it must not wait behind others."""
        if not self._open:
            raise StoreUnavailable("the store is not open")
        return await self._urgent.run(self._sql[name], *values)

    async def _run(self, name: str, *values: Any) -> list[Row]:
        if not self._open:
            raise StoreUnavailable("the store is not open")
        return await self._common.run(self._sql[name], *values)
