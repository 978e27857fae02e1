"""A schedule's step: its row and the jobs it submits, inside the transaction that has checked the term."""

from __future__ import annotations

from collections.abc import Mapping

from fairway.store import Accepted, ScheduleChange, ScheduleRow
from fairway.stores.postgres.connection import Connection
from fairway.stores.postgres.inserting import insert_submissions

Sql = Mapping[str, str]


async def write_schedule(
    connection: Connection, sql: Sql, change: ScheduleChange, now: int, schema: str
) -> list[Accepted] | None:
    """Replace a schedule and insert its jobs, if it is as it was seen."""
    name, before, row, submissions = change
    if not await _replace(connection, sql, name, before, row):
        return None
    if not submissions:
        return []
    return (await insert_submissions(connection, sql, submissions, now, schema=schema)).accepted


async def _replace(connection: Connection, sql: Sql, name: str, before: int, row: ScheduleRow | None) -> bool:
    if row is None:
        status = await connection.execute(sql["drop_schedule"], name, before)
    elif before == 0:
        status = await connection.execute(sql["add_schedule"], *row)
    else:
        status = await connection.execute(sql["change_schedule"], *row, before)
    return bool(status.endswith(" 1"))
