"""A schedule's step: its row and the jobs it submits, in one transaction fenced by the term."""

from __future__ import annotations

import apsw

from fairway.errors import Deposed
from fairway.store import Accepted, ScheduleChange, ScheduleRow
from fairway.stores.sqlite.connection import fetch, transaction
from fairway.stores.sqlite.inserting import insert_submissions
from fairway.stores.sqlite.sql import SQL


def write_schedule(
    connection: apsw.Connection, term: int, holder: str, change: ScheduleChange, now: int
) -> list[Accepted] | None:
    """Replace a schedule and insert its jobs, if it is as it was seen."""
    name, before, row, submissions = change
    with transaction(connection):
        if not fetch(connection, SQL["check_term"], (term, holder)):
            raise Deposed(f"term {term} of {holder} is over")
        if not _replace(connection, name, before, row):
            return None
        if not submissions:
            return []
        return insert_submissions(connection.execute, connection.executemany, submissions, now).accepted


def _replace(connection: apsw.Connection, name: str, before: int, row: ScheduleRow | None) -> bool:
    if row is None:
        connection.execute(SQL["drop_schedule"], (name, before))
    elif before == 0:
        connection.execute(SQL["add_schedule"], row)
    else:
        connection.execute(SQL["change_schedule"], (*row, before))
    return connection.changes() == 1
