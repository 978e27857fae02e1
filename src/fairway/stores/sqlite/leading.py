"""Elections by compare-and-set, and what only the write connection may do besides commits."""

from __future__ import annotations

import json
from collections.abc import Sequence

import apsw

from fairway.errors import Deposed
from fairway.store import CULPRIT_SECONDS, MOST_CULPRITS, Leadership
from fairway.stores.causing import CAUSE_SECONDS, CAUSES_KEPT
from fairway.stores.sqlite.connection import fetch, transaction
from fairway.stores.sqlite.reading import find_leadership
from fairway.stores.sqlite.sql import SQL
from fairway.stores.submitting import REQUEST_SECONDS
from fairway.stores.tidying import CHANGES_KEPT, CHANGES_KEPT_EACH, EVENT_SECONDS, NODE_SECONDS
from fairway.times import MICRO


def elect(
    connection: apsw.Connection, seen_term: int, holder: str, name: str, url: str, now: int
) -> Leadership | None:
    """Raise the term if nobody else did since it was seen."""
    with transaction(connection):
        if seen_term == 0:
            connection.execute(SQL["first_election"], (holder, name, url, now))
        else:
            connection.execute(SQL["next_election"], (seen_term, holder, name, url, now))
        if connection.changes() == 0:
            return None
        connection.execute(SQL["record_election"])
        connection.execute(SQL["beat"], (seen_term + 1, holder, False))
        return find_leadership(connection)


def renew(connection: apsw.Connection, term: int, holder: str, asleep: bool) -> bool:
    """Beat once, if the term is still ours."""
    with transaction(connection):
        connection.execute(SQL["beat"], (term, holder, asleep))
        return connection.changes() == 1


def resign(connection: apsw.Connection, term: int, holder: str) -> None:
    """Leave the term without a holder."""
    with transaction(connection):
        connection.execute(SQL["resign"], (term, holder))


def tidy(
    connection: apsw.Connection, now: int, keep_ended_seconds: float, most: int, event_bytes: int
) -> int:
    """Forget what is old, a bounded number of each kind; return how many rows went."""
    with transaction(connection):
        before = connection.total_changes()
        old = fetch(connection, SQL["old_ended"], (now - int(keep_ended_seconds * MICRO), most))
        connection.executemany(SQL["delete_log"], old)
        connection.executemany(SQL["delete_notes"], old)
        connection.executemany(SQL["delete_ended"], old)
        connection.execute(SQL["tidy_requests"], (now - REQUEST_SECONDS * MICRO, most))
        connection.execute(SQL["tidy_claims"], (now, most))
        connection.execute(SQL["tidy_arrivals"], (most,))
        connection.execute(SQL["tidy_nodes"], (now - NODE_SECONDS * MICRO,))
        connection.execute(SQL["tidy_causes"], (now - CAUSE_SECONDS * MICRO, CAUSES_KEPT, now, most))
        connection.execute(SQL["tidy_changes"], (CHANGES_KEPT, CHANGES_KEPT_EACH, most))
        _tidy_events(connection, now, most, event_bytes)
        return connection.total_changes() - before


def forget_ended(
    connection: apsw.Connection, queues: Sequence[str], since: int, until: int, most: int
) -> int:
    """Forget jobs of some queues that ended in a time, and what they wrote and said of themselves."""
    with transaction(connection):
        old = fetch(connection, SQL["ended_of_queues"], (since, until, json.dumps(queues), most))
        connection.executemany(SQL["delete_log"], old)
        connection.executemany(SQL["delete_notes"], old)
        connection.executemany(SQL["delete_ended"], old)
        return len(old)


def mute_cause(connection: apsw.Connection, term: int, holder: str, cause: str, until: int | None) -> bool:
    """Mute a cause, or let it be seen again."""
    with transaction(connection):
        _check_term(connection, term, holder)
        connection.execute(SQL["mute_cause"], (cause, until))
        return connection.changes() == 1


def forget_cause(connection: apsw.Connection, term: int, holder: str, cause: str, most: int) -> int:
    """Forget ended jobs of a cause, and the cause with the last of them."""
    with transaction(connection):
        _check_term(connection, term, holder)
        old = fetch(connection, SQL["ended_of_cause"], (cause, most))
        connection.executemany(SQL["delete_log"], old)
        connection.executemany(SQL["delete_notes"], old)
        connection.executemany(SQL["delete_ended"], old)
        if not fetch(connection, SQL["ended_of_cause"], (cause, 1)):
            connection.execute(SQL["delete_cause"], (cause,))
        return len(old)


def settle_calls(
    connection: apsw.Connection, over: Sequence[int], later: Sequence[tuple[int, int, int]]
) -> None:
    """Forget calls, put others off."""
    with transaction(connection):
        connection.executemany(SQL["delete_call"], [(number,) for number in over])
        connection.executemany(SQL["retry_call"], later)


def note_culprit(connection: apsw.Connection, row: tuple[str, str, str, int | None, int]) -> None:
    """Count one more leader that ended on a call or job, and forget what is too old or too much."""
    since = row[-1] - CULPRIT_SECONDS * MICRO
    with transaction(connection):
        connection.execute(SQL["forget_culprits"], (row[0], since, MOST_CULPRITS - 1))
        connection.execute(SQL["note_culprit"], (*row, since))


def delete_jobs(connection: apsw.Connection, term: int, holder: str, jobs: Sequence[int]) -> list[int]:
    """Forget those of *jobs* that have ended, and what they wrote and said of themselves."""
    with transaction(connection):
        _check_term(connection, term, holder)
        ended = fetch(connection, SQL["ended_among"], (json.dumps(jobs),))
        connection.executemany(SQL["delete_log"], ended)
        connection.executemany(SQL["delete_notes"], ended)
        connection.executemany(SQL["delete_ended"], ended)
        return [job for (job,) in ended]


def _check_term(connection: apsw.Connection, term: int, holder: str) -> None:
    if not fetch(connection, SQL["check_term"], (term, holder)):
        raise Deposed(f"term {term} of {holder} is over")


def _tidy_events(connection: apsw.Connection, now: int, most: int, event_bytes: int) -> None:
    since = (now - EVENT_SECONDS * MICRO, event_bytes)
    found = fetch(connection, SQL["first_event_since"], since)
    first = found[0][0] if found else 1 << 62
    connection.execute(SQL["tidy_events"], (first, most))
