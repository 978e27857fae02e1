"""What readers ask for, each answered from one snapshot of the file."""

from __future__ import annotations

import json
from collections.abc import Sequence

import apsw
import msgspec

from fairway.core.lifecycle import State
from fairway.core.model import Arrival
from fairway.core.plan import Begun, News, QueueChange
from fairway.store import (
    CULPRIT_SECONDS,
    Call,
    CauseRow,
    Culprit,
    Leadership,
    LiveAttempt,
    LogLine,
    NodeRow,
    NumberedChange,
    NumberedEvent,
    ScheduleRow,
    StoredJob,
    StoredNote,
    Taken,
    WaitingPage,
)
from fairway.stores.backlog import page_from
from fairway.stores.rows import Row, begun_from, endings_from, live_from, stored_from, taken_from
from fairway.stores.sqlite.connection import fetch
from fairway.stores.sqlite.sql import SQL
from fairway.stores.telling import numbered
from fairway.times import MICRO

LAST = (1 << 62, "")  # behind every cause

_read_news = msgspec.msgpack.Decoder(list[News]).decode


def find_jobs(connection: apsw.Connection, jobs: Sequence[int]) -> list[StoredJob]:
    """Return those of *jobs* that exist."""
    return [stored_from(row) for row in fetch(connection, SQL["find_jobs"], (_list(jobs),))]


def find_claim(connection: apsw.Connection, queue: str, unique: str, now: int) -> int | None:
    """Return the holder of a unique key."""
    found = fetch(connection, SQL["find_claim"], (queue, unique, now))
    return int(found[0][0]) if found else None


def ended_states(connection: apsw.Connection, jobs: Sequence[int]) -> dict[int, State | None]:
    """Return how those of *jobs* ended that have."""
    return endings_from(jobs, fetch(connection, SQL["ended_states"], (_list(jobs),)))


def find_replaced(connection: apsw.Connection, jobs: Sequence[int]) -> list[Arrival]:
    """Return those of *jobs* that wait or run although their key has gone to a newer one."""
    return [taken.job for taken in taken_from(fetch(connection, SQL["find_replaced"], (_list(jobs),)))]


def begun_again(connection: apsw.Connection, jobs: Sequence[int]) -> list[Begun]:
    """Return what the running ones of *jobs* were begun with."""
    return begun_from(fetch(connection, SQL["begun_again"], (_list(jobs),)))


def take_arrivals(connection: apsw.Connection, after: int, most: int) -> list[Taken]:
    """Return arrivals of jobs that still wait."""
    return taken_from(fetch(connection, SQL["take_arrivals"], (after, most)))


def waiting_jobs(connection: apsw.Connection, after: int, most: int) -> WaitingPage | None:
    """Return the next waiting jobs by id."""
    return page_from(fetch(connection, SQL["waiting_jobs"], (after, most)))


def waiting_below(
    connection: apsw.Connection, path: str, after: int, most: int
) -> tuple[list[Arrival], int | None]:
    """Return the jobs that wait in a branch, among the next *most*, and where to go on."""
    [(last,)] = fetch(connection, SQL["last_of_page"], (after, most))
    if last is None:
        return [], None
    found = taken_from(fetch(connection, SQL["waiting_below"], (after, last, path)))
    return [one.job for one in found], last


def live_attempts(connection: apsw.Connection) -> list[LiveAttempt]:
    """Return every running attempt."""
    return [live_from(row) for row in fetch(connection, SQL["live_attempts"])]


def events_after(connection: apsw.Connection, number: int, index: int, most: int) -> list[NumberedEvent]:
    """Return up to *most* events behind `number.index`."""
    found: list[NumberedEvent] = []
    for row_number, body in connection.execute(SQL["events_from"], (number,)):
        first = index + 1 if row_number == number else 0
        found += numbered(row_number, first, _read_news(body))
        if len(found) >= most:
            break
    return found[:most]


def event_span(connection: apsw.Connection) -> tuple[int, int]:
    """Return the oldest and the newest event number."""
    [(oldest, newest)] = fetch(connection, SQL["event_span"])
    return oldest, newest


def read_log(
    connection: apsw.Connection, job: int, attempt: int | None, after: int, most: int
) -> list[LogLine]:
    """Return output of one attempt, or of the latest that wrote any."""
    return [LogLine(*row) for row in fetch(connection, SQL["read_log"], (job, attempt, after, most))]


