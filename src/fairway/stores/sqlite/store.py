"""The store in a file: what the contract asks for, sent to the thread it belongs to.

One thread owns the connection that writes, two others read beside it. Several processes may use the file
at once; the leader's store also listens at the doorbell.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from pathlib import Path
from typing import TypeVar

import apsw

from fairway.core.lifecycle import State
from fairway.core.model import Arrival
from fairway.core.plan import Batch, Begun
from fairway.errors import StoreUnavailable
from fairway.notes import MOST_ATTEMPTS
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
from fairway.stores.sqlite import committing, leading, reading, schedules
from fairway.stores.sqlite import search as searching
from fairway.stores.sqlite.bell import Bell, ring
from fairway.stores.sqlite.connection import fetch, open_reader, open_writer, transaction
from fairway.stores.sqlite.inserting import insert_submissions
from fairway.stores.sqlite.migrate import migrate
from fairway.stores.sqlite.sql import SQL
from fairway.stores.sqlite.threads import ConnectionThreads
from fairway.stores.tidying import EVENT_BYTES

T = TypeVar("T")


class SqliteStore:
    """A store in one file of one machine."""

    kind = "sqlite"
    overlaps = False

    def __init__(self, path: Path | str, *, event_bytes: int = EVENT_BYTES) -> None:
        self.path = Path(path)
        self._event_bytes = event_bytes
        self._writer: ConnectionThreads | None = None
        self._readers: ConnectionThreads | None = None
        self._bell = Bell(self.path)
        self._version_seen = 0

    async def open(self) -> None:
        try:
            await asyncio.to_thread(self.path.parent.mkdir, parents=True, exist_ok=True)
            self._writer = await asyncio.to_thread(ConnectionThreads, self.path, open_writer, 1)
            await self._writer.run(lambda connection: migrate(connection, self.path))
            self._version_seen = await self._writer.run(_data_version)
            self._readers = await asyncio.to_thread(ConnectionThreads, self.path, open_reader, 2)
        except BaseException as error:
            await self.close()
            if isinstance(error, OSError):
                raise StoreUnavailable(f"{self.path}: {error}") from error
            raise

    async def close(self) -> None:
        self._bell.stop()
        for threads in (self._readers, self._writer):
            if threads is not None:
                await asyncio.to_thread(threads.close)

    # --- anybody ---------------------------------------------------------------------------------
    async def submit(self, submissions: Sequence[Submission], now: int) -> list[Accepted]:
        accepted = await self._write(lambda connection: _submit(connection, submissions, now))
        self._bell.ring()
        ring(self.path)
        return accepted

    async def find_job(self, job: int) -> StoredJob | None:
        found = await self.find_jobs([job])
        return found[0] if found else None

    async def find_claim(self, queue: str, unique: str, now: int) -> int | None:
        return await self._read(lambda connection: reading.find_claim(connection, queue, unique, now))

    async def find_jobs(self, jobs: Sequence[int]) -> list[StoredJob]:
        return await self._read(lambda connection: reading.find_jobs(connection, jobs))

    async def search(
        self, query: Query, *, now: int, sort: str = "-created_at", limit: int = 50, cursor: str | None = None
    ) -> Page:
        return await self._read(lambda it: searching.search(it, query, now, sort, limit, cursor))

    async def count(self, query: Query, now: int) -> int:
        return await self._read(lambda connection: searching.count(connection, query, now))

    async def events_after(self, number: int, index: int, most: int = 1000) -> list[NumberedEvent]:
        return await self._read(lambda connection: reading.events_after(connection, number, index, most))

    async def event_span(self) -> tuple[int, int]:
        return await self._read(reading.event_span)

    async def find_leadership(self) -> Leadership | None:
        return await self._read(reading.find_leadership)

    async def leaders(self, most: int = 20) -> list[Leadership]:
        return await self._read(lambda connection: reading.leaders(connection, most))

    async def save_node(self, node: NodeRow) -> None:
        await self._write(lambda connection: _run(connection, "save_node", [node]))

    async def nodes(self) -> list[NodeRow]:
        return await self._read(reading.nodes)

    async def forget_node(self, incarnation: str) -> None:
        await self._write(lambda connection: _run(connection, "forget_node", [(incarnation,)]))

    async def queue_rows(self) -> dict[str, bytes]:
        return await self._read(reading.queue_rows)

    async def queue_changes(
        self, path: str | None = None, most: int = 100, before: int | None = None
    ) -> list[NumberedChange]:
        return await self._read(lambda connection: reading.queue_changes(connection, path, most, before))

    async def find_queues(self, paths: Sequence[str]) -> dict[str, bytes]:
        return await self._read(lambda connection: reading.find_queues(connection, paths))

    async def schedule_rows(self) -> list[ScheduleRow]:
        return await self._read(reading.schedule_rows)

    async def find_schedule(self, name: str) -> ScheduleRow | None:
        return await self._read(lambda connection: reading.find_schedule(connection, name))

    async def causes(self, most: int = 500, before: tuple[int, str] | None = None) -> list[CauseRow]:
        return await self._read(lambda connection: reading.causes(connection, most, before))

    async def find_cause(self, cause: str) -> CauseRow | None:
        return await self._read(lambda connection: reading.find_cause(connection, cause))

    async def note_culprit(self, digest: str, what: str, error: str, job: int | None, now: int) -> None:
        row = (digest, what, error, job, now)
        await self._write(lambda connection: leading.note_culprit(connection, row))

    async def culprits(self, now: int) -> list[Culprit]:
        return await self._read(lambda connection: reading.culprits(connection, now))

    async def add_log(self, lines: Sequence[LogLine]) -> None:
        await self._write(lambda connection: _run(connection, "add_log", lines))

    async def read_log(
        self, job: int, attempt: int | None, after: int = -1, most: int = 10_000
    ) -> list[LogLine]:
        return await self._read(lambda connection: reading.read_log(connection, job, attempt, after, most))

    async def save_notes(self, notes: Sequence[NoteRow], now: int) -> None:
        await self._write(lambda connection: _save_notes(connection, notes, now))

    async def find_notes(self, jobs: Sequence[int]) -> dict[int, StoredNote]:
        return await self._read(lambda connection: reading.find_notes(connection, jobs))

    async def attempt_notes(self, job: int, most: int = 100) -> list[StoredNote]:
        return await self._read(lambda connection: reading.attempt_notes(connection, job, most))

    # --- leadership ------------------------------------------------------------------------------
    async def elect(self, seen_term: int, holder: str, name: str, url: str, now: int) -> Leadership | None:
        return await self._write(lambda it: leading.elect(it, seen_term, holder, name, url, now))

    async def renew(self, term: int, holder: str, asleep: bool) -> bool:
        return await self._write(lambda connection: leading.renew(connection, term, holder, asleep))

    async def resign(self, term: int, holder: str) -> None:
        await self._write(lambda connection: leading.resign(connection, term, holder))

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
        return await self._write(lambda it: committing.commit(it, term, holder, batch, submissions, now))

    async def write_schedule(
        self, term: int, holder: str, change: ScheduleChange, now: int
    ) -> list[Accepted] | None:
        return await self._write(lambda it: schedules.write_schedule(it, term, holder, change, now))

    async def take_arrivals(self, after: int, most: int = 10_000, *, by_words: bool = False) -> list[Taken]:
        return await self._read(lambda connection: reading.take_arrivals(connection, after, most))

    async def live_attempts(self) -> list[LiveAttempt]:
        return await self._read(reading.live_attempts)

    async def waiting_jobs(self, page: int = 10_000) -> AsyncIterator[WaitingPage]:
        last = -1
        while found := await self._waiting_after(last, page):
            yield found
            if found.size < page:
                return
            last = found.last

    async def waiting_below(
        self, path: str, after: int = -1, most: int = 10_000
    ) -> tuple[list[Arrival], int | None]:
        return await self._read(lambda connection: reading.waiting_below(connection, path, after, most))

    async def ended_states(self, jobs: Sequence[int]) -> dict[int, State | None]:
        return await self._read(lambda connection: reading.ended_states(connection, jobs))

    async def find_replaced(self, jobs: Sequence[int]) -> list[Arrival]:
        return await self._read(lambda connection: reading.find_replaced(connection, jobs))

    async def begun_again(self, jobs: Sequence[int]) -> list[Begun]:
        return await self._read(lambda connection: reading.begun_again(connection, jobs))

    async def checkpoints(self, jobs: Sequence[int]) -> dict[int, bytes]:
        return await self._read(lambda connection: reading.checkpoints(connection, jobs))

    async def tidy(self, now: int, keep_ended_seconds: float, most: int = 5000) -> int:
        keep, size = keep_ended_seconds, self._event_bytes
        return await self._write(lambda connection: leading.tidy(connection, now, keep, most, size))

    async def mute_cause(self, term: int, holder: str, cause: str, until: int | None) -> bool:
        return await self._write(
            lambda connection: leading.mute_cause(connection, term, holder, cause, until)
        )

    async def forget_cause(self, term: int, holder: str, cause: str, most: int = 5000) -> int:
        return await self._write(
            lambda connection: leading.forget_cause(connection, term, holder, cause, most)
        )

    async def due_calls(self, now: int, most: int = 100, without: Collection[str] = ()) -> list[Call]:
        hosts = list(without)
        return await self._read(lambda connection: reading.due_calls(connection, now, most, hosts))

    async def next_call(self) -> int | None:
        return await self._read(reading.next_call)

    async def settle_calls(self, over: Sequence[int], later: Sequence[tuple[int, int, int]]) -> None:
        await self._write(lambda connection: leading.settle_calls(connection, over, later))

    async def put_calls_off(self, host: str, now: int, due_at: int) -> None:
        await self._write(lambda connection: _run(connection, "put_calls_off", [(host, now, due_at)]))

    async def ended_queues(self, since: int, until: int) -> list[str]:
        return await self._read(lambda connection: reading.ended_queues(connection, since, until))

    async def forget_ended(self, queues: Sequence[str], since: int, until: int, most: int = 5000) -> int:
        some = list(queues)
        return await self._write(
            lambda connection: leading.forget_ended(connection, some, since, until, most)
        )

    async def delete_jobs(self, term: int, holder: str, jobs: Sequence[int]) -> list[int]:
        some = list(jobs)
        return await self._write(lambda connection: leading.delete_jobs(connection, term, holder, some))

    # --- the doorbell ----------------------------------------------------------------------------
    def listen(self) -> bool:
        """Answer the doorbell from now on: for the node that leads. False if we can only poll."""
        return self._bell.listen()

    def stop_listening(self) -> None:
        """Leave the doorbell to somebody else."""
        self._bell.stop()

    async def wait_for_ring(self, timeout: float, answer: Callable[[], None] | None = None) -> bool:
        return await self._bell.wait(self._foreign_commit, timeout)

    async def _foreign_commit(self) -> bool:
        """Say whether another connection has committed since the last time this was asked."""
        seen, self._version_seen = self._version_seen, await self._write(_data_version)
        return seen != self._version_seen

    async def _waiting_after(self, last: int, page: int) -> WaitingPage | None:
        return await self._read(lambda connection: reading.waiting_jobs(connection, last, page))

    async def _write(self, work: Callable[[apsw.Connection], T]) -> T:
        return await self._thread(self._writer).run(work)

    async def _read(self, work: Callable[[apsw.Connection], T]) -> T:
        return await self._thread(self._readers).run(work)

    def _thread(self, threads: ConnectionThreads | None) -> ConnectionThreads:
        if threads is None:
            raise StoreUnavailable(f"{self.path} is not open")
        return threads


def _submit(connection: apsw.Connection, submissions: Sequence[Submission], now: int) -> list[Accepted]:
    with transaction(connection):
        return insert_submissions(connection.execute, connection.executemany, submissions, now).accepted


def _run(connection: apsw.Connection, name: str, rows: Sequence[tuple[object, ...]]) -> None:
    with transaction(connection):
        connection.executemany(SQL[name], rows)


def _save_notes(connection: apsw.Connection, notes: Sequence[NoteRow], now: int) -> None:
    with transaction(connection):
        connection.executemany(SQL["save_note"], [(*note, now) for note in notes])
        left = [(note.job,) for note in notes if note.checkpoint is not None and note.attempt > 1]
        connection.executemany(SQL["drop_older_checkpoints"], left)
        old = [(note.job, MOST_ATTEMPTS) for note in notes if note.attempt > MOST_ATTEMPTS]
        connection.executemany(SQL["drop_older_notes"], old)


def _data_version(connection: apsw.Connection) -> int:
    return int(fetch(connection, "PRAGMA data_version")[0][0])