def find_notes(connection: apsw.Connection, jobs: Sequence[int]) -> dict[int, StoredNote]:
    """Return the last note of each job that has one."""
    return {row[0]: StoredNote(*row) for row in fetch(connection, SQL["find_notes"], (_list(jobs),))}


def attempt_notes(connection: apsw.Connection, job: int, most: int) -> list[StoredNote]:
    """Return the notes of a job's attempts, the last first."""
    return [StoredNote(*row) for row in fetch(connection, SQL["attempt_notes"], (job, most))]


def checkpoints(connection: apsw.Connection, jobs: Sequence[int]) -> dict[int, bytes]:
    """Return where the next attempt of each job goes on."""
    return dict(fetch(connection, SQL["checkpoints"], (_list(jobs),)))


def ended_queues(connection: apsw.Connection, since: int, until: int) -> list[str]:
    """Return the queues of the jobs that ended in a time."""
    return [queue for (queue,) in fetch(connection, SQL["ended_queues"], (since, until))]


def queue_rows(connection: apsw.Connection) -> dict[str, bytes]:
    """Return the settings of every queue."""
    return dict(fetch(connection, SQL["queue_rows"]))


def queue_changes(
    connection: apsw.Connection, path: str | None, most: int, before: int | None
) -> list[NumberedChange]:
    """Return changes of queues, newest first."""
    rows = fetch(connection, SQL["queue_changes"], (path, before or 1 << 62, most))
    return [NumberedChange(row[0], QueueChange(*row[1:])) for row in rows]


def find_queues(connection: apsw.Connection, paths: Sequence[str]) -> dict[str, bytes]:
    """Return the settings of those of the queues that have a row."""
    return dict(fetch(connection, SQL["find_queues"], (msgspec.json.encode(list(paths)).decode(),)))


def schedule_rows(connection: apsw.Connection) -> list[ScheduleRow]:
    """Return every schedule."""
    return [ScheduleRow(*row) for row in fetch(connection, SQL["schedule_rows"])]


def find_schedule(connection: apsw.Connection, name: str) -> ScheduleRow | None:
    """Return one schedule."""
    found = fetch(connection, SQL["find_schedule"], (name,))
    return ScheduleRow(*found[0]) if found else None


def causes(connection: apsw.Connection, most: int, before: tuple[int, str] | None) -> list[CauseRow]:
    """Return causes, those seen last first."""
    return [CauseRow(*row) for row in fetch(connection, SQL["causes"], (*(before or LAST), most))]


def find_cause(connection: apsw.Connection, cause: str) -> CauseRow | None:
    """Return one cause."""
    found = fetch(connection, SQL["find_cause"], (cause,))
    return CauseRow(*found[0]) if found else None


def due_calls(connection: apsw.Connection, now: int, most: int, without: list[str]) -> list[Call]:
    """Return calls whose time has come."""
    return [Call(*row) for row in fetch(connection, SQL["due_calls"], (now, most, json.dumps(without)))]


def next_call(connection: apsw.Connection) -> int | None:
    """Return when the next call is due."""
    [(due_at,)] = fetch(connection, SQL["next_call"])
    return None if due_at is None else int(due_at)


def nodes(connection: apsw.Connection) -> list[NodeRow]:
    """Return the nodes that wrote themselves down."""
    return [NodeRow(*row) for row in fetch(connection, SQL["nodes"])]


def culprits(connection: apsw.Connection, now: int) -> list[Culprit]:
    """Return the calls and jobs on which leaders ended, as far as they are remembered."""
    since = now - CULPRIT_SECONDS * MICRO
    return [Culprit(*row) for row in fetch(connection, SQL["culprits"], (since,))]


def find_leadership(connection: apsw.Connection) -> Leadership | None:
    """Return the leader row with its beat."""
    rows = _leaderships(fetch(connection, SQL["find_leadership"]))
    return rows[0] if rows else None


def leaders(connection: apsw.Connection, most: int) -> list[Leadership]:
    """Return past elections, newest first."""
    return _leaderships(fetch(connection, SQL["leaders"], (most,)))


def _leaderships(rows: list[Row]) -> list[Leadership]:
    return [Leadership(*row)._replace(asleep=bool(row[-1])) for row in rows]


def _list(jobs: Sequence[int]) -> str:
    return msgspec.json.encode(list(jobs)).decode()
